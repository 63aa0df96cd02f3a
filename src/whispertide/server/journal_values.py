"""What the journal writes of a session, as bytes: commands, and states that are read without trusting them."""

import json
import pickle
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from whispertide.audio.buffer import to_float
from whispertide.server.live import Command
from whispertide.server.protocols.base import Audio, Clear, Configure, Finish, Flush
from whispertide.types import FloatArray

_SCALE = 32768
AUDIO = ("s16", "f32")
_PLAIN: Mapping[str, Command] = {"flush": Flush(), "clear": Clear(), "finish": Finish()}


def packed(command: Command) -> tuple[str, bytes]:
    """The kind of a command, and what else there is of it."""
    match command:
        case Audio(samples):
            scaled = samples * np.float32(_SCALE)
            # Checked first, because a float beyond the range of int16 becomes an arbitrary one. NaN fails the
            # comparison.
            short = scaled.astype(np.int16) if np.all(np.abs(scaled) < _SCALE) else None
            if short is not None and np.array_equal(short, scaled):
                return "s16", short.astype("<i2").tobytes()  # half the size, and exactly the same
            return "f32", samples.astype("<f4").tobytes()
        case Configure(changes):
            return "configure", json.dumps(dict(changes)).encode()
    return type(command).__name__.lower(), b""


def unpacked(kind: str, data: bytes) -> Command:
    """The command that was `packed`."""
    if kind in AUDIO:
        return Audio(samples_of(kind, data))
    return Configure(json.loads(data)) if kind == "configure" else _PLAIN[kind]


def samples_of(kind: str, data: bytes) -> FloatArray:
    """The samples of a command whose kind is one of `AUDIO`."""
    return to_float(np.frombuffer(data, "<i2" if kind == "s16" else "<f4"))


class StateLoader(pickle.Unpickler):
    """Reads states of sessions and nothing else: a tampered journal cannot run programs, nor import any."""

    def find_class(self, module: str, name: str) -> Any:
        """Only the engine's values and numpy's arrays, from modules that are there already."""
        # Nothing is imported: what is not loaded yet, a state has no use for.
        found = getattr(sys.modules.get(module), name, None)
        if (module, name) in _NUMPY:
            return found
        is_value = isinstance(found, type) and is_dataclass(found) and found.__module__ == module
        if module.startswith(_ENGINE) and is_value:
            return found
        raise pickle.UnpicklingError(f"expected the state of a session; got {module}.{name}")


_ENGINE = tuple(f"whispertide.{part}" for part in ("audio.", "decoding.", "streaming."))
_ENGINE += tuple(f"whispertide.{part}" for part in ("events", "options", "session", "types"))
# numpy 1 kept them in `numpy.core`
_NUMPY = frozenset(
    (module, name)
    for module, name in (
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
        *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
    )
)
