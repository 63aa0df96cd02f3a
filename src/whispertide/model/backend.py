"""Backends: what computes a model in place of ONNX Runtime, found by name among the installed packages' entry points.

A package names its backend in the entry point group `whispertide.backends`. This one brings `torch`, which needs the
extra `train`; nothing is imported before a backend is asked for, so the runtime itself never needs torch.
"""

from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from whispertide.errors import ProviderError
from whispertide.extras import how_to_install
from whispertide.model.request import DecoderRun, Head
from whispertide.types import FloatArray

if TYPE_CHECKING:
    from whispertide.checkpoint import Checkpoint
    from whispertide.model.encoder import Encoded
    from whispertide.options import EngineOptions

GROUP = "whispertide.backends"
BACKENDS = ("torch",)  # provider names that are no execution providers of ONNX Runtime


class EncoderRun(Protocol):
    """Hears windows of log-mel (`encoder.Encoder`)."""

    def encode(
        self,
        mel: FloatArray,
        *,
        valid_frames: int | None = None,
        mask_padding: bool = True,
        attention: FloatArray | None = None,
        hidden: bool = False,
    ) -> "Encoded":
        """Encode one window; shapes and errors as `encoder.Encoder.encode` has them. The keys and values of the result
        are arrays, runtime tensors or anything that numpy can read: any backend's decoder takes any backend's window.
        """


class DecoderStart(Protocol):
    """Starts decoders over encoded windows (`decoder.Decoder`)."""

    def start(self, encoded: "Encoded", heads: Sequence[Head] = ()) -> DecoderRun:
        """A fresh decoder over `encoded` that returns the cross-attention of `heads` with every run. Raises
        `GraphError` for heads that the model has not.
        """


class Backend(EncoderRun, DecoderStart, Protocol):
    """One model, whole."""


class BackendClass(Protocol):
    """What an entry point names."""

    def __call__(self, checkpoint: "Checkpoint", options: "EngineOptions") -> Backend:
        """Load the model. Raises `ProviderError` for options that it cannot satisfy."""

    def accelerated(self) -> bool:
        """Whether it computes on something else than the processor."""


def is_installed(name: str) -> bool:
    """Whether the backend of that name can be loaded; loads nothing."""
    return bool(entry_points(group=GROUP, name=name)) and find_spec(name) is not None


def check_installed(name: str) -> None:
    """Raise `ProviderError` where the backend of that name cannot be loaded; loads nothing."""
    if not is_installed(name):
        raise ProviderError(
            f"expected the backend {name!r} to be installed; it is not. The extra 'train' brings torch: "
            f"{how_to_install('train')}"
        )


def load_backend(name: str) -> BackendClass:
    """The backend of that name. Raises `ProviderError` where it is not installed."""
    check_installed(name)
    loaded: BackendClass = next(iter(entry_points(group=GROUP, name=name))).load()
    return loaded


def is_accelerated(name: str) -> bool:
    """Whether the backend of that name is installed and computes on something else than the processor here."""
    return is_installed(name) and load_backend(name).accelerated()
