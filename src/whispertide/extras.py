"""The optional packages: which extra brings them, whether they are here, and how to get them.

whispertide is on no package index yet, so its name there is free for anybody to register: every hint names the
checkout instead. Imports nothing but the errors.
"""

import importlib.util
import shlex
import sys
from collections.abc import Mapping
from types import MappingProxyType

from whispertide.errors import OptionError

_BENCH = ("espeakng_loader", "jiwer", "matplotlib", "textalloc", "whisper_normalizer")
_SERVER = ("prometheus_client", "python_multipart", "starlette", "uvicorn", "websockets")

# Extra (pyproject.toml) -> the modules that its packages bring.
EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "bench": _BENCH,
        "fleet": (*_SERVER, "nats"),
        "ray": ("ray",),
        "server": _SERVER,
        "tracing": (*_SERVER, "opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk"),
        "train": (*_BENCH, "peft", "threadpoolctl", "torch"),
    }
)


def how_to_install(extra: str) -> str:
    """What to do to get an extra, for the end of a message: with this very Python, from the checkout."""
    python = shlex.quote(sys.executable or "python3")
    return f"in the checkout of whispertide run: {python} -m pip install '.[{extra}]'"


def require(extra: str, purpose: str) -> None:
    """Raise `OptionError` where a package of `extra` is missing, needed for `purpose`; loads nothing."""
    missing = [name for name in EXTRAS[extra] if not _is_here(name)]
    if missing:
        raise OptionError(
            f"expected the extra {extra!r} for {purpose}; not installed: {', '.join(missing)}; {how_to_install(extra)}"
        )


def _is_here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what it is a part of is not
        return False
