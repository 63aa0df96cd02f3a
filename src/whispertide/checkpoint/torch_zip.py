"""A file of `torch.save`, read without torch and without running any of it.

A `.pt` is a zip of a pickle and one raw block per storage (pytorch, torch/serialization.py). A pickle is a program; the
one here may only build containers and describe tensors: any other global is refused by name before it is touched.

A few bytes of pickle can also ask for a memo of 2^32 places, for a value that unfolds to 2^50 others, or for a nesting
that no stack can hold. Python's own reader follows. So the program is read once before (`check_bounds`), with numbers
in place of values. Nothing here knows about Whisper.
"""

import io
import pickle
import pickletools
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint import magic
from whispertide.checkpoint.safetensors_file import to_float
from whispertide.checkpoint.untrusted import count_elements, quote, shorten
from whispertide.errors import CheckpointError, CheckpointNotFoundError

_DEPTH = 64  # a saved checkpoint has ten
_STEPS = 300_000  # of the program; 1,280 tensors take 38,000, and all of them most of a second
_VALUES = 2_000_000  # large-v3 has some 60,000


@dataclass(frozen=True, slots=True)
class _Value:
    """The size of a value: the values that it consists of, repeated ones counted each time, and their depth."""

    count: int = 1
    depth: int = 1


class _Mark:
    """The mark on the stack where a list of arguments begins."""


def check_bounds(pickled: bytes) -> None:
    """Raises `ValueError` for a pickle that is damaged or would grow without bounds."""
    stack: list[_Value | _Mark] = []
    memo: dict[int, _Value] = {}
    for step, (code, number, _) in enumerate(pickletools.genops(pickled)):
        name = code.name
        # Python's reader stops here as well, whatever follows.
        if name == "STOP":
            return
        if step >= _STEPS:
            raise ValueError(f"the pickle unfolds in more than {_STEPS} steps")
        if name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            place = len(memo) if name == "MEMOIZE" else _number(number)
            # No writer numbers further than it has gone, and Python's reader would make room for all the numbers
            # before.
            if place > step:
                raise ValueError(f"step {step} of the pickle wants to remember a value as number {place}")
            memo[place] = _top(stack)
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[_number(number)])
        elif name == "DUP":
            stack.append(_top(stack))
        elif name == "POP":
            stack.pop()
        else:
            _apply(code, stack)


def _number(argument: object) -> int:
    if not isinstance(argument, int) or argument < 0:
        raise ValueError(f"the pickle names its value {quote(argument)}")
    return argument


def _top(stack: list[_Value | _Mark]) -> _Value:
    value = stack[-1] if stack else None
    if not isinstance(value, _Value):
        raise ValueError("the pickle names a value that is not there")
    return value


def _apply(code: Any, stack: list[_Value | _Mark]) -> None:
    """Apply an operation to the stack."""
    if code.name == "MARK":
        stack.append(_Mark())
        return
    taken = _taken(code, stack)
    if not code.stack_after:
        return
    value = _Value(1 + sum(item.count for item in taken), 1 + max((item.depth for item in taken), default=0))
    if value.count > _VALUES or value.depth > _DEPTH:
        raise ValueError(f"the pickle unfolds to {value.count} values, nested {value.depth} deep")
    stack += [value] * len(code.stack_after)


def _taken(code: Any, stack: list[_Value | _Mark]) -> list[_Value]:
    before = code.stack_before
    values: list[_Value] = []
    if pickletools.markobject in before:
        while not isinstance(item := stack.pop(), _Mark):
            values.append(item)
        before = before[: before.index(pickletools.markobject)]
    for _ in before:
        values.append(_top(stack))
        stack.pop()
    return values


_MOST_STRIDE = 1 << 40
_MAX_PICKLE = 4 << 20  # bytes; large-v3 needs a few hundred thousand
_MAX_ENTRIES = 20_000  # large-v3 has 1,300
_PICKLE_MAGIC = b"\x80"

_STORAGE_DTYPES = {
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    # numpy has no bfloat16: its bits are read, and widened later.
    "BFloat16Storage": "u2",
    "DoubleStorage": "f8",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ByteStorage": "u1",
    "BoolStorage": "u1",
}
_FLOATS = frozenset({"FloatStorage", "HalfStorage", "BFloat16Storage", "DoubleStorage"})


