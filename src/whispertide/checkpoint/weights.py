"""The tensors of a checkpoint under canonical names, read from the disk one at a time.

The files may be safetensors or `pytorch_model.bin`, one or several with an index, or palettes, or an OpenAI `.pt`, or
those of CTranslate2 and whisper.cpp. This module does not know where they come from, nor what is done with the numbers.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint.ctranslate2_file import CTranslate2File
from whispertide.checkpoint.ctranslate2_layout import check_specification, dims_of, tensors_of
from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.ggml_file import GgmlFile
from whispertide.checkpoint.json_file import read_json
from whispertide.checkpoint.layout import (
    EMBEDDING,
    OUTPUT_PROJECTION,
    Shape,
    check_tensors,
    from_hf_name,
    from_openai_name,
)
from whispertide.checkpoint.palette_file import PaletteFile, is_palettised
from whispertide.checkpoint.published_causal import base_state, has_layout
from whispertide.checkpoint.safetensors_file import FLOATS, SafetensorsFile
from whispertide.checkpoint.torch_zip import TorchTensor, TorchZip
from whispertide.checkpoint.untrusted import quote, shorten
from whispertide.errors import CheckpointError, CheckpointNotFoundError

WEIGHTS = "model.safetensors"

# The single file, and the index of shards, of each format that a folder may have; the first that is there is read.
CONVERTED = "model.bin"  # CTranslate2's name
WEIGHT_FORMATS = (
    (WEIGHTS, "model.safetensors.index.json"),
    ("pytorch_model.bin", "pytorch_model.bin.index.json"),
    (CONVERTED, f"{CONVERTED}.index.json"),
)

Weights = npt.NDArray[Any]  # float16 or float32


Change = Callable[[Weights], Weights]


class _File(Protocol):
    def read(self, key: Any, /) -> Weights: ...


@dataclass(frozen=True, slots=True)
class _Entry:
    shape: Shape
    file: _File
    key: object  # what the file knows the tensor by

    def read(self) -> Weights:
        return self.file.read(self.key)


class _Changed:
    """Tensors that are changed whenever they are read; the key is the original entry and the change."""

    def read(self, key: tuple[_Entry, Change], /) -> Weights:
        entry, change = key
        return change(entry.read())


class TensorStore:
    """Tensors by canonical name (see `layout`). Holds shapes only: each `get` reads the disk."""

    def __init__(self, entries: Mapping[str, _Entry], files: tuple[Path, ...], source: str) -> None:
        self._entries = dict(entries)
        self.files = files
        self.source = source

    @classmethod
    def from_folder(cls, folder: Path) -> "TensorStore":
        """Open the files with the weights of a Hugging Face folder.

        Raises `CheckpointNotFoundError` when they, or some that the index lists, are missing; `CheckpointError` when
        one is damaged, or when the output projection is not the token embedding.
        """
        files = weight_files(folder)
        entries = {from_hf_name(name): entry for path in files for name, entry in _open(path)}
        store = cls(entries, files, str(folder))
        store._drop_output_projection()
        return store

    @classmethod
    def from_openai(cls, path: Path) -> "tuple[TensorStore, ModelDims]":
        """Open an OpenAI `.pt`, which has the dimensions too, or the plain Whisper in a published causal one.

        Raises `CheckpointNotFoundError` when it is missing, `CheckpointError` when it is damaged, unsafe, or holds
        something else.
        """
        file = TorchZip(path)
        root = file.root
        if has_layout(root) and isinstance(root["state_dict"], dict):
            root = {"dims": root["dims"], "model_state_dict": base_state(root["state_dict"])}
        if not isinstance(root, dict) or not {"dims", "model_state_dict"} <= root.keys():
            found = quote(sorted(map(str, root))) if isinstance(root, dict) else type(root).__name__
            raise CheckpointError(
                f"expected {path} to hold 'dims' and 'model_state_dict', as OpenAI's checkpoints do; found {found}. "
                "For Hugging Face weights name their folder instead."
            )
        dims, state = root["dims"], root["model_state_dict"]
        if not isinstance(dims, dict) or not isinstance(state, dict):
            raise CheckpointError(f"expected 'dims' and 'model_state_dict' of {path} to be dictionaries")
        entries: dict[str, _Entry] = {}
        for name, tensor in state.items():
            canonical = from_openai_name(str(name))
            if canonical is not None and isinstance(tensor, TorchTensor):
                entries[canonical] = _Entry(tensor.shape, file, tensor)
        return cls(entries, (path,), str(path)), ModelDims.from_openai(dims)

    @classmethod
    def from_ctranslate2(cls, folder: Path) -> "tuple[TensorStore, ModelDims]":
        """Open the `model.bin` of a folder of CTranslate2, and derive the dimensions from its tensors.

        Raises `CheckpointNotFoundError` when it is missing, `CheckpointError` when it is damaged or another model.
        """
        file = CTranslate2File(folder / CONVERTED)
        check_specification(file)
        dims = dims_of(file)
        entries = {name: _Entry(rows.shape, file, rows) for name, rows in tensors_of(file)}
        store = cls(entries, (file.path,), str(folder))
        store._drop_output_projection()
        return store, dims

    @classmethod
    def from_ggml(cls, file: GgmlFile) -> "TensorStore":
        """Take the tensors of an open file of whisper.cpp."""
        entries: dict[str, _Entry] = {}
        for name, tensor in file.tensors.items():
            canonical = from_openai_name(name)
            if canonical is not None:
                entries[canonical] = _Entry(tensor.shape, file, tensor)
        return cls(entries, (file.path,), str(file.path))

    def names(self) -> frozenset[str]:
        return frozenset(self._entries)

    def shape(self, name: str) -> Shape:
        """Shape of one tensor, without reading it. Raises `CheckpointError` if there is none of this name."""
        return self._entry(name).shape

    def get(self, name: str) -> Weights:
        """Read one tensor: float16 if it is stored so, else float32 (bfloat16 becomes float32).

        Raises `CheckpointError` when there is none of this name, or the file was damaged or removed meanwhile.
        """
        return self._entry(name).read()

    def changed(self, changes: Mapping[str, Change]) -> "TensorStore":
        """Make a store of the same tensors, the named ones changed in values, not in shape. Nothing is read now."""
        new = {
            name: _Entry(self.shape(name), _Changed(), (self._entry(name), change)) for name, change in changes.items()
        }
        return TensorStore({**self._entries, **new}, self.files, self.source)

    def check(self, dims: ModelDims) -> None:
        """Raise `CheckpointError` unless these are the tensors of a Whisper of these dimensions."""
        check_tensors({name: entry.shape for name, entry in self._entries.items()}, dims, self.source)

    def _entry(self, name: str) -> _Entry:
        try:
            return self._entries[name]
        except KeyError:
            raise CheckpointError(f"{self.source} has no tensor {name!r}") from None

    def _drop_output_projection(self) -> None:
        """Drop the output projection, which is Whisper's embedding; some savers store it under both names, or under
        this one.
        """
        projection = self._entries.pop(OUTPUT_PROJECTION, None)
        if projection is None:
            return
        embedding = self._entries.setdefault(EMBEDDING, projection)
        if embedding == projection:  # the same place in the same file
            return
        # Compared by value: a saver may have written both copies out.
        if embedding.shape != projection.shape or not np.array_equal(embedding.read(), projection.read()):
            raise CheckpointError(
                f"{self.source} has an output projection ({OUTPUT_PROJECTION}) that differs from the token embedding; "
                "expected them tied, as in every Whisper"
            )


def weight_files(folder: Path) -> tuple[Path, ...]:
    """Find the files with the weights of a Hugging Face folder: one, or the shards of an index; safetensors if there
    are any.

    Raises `CheckpointNotFoundError` when there are none or a shard is missing, `CheckpointError` when the index is
    damaged.
    """
    for single, index in WEIGHT_FORMATS:
        if (folder / single).is_file():
            return (folder / single,)
        if (folder / index).is_file():
            return _shards(folder / index)
    raise CheckpointNotFoundError(
        f"expected {WEIGHTS} (or its shards with an index, or pytorch_model.bin) in {folder}; download the model again"
    )


def _shards(index: Path) -> tuple[Path, ...]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(_is_plain_name(file) for file in places.values()):
        raise CheckpointError(f"{index} has no usable weight_map: download the model again")
    shards = sorted(set(places.values()))
    missing = [shard for shard in shards if not (index.parent / shard).is_file()]
    if missing:
        raise CheckpointNotFoundError(
            f"{len(missing)} of {len(shards)} parts of the weights in {index.parent} are missing, first {missing[0]}; "
            "download the model again"
        )
    return tuple(index.parent / shard for shard in shards)


def _open(path: Path) -> Iterator[tuple[str, _Entry]]:
    """Read stored name and entry of every tensor in a file of a Hugging Face folder."""
    if path.suffix == ".safetensors":
        stored = SafetensorsFile(path)
        file = PaletteFile(stored) if is_palettised(stored) else _floats(stored)
        for name, shape in file.shapes.items():
            yield name, _Entry(shape, file, name)
        return
    pickled = TorchZip(path)
    if not isinstance(pickled.root, dict):
        raise CheckpointError(f"expected {path} to hold tensors by name; found {type(pickled.root).__name__}")
    for name, tensor in pickled.root.items():
        if isinstance(tensor, TorchTensor):
            yield str(name), _Entry(tensor.shape, pickled, tensor)


def _floats(file: SafetensorsFile) -> SafetensorsFile:
    """Return the file, if all its tensors are numbers."""
    for name, tensor in file.tensors.items():
        if tensor.dtype not in FLOATS:
            raise CheckpointError(
                f"{file.path}: {shorten(name)} has the type {tensor.dtype}; expected {', '.join(FLOATS)}. Quantised "
                "ones cannot be loaded, except those that `whispertide compress` makes: take the original weights."
            )
    return file


def _is_plain_name(file: object) -> bool:
    """True for a name without a path: a shard lies next to its index."""
    return isinstance(file, str) and bool(file) and Path(file).name == file and "\\" not in file
