"""The journal's values as bytes: commands, and session states that are read without trusting them."""

import hashlib
import io
import json
import pickle
import sys
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from whispertide.audio.buffer import to_float
from whispertide.server.observers import Command
from whispertide.server.protocols.base import Audio, Clear, Configure, Finish, Flush
from whispertide.types import FloatArray

_SCALE = 32768
AUDIO = ("s16", "f32")
_LAYOUT = 8  # bytes
_PLAIN: Mapping[str, Command] = {"flush": Flush(), "clear": Clear(), "finish": Finish()}


def pack(command: Command) -> tuple[str, bytes]:
    """Split a command into its kind and its data."""
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


def unpack(kind: str, data: bytes) -> Command:
    """Rebuild a command from the values of `pack`."""
    if kind in AUDIO:
        return Audio(samples_of(kind, data))
    return Configure(json.loads(data)) if kind == "configure" else _PLAIN[kind]


def samples_of(kind: str, data: bytes) -> FloatArray:
    """The samples of a command whose kind is one of `AUDIO`."""
    return to_float(np.frombuffer(data, "<i2" if kind == "s16" else "<f4"))


def dump_state(state: Any) -> bytes:
    """Pickle the state of a session. Raises `PicklingError`, `TypeError` or `AttributeError`."""
    writer = _StateWriter(file := io.BytesIO())
    writer.dump(state)
    return _layout(writer.classes) + file.getvalue()


def load_state(data: bytes) -> Any:
    """Read the bytes of `dump_state`. Raises `ValueError` for one whose classes have other fields here."""
    loader = StateLoader(io.BytesIO(data[_LAYOUT:]))
    state = loader.load()
    if data[:_LAYOUT] != _layout(loader.classes):
        raise ValueError("expected the state of a session as this version of the program writes it; got another one's")
    return state


def _layout(classes: Collection[type]) -> bytes:
    """Describe the fields of classes. Pickle keeps the values of frozen classes by position alone; so this shows if
    positions have changed.
    """
    named = sorted((each.__module__, each.__qualname__, [one.name for one in fields(each)]) for each in classes)
    return hashlib.sha256(json.dumps(named).encode()).digest()[:_LAYOUT]


class _StateWriter(pickle.Pickler):
    """A pickler that collects the classes of the values."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.classes: set[type] = set()

    def reducer_override(self, value: Any) -> Any:
        """Note the class; everything is pickled as usual."""
        if is_dataclass(type(value)):
            self.classes.add(type(value))
        return NotImplemented


class StateLoader(pickle.Unpickler):
    """Reads states of sessions and nothing else: a tampered journal cannot run programs, nor import any."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.classes: set[type] = set()

    def find_class(self, module: str, name: str) -> Any:
        """Find only the engine's values and numpy's arrays, in modules that are already imported."""
        # Nothing is imported: what is not loaded yet, a state has no use for.
        found = getattr(sys.modules.get(module), name, None)
        if (module, name) in _NUMPY:
            return found
        if (
            module.startswith(_ENGINE)
            and isinstance(found, type)
            and is_dataclass(found)
            and found.__module__ == module
        ):
            self.classes.add(found)
            return found
        raise pickle.UnpicklingError(f"expected the state of a session; got {module}.{name}")


_ENGINE = tuple(
    f"whispertide.{part}"
    for part in (
        "audio.",
        "decoding.",
        "streaming.",
        "methods.",
        "recipes.",
        "speakers.",
        "translation.",
        "understand.",
    )
)
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