@dataclass(frozen=True, slots=True)
class Storage:
    """A block of numbers in the archive: `kind` is torch's name of its type, `size` counts its elements."""

    kind: str
    key: str
    size: int


@dataclass(frozen=True, slots=True)
class TorchTensor:
    """A view into a storage; `offset` and `strides` count elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __post_init__(self) -> None:
        numbers = (self.offset, *self.shape, *self.strides)
        # Exactly int: True is one, too, and no size.
        if len(self.shape) != len(self.strides) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("a tensor whose shape, strides and offset are not counts")
        most = self.storage.size
        count_elements(self.shape, most)  # strides of 0 would make much out of little
        # Before they are multiplied: a number may itself have millions of digits.
        if max((self.offset, *self.strides)) > _MOST_STRIDE or self.extent > most - self.offset:
            raise ValueError(f"tensor of shape {quote(self.shape)} reaches beyond its storage of {most}")

    @property
    def extent(self) -> int:
        """Elements of the storage from the first to the last that belongs to the tensor."""
        if 0 in self.shape:
            return 0
        return 1 + sum((count - 1) * stride for count, stride in zip(self.shape, self.strides, strict=True))


class _Mapping(dict[Any, Any]):
    """A stand-in for `collections.OrderedDict`, whose pickled attributes (`_metadata`) nobody needs."""

    def __setstate__(self, state: object) -> None:
        pass


class TorchZip:
    """The content of a `.pt` file: `root` is the saved object, with a `TorchTensor` for each tensor.

    Raises `CheckpointNotFoundError` when the file is missing and `CheckpointError` when it is damaged, of the format
    before torch 1.6, or refers to anything but tensors and plain containers.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                _check_magic(path, file.read(magic.SIZE))
            with zipfile.ZipFile(path) as archive:
                _check_entries(path, archive.infolist())
                self._sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
                self._prefix = self._find_prefix()
                self._byteorder = self._read_byteorder(archive)
                with archive.open(f"{self._prefix}/data.pkl") as pickled:
                    self.root = self._load(pickled.read(_MAX_PICKLE + 1))
        except FileNotFoundError as error:
            raise CheckpointNotFoundError(f"expected the checkpoint {path}, but there is no such file") from error
        except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
            raise self._damaged(error) from error
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error

    def read(self, tensor: TorchTensor) -> npt.NDArray[Any]:
        """Read the values of a tensor, contiguous: float16 as they are, other floats as float32.

        Raises `CheckpointError` when its block is missing or damaged.
        """
        kind = tensor.storage.kind
        if kind not in _FLOATS:
            raise CheckpointError(f"{self.path}: expected weights to be floating-point numbers; got a {kind}")
        dtype = np.dtype(_STORAGE_DTYPES[kind]).newbyteorder(self._byteorder)
        raw = self._read_block(tensor, dtype.itemsize)
        values = to_float(np.frombuffer(raw, dtype), is_bfloat16=kind == "BFloat16Storage")
        strides = tuple(stride * values.itemsize for stride in tensor.strides)
        # The extent was checked against the storage, and the block read is exactly the extent. The copy is writable.
        return np.array(np.lib.stride_tricks.as_strided(values, tensor.shape, strides), order="C")

    def _read_block(self, tensor: TorchTensor, itemsize: int) -> bytes:
        name, count = f"{self._prefix}/data/{tensor.storage.key}", tensor.extent * itemsize
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(name) as block:
                if tensor.offset:
                    block.seek(tensor.offset * itemsize)
                raw = block.read(count)
                if tensor.offset == 0 and count == self._sizes[name]:
                    block.read(1)  # at its end the archive compares the checksum
        except (zipfile.BadZipFile, EOFError, KeyError, NotImplementedError) as error:
            raise self._damaged(error) from error
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be read: {error}") from error
        if len(raw) != count:
            raise self._damaged(f"block {name} ends early")
        return raw

    def _find_prefix(self) -> str:
        """Find the folder inside the archive, which torch names after the file that it first wrote."""
        for name in self._sizes:
            folder, _, rest = name.rpartition("/")
            if rest == "data.pkl" and folder:
                return folder
        raise CheckpointError(f"{self.path} is a zip file but was not written by torch.save; expected a Whisper .pt")

    def _read_byteorder(self, archive: zipfile.ZipFile) -> Any:
        name = f"{self._prefix}/byteorder"
        if name not in self._sizes:
            return "<"
        with archive.open(name) as file:
            return ">" if file.read(16).strip() == b"big" else "<"

    def _load(self, pickled: bytes) -> Any:
        if len(pickled) > _MAX_PICKLE:
            raise CheckpointError(f"{self.path}: expected a description of tensors; its pickle is beyond all measure")
        try:
            check_bounds(pickled)
            return _TensorUnpickler(io.BytesIO(pickled), self.path, self._sizes, self._prefix).load()
        except CheckpointError:
            raise
        except Exception as error:  # a damaged pickle can raise almost anything
            raise self._damaged(error) from error

    def _damaged(self, reason: str | Exception) -> CheckpointError:
        detail = shorten(f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else reason, 100)
        return CheckpointError(f"{self.path} is damaged or truncated ({detail}); download it again")


