"""The optional packages: their extras, whether they are installed, and how to install them.

whispertide is on no package index yet, so its name there is free for anybody to register: every hint names the
checkout instead. Imports nothing but the errors.
"""

import importlib.util
import shlex
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from whispertide.errors import OptionError

_PLOTS = ("matplotlib", "textalloc")
_SERVER = ("prometheus_client", "python_multipart", "segno", "starlette", "uvicorn", "websockets")
_LAB = ("whispertide_lab", "espeakng_loader", "jiwer", "onnx", "whisper_normalizer", *_PLOTS)

# Extra (pyproject.toml) -> the modules that its packages bring. `lab` is the laboratory, a distribution of its own in
# the checkout, and `train` is its extra (lab/pyproject.toml).
EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "dictate": ("pynput",) if sys.platform in ("darwin", "win32") else ("xcffib",),
        "discovery": (*_SERVER, "zeroconf", "ifaddr"),
        "fleet": (*_SERVER, "nats"),
        "lab": _LAB,
        "plots": _PLOTS,
        "ray": ("ray",),
        "server": _SERVER,
        "tracing": (*_SERVER, "opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk"),
        "translation": ("ctranslate2", "sentencepiece"),
        "train": (*_LAB, "peft", "threadpoolctl", "torch"),
    }
)
_NAMES = {"lab": "the laboratory (whispertide-lab)", "train": "the extra 'train' of the laboratory (whispertide-lab)"}
_PLACES = {"lab": "./lab", "train": "'./lab[train]'"}


def how_to_install(extra: str) -> str:
    """Instructions to install an extra, for the end of a message: with this very Python, from the checkout."""
    python = shlex.quote(sys.executable or "python3")
    place = _PLACES.get(extra, f"'.[{extra}]'")
    return f"in the checkout of whispertide run: {python} -m pip install {place}"


def not_installed(extra: str, purpose: str, missing: Sequence[str] = ()) -> str:
    """The sentence for a missing extra that `purpose` needs, or for these modules of it."""
    lacks = f"not installed: {', '.join(missing)}" if missing else "it is not installed"
    return f"expected {_NAMES.get(extra, f'the extra {extra!r}')} for {purpose}; {lacks}; {how_to_install(extra)}"


def require(extra: str, purpose: str) -> None:
    """Raise `OptionError` if a package of `extra` is missing, needed for `purpose`; loads nothing."""
    missing = [name for name in EXTRAS[extra] if not _is_here(name)]
    if missing:
        raise OptionError(not_installed(extra, purpose, missing))


def _is_here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what it is a part of is not
        return False
