"""Engines that stand in place of ONNX Runtime, found by name among the installed packages' entry points.

A package names its engine in the entry point group `whispertide.engines`. The laboratory brings `torch`, which needs
its extra `train`; nothing is imported before an engine is asked for, so the runtime itself never needs torch.
"""

from importlib.metadata import entry_points
from importlib.util import find_spec

from whispertide.errors import ProviderError
from whispertide.extras import how_to_install
from whispertide.model.engine import EngineClass

GROUP = "whispertide.engines"
OTHER_ENGINES = ("torch",)  # provider names that are no execution providers of ONNX Runtime


def is_installed(name: str) -> bool:
    """True if the engine of that name can be loaded; loads nothing."""
    return bool(entry_points(group=GROUP, name=name)) and find_spec(name) is not None


def check_installed(name: str) -> None:
    """Raise `ProviderError` where the engine of that name cannot be loaded; loads nothing."""
    if not is_installed(name):
        raise ProviderError(
            f"expected the engine {name!r} to be installed; it is not. The laboratory's extra 'train' brings torch: "
            f"{how_to_install('train')}"
        )


def load_engine(name: str) -> EngineClass:
    """The engine of that name. Raises `ProviderError` where it is not installed."""
    check_installed(name)
    loaded: EngineClass = next(iter(entry_points(group=GROUP, name=name))).load()
    return loaded


def is_accelerated(name: str) -> bool:
    """True if the engine of that name is installed and computes on something else than the processor here."""
    return is_installed(name) and load_engine(name).accelerated()
