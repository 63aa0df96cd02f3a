"""A file of whisper.cpp: dimensions, mel filters, the texts of all tokens, and the tensors, read one at a time.

Format (ggml-org/whisper.cpp, models/convert-pt-to-ggml.py and `whisper_model_load`), all little-endian: the magic,
eleven numbers; the filters; the number of tokens and the bytes of each; then every tensor with its dimensions, the last
first, and OpenAI's name, up to the end of the file. Of the tensors only what describes them is read when the file is
opened.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint import magic
from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.ggml_blocks import BLOCK, FORMATS, weights_of
from whispertide.checkpoint.safetensors_file import to_float
from whispertide.checkpoint.untrusted import count_elements, open_weights, read_exactly, read_numbers, shorten
from whispertide.errors import CheckpointError
from whispertide.features import mel_filters
from whispertide.types import N_FFT

_HYPERPARAMETERS = struct.Struct("<11i")
_PER_PART = ("ctx", "state", "head", "layer")
_INT = struct.Struct("<i")
_MOST_TOKENS = 100_000
_LONGEST_TOKEN = 1_024  # bytes
_MOST_TENSORS = 20_000
_LONGEST_NAME = 128
_MOST_DIMS = 4
_FILTER_ERROR = 1e-5  # the published ones agree with ours to 1e-8
_FLOATS = {0: "<f4", 1: "<f2"}  # ggml.h, ggml_type
_TYPES = {0: "f32", 1: "f16", **{kind: form.name for kind, form in FORMATS.items()}}


@dataclass(frozen=True, slots=True)
class _GgmlTensor:
    """The place of one tensor: `type` is ggml's number of it, `offset` is absolute, in bytes."""

    type: int
    shape: tuple[int, ...]
    offset: int


class GgmlFile:
    """The content of a file: `dims`, `tokens` (the bytes of each, by id), and `tensors` by OpenAI's names.

    Raises `CheckpointNotFoundError` when the file is missing and `CheckpointError` when it is none of whisper.cpp's,
    damaged, truncated, or made for other mel filters than Whisper's.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensors: dict[str, _GgmlTensor] = {}
        with open_weights(path, "file of whisper.cpp") as file:
            self._size = path.stat().st_size
            self._read(file)

    def read(self, tensor: _GgmlTensor) -> npt.NDArray[Any]:
        """Read one tensor: float16 as it is, float32 and block formats as float32.

        Raises `CheckpointError` when the file cannot be read any more.
        """
        count = _bytes_of(tensor, self._size)
        stored = read_numbers(self.path, np.uint8, count, tensor.offset)
        if tensor.type in FORMATS:
            try:
                return weights_of(stored, FORMATS[tensor.type]).reshape(tensor.shape)
            except ValueError as error:
                raise CheckpointError(f"{self.path} is damaged ({error}): download it again") from error
        return to_float(stored.view(_FLOATS[tensor.type])).reshape(tensor.shape)

    def _read(self, file: BinaryIO) -> None:
        if (start := read_exactly(file, magic.SIZE)) != magic.GGML:
            raise CheckpointError(
                f"expected a ggml file, as whisper.cpp reads it, at {self.path}; found {magic.describe(start)}"
            )
        stored = read_exactly(file, _HYPERPARAMETERS.size)
        try:
            self.dims = _dims(stored)
        except CheckpointError as error:
            raise CheckpointError(
                f"{self.path} is a ggml file, but of another model than Whisper, or damaged: {error}"
            ) from None
        self._check_filters(file)
        self.tokens = self._read_tokens(file)
        while (at := file.tell()) < self._size:
            if len(self.tensors) >= _MOST_TENSORS:
                raise ValueError(f"more than {_MOST_TENSORS} tensors")
            self._read_tensor(file, at)

    def _check_filters(self, file: BinaryIO) -> None:
        shape = (_int(file), _int(file))
        if shape != (self.dims.n_mels, N_FFT // 2 + 1):
            raise ValueError(f"mel filters of shape {shape}")
        found = np.frombuffer(read_exactly(file, 4 * count_elements(shape, self._size)), "<f4").reshape(shape)
        # Written so that what is no number fails as well.
        if not (np.abs(found - mel_filters(self.dims.n_mels)) < _FILTER_ERROR).all():
            raise CheckpointError(f"{self.path} has other mel filters than a Whisper: it is damaged, or another model")

    def _read_tokens(self, file: BinaryIO) -> tuple[bytes, ...]:
        count = _int(file)
        if not 0 < count <= min(_MOST_TOKENS, self.dims.n_vocab):
            raise ValueError(f"{count} tokens of {self.dims.n_vocab}")
        tokens = []
        for _ in range(count):
            length = _int(file)
            if not 0 <= length <= _LONGEST_TOKEN:
                raise ValueError(f"a token of {length} bytes")
            tokens.append(read_exactly(file, length))
        return tuple(tokens)

    def _read_tensor(self, file: BinaryIO, at: int) -> None:
        rank, length, kind = _int(file), _int(file), _int(file)
        if not 1 <= rank <= _MOST_DIMS or not 1 <= length <= _LONGEST_NAME:
            raise ValueError(f"no tensor at byte {at}")
        reversed_shape = struct.unpack(f"<{rank}i", read_exactly(file, 4 * rank))
        name = read_exactly(file, length).decode()
        if kind not in _TYPES:
            raise CheckpointError(
                f"{self.path}: {shorten(name)} has ggml's type {kind}; expected {', '.join(_TYPES.values())}: take a "
                "file in one of these"
            )
        if name in self.tensors:
            raise ValueError(f"{shorten(name)} is there twice")
        shape = tuple(reversed(reversed_shape))
        if name.endswith(".bias"):  # of a convolution: [n, 1]
            shape = shape[:1] if shape[1:] == (1,) else shape
        tensor = _GgmlTensor(kind, shape, file.tell())
        end = tensor.offset + _bytes_of(tensor, self._size)
        if end > self._size:
            raise ValueError(f"expected {end} bytes at least, found {self._size}")
        self.tensors[name] = tensor
        file.seek(end)


def _dims(stored: bytes) -> ModelDims:
    vocab, *numbers, mels, _ = _HYPERPARAMETERS.unpack(stored)  # the last one tells the type of most tensors
    audio, text = dict(zip(_PER_PART, numbers[:4], strict=True)), dict(zip(_PER_PART, numbers[4:], strict=True))
    return ModelDims.from_openai(
        {"n_mels": mels, "n_vocab": vocab}
        | {f"n_audio_{name}": number for name, number in audio.items()}
        | {f"n_text_{name}": number for name, number in text.items()}
    )


def _bytes_of(tensor: _GgmlTensor, most: int) -> int:
    """The size of a tensor in bytes. Raises `ValueError` for a shape that has no whole blocks, or more numbers than
    allowed.
    """
    # Two numbers a byte at most.
    count = count_elements(tensor.shape, 2 * most)
    if tensor.type not in FORMATS:
        return count * np.dtype(_FLOATS[tensor.type]).itemsize
    if tensor.shape[-1] % BLOCK:
        raise ValueError(f"rows of {tensor.shape[-1]} numbers in blocks of {BLOCK}")
    return count // BLOCK * FORMATS[tensor.type].block_bytes


def _int(file: BinaryIO) -> int:
    return int(_INT.unpack(read_exactly(file, 4))[0])
