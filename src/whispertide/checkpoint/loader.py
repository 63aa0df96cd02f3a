"""Load a checkpoint by name or path, and check it: dimensions, decoding settings, tokenizer, tensors.

No weights are read here but the headers of their files. This module does not know what a model computes.
"""

import hashlib
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from whispertide.checkpoint import hub
from whispertide.checkpoint.cache import cache_path, file_digest, read_note, write_note
from whispertide.checkpoint.ctranslate2_layout import generation_of
from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.generation import GenerationConfig
from whispertide.checkpoint.ggml_file import GgmlFile
from whispertide.checkpoint.json_file import read_json
from whispertide.checkpoint.layout import POSITIONS
from whispertide.checkpoint.magic import is_ggml
from whispertide.checkpoint.names import as_argument, display_name
from whispertide.checkpoint.tokenizer import Tokenizer
from whispertide.checkpoint.vocabulary import Vocabulary, has_tokenizer
from whispertide.checkpoint.weights import CONVERTED, TensorStore, weight_files
from whispertide.errors import CheckpointError, WhispertideError
from whispertide.types import Announce

_SAMPLED = 4096  # values of a tensor that its hash sees, evenly apart


@dataclass(frozen=True)
class Checkpoint:
    """A model: all but the engine that runs it.

    `caution` is what its maker warns of in a sentence or two, from its `training.json`; "" where nothing is said.
    """

    name: str
    dims: ModelDims
    generation: GenerationConfig
    tokenizer: Tokenizer
    tensors: TensorStore
    caution: str = ""

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over the dimensions and the whole content of the weight files.

        The digest of each file is computed when first asked for and remembered while the file stays unchanged.
        """
        content = hashlib.sha256(repr(astuple(self.dims)).encode())
        for path in self.tensors.files:
            content.update(bytes.fromhex(file_digest(path)))
        return content.hexdigest()

    @cached_property
    def tensors_hash(self) -> str:
        """SHA-256 over the dimensions and a sample of every tensor, as float16: the same for the same weights in any
        file format. Quantised weights differ.

        Computed when first asked for (all weights are read), and remembered for files of this content.
        """
        note, key = cache_path("tensors", f"{self.content_hash[:20]}.json"), {"content_hash": self.content_hash}
        known = (read_note(note, key) or {}).get("tensors_hash")
        if isinstance(known, str) and len(known) == 64:
            return known
        found = self._sampled()
        with suppress(OSError):  # a read-only or full cache costs time only
            write_note(note, key, {"tensors_hash": found})
        return found

    @property
    def hashes(self) -> tuple[str, str]:
        """The two hashes by which what was trained for it is known: of its files, and of its tensors in any files."""
        return self.content_hash, self.tensors_hash

    def _sampled(self) -> str:
        content = hashlib.sha256(repr(astuple(self.dims)).encode())
        for name in sorted(self.tensors.names()):
            # Positions of the encoder are computed, and not every format rounds them alike.
            if name.startswith(("encoder.", "decoder.")) and name != POSITIONS:
                values = self.tensors.get(name).reshape(-1)
                content.update(f"{name} {self.tensors.shape(name)} ".encode())
                with np.errstate(over="ignore"):  # of weights that nobody trained
                    content.update(np.ascontiguousarray(values[:: -(-len(values) // _SAMPLED)], "<f2").tobytes())
        return content.hexdigest()

    @property
    def folder(self) -> Path:
        """The folder of the weights, and of the attachments next to them (`attachments`)."""
        return self.tensors.files[0].parent

    @property
    def place(self) -> Path | None:
        """The user's own folder or file; None for a model with a name."""
        weights = self.tensors.files[0]
        try:
            known = hub.path(self.name)
        except WhispertideError:
            known = None
        return None if known in (weights, weights.parent) else Path(self.tensors.source)

    @property
    def argument(self) -> str:
        """The model's name on the command line: its own, or the path of a user's files."""
        return self.name if self.place is None else as_argument(self.place)