class _TensorUnpickler(pickle.Unpickler):
    """Builds containers and `TorchTensor`s; refuses every other global."""

    def __init__(self, file: BinaryIO, path: Path, sizes: Mapping[str, int], prefix: str) -> None:
        super().__init__(file)
        self._path = path
        self._sizes = sizes
        self._prefix = prefix
        # Made anew for each file: whatever a pickle does to these functions ends with it.
        self._globals: dict[tuple[str, str], object] = {
            ("collections", "OrderedDict"): _Mapping,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuilder(),
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
            **{("torch", kind): kind for kind in _STORAGE_DTYPES},
        }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._globals[module, name]
        except KeyError:
            raise CheckpointError(
                f"{self._path} refers to {shorten(f'{module}.{name}')}, which weights have no need of; it was not run. "
                "If you trust the file, load it with torch and save only its 'dims' and 'model_state_dict' as plain "
                "dictionaries."
            ) from None

    def persistent_load(self, pid: Any) -> Storage:
        tag, kind, key, _location, size = pid
        if tag != "storage" or kind not in _STORAGE_DTYPES or type(key) is not str or type(size) is not int:
            raise ValueError(f"unknown storage {quote(pid)}")
        expected = size * np.dtype(_STORAGE_DTYPES[kind]).itemsize
        found = self._sizes.get(f"{self._prefix}/data/{key}")
        if found != expected:
            raise CheckpointError(
                f"{self._path} is damaged: expected {quote(expected)} bytes in its block data/{shorten(key)}, found "
                f"{'no such block' if found is None else found}; download it again"
            )
        return Storage(kind, key, size)


def _rebuilder() -> Callable[..., TorchTensor]:
    def rebuild(storage: object, offset: int, shape: Any, strides: Any, *_: object) -> TorchTensor:
        if not isinstance(storage, Storage):
            raise ValueError(f"tensor without a storage: {quote(storage)}")
        return TorchTensor(storage, offset, tuple(shape), tuple(strides))

    return rebuild


def is_bomb(entries: Sequence[zipfile.ZipInfo], size: int) -> bool:
    """True if an archive of this size holds more than that: it is compressed, or its blocks overlap.

    What writes arrays and tensors stores them as they are, so such an archive is a bomb.
    """
    # Blocks that share bytes each count in full, so their sum passes the size of the file.
    packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
    return packed or sum(entry.file_size for entry in entries) > size


def _check_entries(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    size = path.stat().st_size
    if is_bomb(entries, size) or len(entries) > _MAX_ENTRIES:
        wanted = sum(entry.file_size for entry in entries)
        raise CheckpointError(
            f"{path} was not written by torch.save: expected uncompressed blocks of at most {size} bytes in all; got "
            f"{len(entries)} blocks of {wanted} bytes"
        )


def _check_magic(path: Path, start: bytes) -> None:
    if start == magic.ZIP:
        return
    if start[:1] == _PICKLE_MAGIC:
        raise CheckpointError(
            f"{path} has the format of torch before 1.6, which can only be read by running it. If you trust the file, "
            "convert it where torch is installed: "
            "python -c \"import torch; torch.save(torch.load('OLD.pt', weights_only=True), 'NEW.pt')\""
        )
    raise CheckpointError(
        f"{path} is not a checkpoint: expected a zip file as torch.save writes it, found {magic.describe(start)}"
    )