def load_checkpoint(
    name_or_path: str | Path, *, revision: str | None = None, announce: Announce | None = None
) -> Checkpoint:
    """Open a Whisper checkpoint, downloading it first if need be.

    `name_or_path` is the bundled "nano.en", a short name ("base.en"), a hub id ("org/name", "org/name@revision"), a
    folder in the layout of Hugging Face or CTranslate2 (faster-whisper), an OpenAI `.pt`, or a file of whisper.cpp
    (`ggml-*.bin`). `announce` is called before a download, with its name and size. Raises `CheckpointNotFoundError`,
    `DownloadError`, `DiskSpaceError`, or `CheckpointError` when the files are damaged or do not belong together.
    """
    place = hub.resolve(name_or_path, revision, announce=announce)
    name = display_name(name_or_path)
    if place.is_file():
        return _load_ggml(name, place) if is_ggml(place) else _load_openai(name, place, announce)
    converted = place / CONVERTED  # a name that people give to whisper.cpp's files as well
    if converted.is_file() and weight_files(place) == (converted,):
        return _load_ggml(name, converted) if is_ggml(converted) else _load_ctranslate2(name, place, announce)
    return _load_folder(name, place, announce)


def _load_folder(name: str, folder: Path, announce: Announce | None) -> Checkpoint:
    config = read_json(folder / "config.json")
    dims = ModelDims.from_hf_config(config)
    path = folder / "generation_config.json"
    generation = GenerationConfig.from_hf(read_json(path) if path.is_file() else None, config, dims)
    tensors = TensorStore.from_folder(folder)
    tensors.check(dims)
    tokenizer = _tokenizer(folder, dims, announce)
    start = config.get("decoder_start_token_id")
    if start is not None and start != tokenizer.sot:
        raise CheckpointError(
            f"expected the tokenizer in {folder} to start transcripts with token {start}, as its config.json says; it "
            f"has {tokenizer.sot}. Put the tokenizer.json of this very model there."
        )
    return Checkpoint(name, dims, generation, tokenizer, tensors, _caution(folder))


def _caution(folder: Path) -> str:
    try:
        return str(read_json(folder / "training.json").get("caution", ""))
    except CheckpointError:  # none, or somebody else's file of that name: the model does not need it
        return ""


def _load_openai(name: str, path: Path, announce: Announce | None) -> Checkpoint:
    tensors, dims = TensorStore.from_openai(path)
    tensors.check(dims)
    tokenizer = _tokenizer(path.parent, dims, announce)
    return Checkpoint(name, dims, GenerationConfig.for_openai(dims), tokenizer, tensors)


def _load_ctranslate2(name: str, folder: Path, announce: Announce | None) -> Checkpoint:
    tensors, dims = TensorStore.from_ctranslate2(folder)
    tensors.check(dims)
    config = folder / "config.json"
    generation = generation_of(read_json(config) if config.is_file() else {}, dims)
    return Checkpoint(name, dims, generation, _tokenizer(folder, dims, announce), tensors)


def _load_ggml(name: str, path: Path) -> Checkpoint:
    file = GgmlFile(path)
    tensors = TensorStore.from_ggml(file)
    tensors.check(file.dims)
    tokenizer = Tokenizer(Vocabulary.of_bytes(path.parent, file.tokens, file.dims.n_vocab), file.dims.n_vocab)
    return Checkpoint(name, file.dims, GenerationConfig.for_openai(file.dims), tokenizer, tensors)


def _tokenizer(folder: Path, dims: ModelDims, announce: Announce | None) -> Tokenizer:
    """Read the tokenizer in `folder`; if there is none, that of OpenAI's models with the same vocabulary."""
    if not has_tokenizer(folder):
        folder = hub.tokenizer_folder(dims.n_vocab, announce=announce)
    return Tokenizer.from_folder(folder, dims.n_vocab)
