"""Widening: a small checkpoint takes the shape of a larger Whisper without changing what it computes.

Every channel and every head is repeated, and whatever reads repeated channels divides its weights by the number of
copies; further layers whose output projections are zero come before those of the source, so that the last layer, which
recipes may watch, is the source's last. The layer norm of repeated channels is the
repeated layer norm, heads keep their size and so their scores, and the final norm of the decoder is divided too,
because the embedding that reads it is tied. Cost is then truly that of the larger model, on text that the small one
really knows. Source: Net2Net (Chen et al., 2016), section 2; lab/docs/benchmarks.md says what it is used for.

Numpy only. This module knows nothing of graphs, nor of how a checkpoint is run; hush words, a detector and adapters
next to the checkpoint are carried over.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.atomic import replacing, writing
from whispertide.checkpoint import Checkpoint, ModelDims, causal, load_checkpoint, masked
from whispertide.checkpoint.attachments import path_beside
from whispertide.checkpoint.causal import CausalAdapter
from whispertide.checkpoint.generation import heads_or_later_half
from whispertide.checkpoint.layout import Shape, expected_shapes
from whispertide.checkpoint.low_rank import Adapter, Matrices, adapted_names
from whispertide.checkpoint.mask import Mask
from whispertide.checkpoint.masked import MaskedAdapter
from whispertide.errors import CheckpointError, OptionError
from whispertide.methods.attention.truncation import KIND, TruncationDetector
from whispertide.methods.short.hush import HushWord
from whispertide.types import FloatArray
from whispertide_lab.checkpoint_folder import (
    copy_companions,
    read_configs,
    shape_config,
    write_json,
)
from whispertide_lab.new_folder import check_new
from whispertide_lab.safetensors_header import header_of

Weights = npt.NDArray[Any]  # float16 or float32


@dataclass(frozen=True, slots=True)
class Target:
    """The shape of a published Whisper; encoder and decoder have the same number of layers and heads."""

    width: int
    heads: int
    layers: int

    def applied_to(self, dims: ModelDims) -> ModelDims:
        """`dims` with this width, these heads and layers in encoder and decoder."""
        return replace(
            dims,
            n_audio_state=self.width,
            n_audio_head=self.heads,
            n_audio_layer=self.layers,
            n_text_state=self.width,
            n_text_head=self.heads,
            n_text_layer=self.layers,
        )


# openai/whisper, model-card.md
TARGETS: dict[str, Target] = {
    "base.en": Target(512, 8, 6),
    "small.en": Target(768, 12, 12),
    "medium.en": Target(1024, 16, 24),
}


@dataclass(frozen=True, slots=True)
class Widening:
    """From one shape to another, and how many copies that means."""

    source: ModelDims
    target: ModelDims

    @property
    def copies(self) -> int:
        """How often every channel is repeated."""
        return self.target.n_audio_state // self.source.n_audio_state

    def layers(self, part: str) -> tuple[int, int]:
        """How many layers the source's encoder or decoder has, and how many are added before them."""
        if part == "encoder":
            return self.source.n_audio_layer, self.target.n_audio_layer - self.source.n_audio_layer
        return self.source.n_text_layer, self.target.n_text_layer - self.source.n_text_layer

    def donor(self, name: str) -> tuple[str, bool]:
        """The tensor of the source that `name` is made of, and whether it is to be all zero."""
        part, _, rest = name.partition(".layers.")
        if not rest:
            return name, False
        index, _, stem = rest.partition(".")
        layers, added = self.layers(part)
        silent = int(index) < added and (".out_proj." in stem or stem.startswith("fc2."))
        return f"{part}.layers.{(int(index) - added) % layers}.{stem}", silent

    @property
    def dtype(self) -> type[np.float16] | type[np.float32]:
        """float16 where dividing by the copies only moves the exponent; else float32, to stay the same function."""
        return np.float16 if self.copies.bit_count() == 1 else np.float32


def plan_widening(source: ModelDims, to: str) -> Widening:
    """What widening a checkpoint of the shape `source` to the shape called `to` means.

    Raises `OptionError` for an unknown shape, and `CheckpointError` for a checkpoint that cannot take it: its width or
    heads do not divide the target's alike, it has more layers, or it is multilingual.
    """
    shape = TARGETS.get(to)
    if shape is None:
        raise OptionError(f"expected one of the shapes {', '.join(TARGETS)} to widen to; got {to!r}")
    if source.is_multilingual:
        raise CheckpointError(f"expected an English-only checkpoint to widen to {to}; this one is multilingual")
    copies, remainder = divmod(shape.width, source.n_audio_state)
    if remainder:
        raise CheckpointError(
            f"expected a checkpoint whose width divides the {shape.width} of {to}; this one has {source.n_audio_state}"
        )
    for heads in (source.n_audio_head, source.n_text_head):
        if heads * copies != shape.heads:
            raise CheckpointError(
                f"expected {shape.heads // copies} heads of {shape.width // shape.heads} channels, so that {copies} "
                f"copies are the {shape.heads} heads of {to}; this checkpoint has {heads}"
            )
    layers = max(source.n_audio_layer, source.n_text_layer)
    if layers > shape.layers:
        raise CheckpointError(
            f"expected a checkpoint of at most the {shape.layers} layers of {to}; this one has {layers}"
        )
    return Widening(source, shape.applied_to(source))


def widen(model: str | Path, to: str, output: Path, *, announce: Callable[[str], None] | None = None) -> Path:
    """Write the checkpoint `model` in the shape called `to` (see `TARGETS`) into the folder `output`; returns it.

    `model` is what `load_checkpoint` takes, as long as it is a folder in the layout of Hugging Face or faster-whisper.
    Raises what `load_checkpoint` and `plan_widening` raise, and `OutputError` where `output` is not empty or cannot be
    written: then nothing is there.
    """
    checkpoint = load_checkpoint(model, announce=announce)
    widening = plan_widening(checkpoint.dims, to)
    config, generation = read_configs(checkpoint, "to widen")
    check_new(output, "to write to")
    with writing(output), replacing(output) as unfinished:
        unfinished.mkdir(parents=True)
        copy_companions(checkpoint.folder, unfinished)
        heads = _heads(checkpoint, widening)
        write_json(unfinished / "generation_config.json", {**generation, "alignment_heads": heads})
        shapes = _target_shapes(checkpoint, widening)
        tensors = ((f"model.{name}", widened(name, checkpoint, widening)) for name in shapes)
        weights = {f"model.{name}": shape for name, shape in shapes.items()}
        write_safetensors(unfinished / "model.safetensors", weights, widening.dtype, tensors)
        write_json(unfinished / "config.json", config | _changes(checkpoint, widening))
        _write_attachments(checkpoint, widening, unfinished)
    return output


# --- tensors ----------------------------------------------------------------------------------------------------------


def widened(name: str, checkpoint: Checkpoint, widening: Widening) -> npt.NDArray[np.float32]:
    """One tensor of the wide model, by its canonical name.

    Copies lie one after the other, so copy c of head h is head h + c * (heads of the source). An added layer has the
    weights of a layer of the source, so that it computes with ordinary numbers, but adds nothing to the stream.
    """
    donor, silent = widening.donor(name)
    values = np.asarray(checkpoint.tensors.get(donor), np.float32)
    shape = _repeated(donor, values.shape, widening)
    if silent:
        return np.zeros(shape, np.float32)
    if reading_axis(name, values.ndim) is not None:
        values = values / np.float32(widening.copies)
    return np.tile(values, [wide // narrow for wide, narrow in zip(shape, values.shape, strict=True)])


def channel_axes(name: str, count: int) -> tuple[int, ...]:
    """Which of the `count` axes of a tensor are channels: the stream's, the heads', feed-forward layers' inner ones."""
    fixed = {"encoder.conv1.weight": (0,), "encoder.conv2.weight": (0, 1)}
    return (count - 1,) if ".embed_" in name else fixed.get(name, tuple(range(count)))


def reading_axis(name: str, count: int) -> int | None:
    """The axis along which a tensor reads channels, so that copies of one must share its weights; None: it reads none.

    What reads the decoder's final norm is the embedding, which is tied, so the norm's own weights are shared.
    """
    if name.startswith("decoder.layer_norm."):
        return 0
    return 1 if ".embed_" not in name and 1 in channel_axes(name, count) else None


def _repeated(name: str, shape: Shape, widening: Widening) -> Shape:
    """The shape of a tensor of the source whose channels are repeated."""
    axes = channel_axes(name, len(shape))
    return tuple(size * widening.copies if axis in axes else size for axis, size in enumerate(shape))


def _target_shapes(checkpoint: Checkpoint, widening: Widening) -> dict[str, Shape]:
    """Canonical name -> shape of every tensor of the wide model."""
    found = {}
    for name in expected_shapes(widening.target):
        donor, _ = widening.donor(name)
        found[name] = _repeated(donor, checkpoint.tensors.shape(donor), widening)
    return found


def write_safetensors(
    path: Path, shapes: dict[str, Shape], dtype: type[np.floating[Any]], tensors: Iterable[tuple[str, Weights]]
) -> None:
    """Write a safetensors file, one tensor in memory at a time (format: huggingface/safetensors, README).

    `tensors` come in the order of `shapes`. Raises OSError, and ValueError for a tensor that is not of its shape.
    """
    # transformers loads no file without the format
    header = header_of({name: (shape, dtype) for name, shape in shapes.items()}, {"format": "pt"})
    with path.open("wb") as file:
        file.write(header)
        for (name, values), (expected, shape) in zip(tensors, shapes.items(), strict=True):
            if name != expected or values.shape != shape:
                raise ValueError(f"expected {expected} of shape {shape}; got {name} of shape {values.shape}")
            file.write(np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<")).data)


# --- configurations ---------------------------------------------------------------------------------------------------


def _changes(checkpoint: Checkpoint, widening: Widening) -> dict[str, Any]:
    """What is other in config.json."""
    inner = {
        f"{part}_ffn_dim": checkpoint.tensors.shape(f"{part}.layers.0.fc1.bias")[0] * widening.copies
        for part in ("encoder", "decoder")
    }
    about = {"torch_dtype": np.dtype(widening.dtype).name, "widened_from": checkpoint.name}
    return {**shape_config(widening.target), **inner, **about}


def _heads(checkpoint: Checkpoint, widening: Widening) -> list[list[int]]:
    """The source's alignment heads, where they are now: the first copy of each.

    A checkpoint that names none leaves the choice to its reader, who would take the later half of the layers; here that
    half might have added ones.
    """
    _, added = widening.layers("decoder")
    heads = heads_or_later_half(checkpoint.generation.alignment_heads, checkpoint.dims)
    return [[layer + added, head] for layer, head in heads]


# --- what is trained for a checkpoint --------------------------------------------------------------------------------


def _write_attachments(checkpoint: Checkpoint, widening: Widening, output: Path) -> None:
    """Hush words, the detector of cut words and the adapters: what they were trained for is still the same."""
    content_hash = load_checkpoint(output).content_hash
    for path in sorted(checkpoint.folder.glob("hush-*.npz")):
        replace(HushWord.load(path), content_hash=content_hash).save(output / path.name)
    if path_beside(checkpoint, KIND).is_file():
        detector = TruncationDetector.of_checkpoint(checkpoint)
        weight = np.tile(detector.weight, widening.copies) / np.float32(widening.copies)
        replace(detector, weight=weight, content_hash=content_hash).save(output / KIND.file)
    if path_beside(checkpoint, causal.KIND).is_file():
        adapter = CausalAdapter.of_checkpoint(checkpoint)
        matrices = _widened_changes(adapter, adapted_names(widening.target), widening)
        replace(adapter, matrices=matrices, content_hash=content_hash).save(output / causal.KIND.file)
    for path in sorted(checkpoint.folder.glob(masked.KIND.file.format(variant="*"))):
        mask = Mask.parse(path.stem.removeprefix("masked-"))
        blocks = MaskedAdapter.load(path, checkpoint, mask)
        matrices = _widened_changes(blocks, adapted_names(widening.target, masked.GROUPS), widening)
        replace(blocks, matrices=matrices, content_hash=content_hash).save(output / path.name)


def _widened_changes(adapter: Adapter, names: Sequence[str], widening: Widening) -> Matrices:
    return {name: _widened_change(name, adapter, widening) for name in names}


def _widened_change(name: str, adapter: Adapter, widening: Widening) -> tuple[FloatArray, FloatArray]:
    """What an adapter adds to a wide weight: copies of the same, shared among those that read them."""
    donor, silent = widening.donor(name)
    a, b = adapter.matrices[donor]
    rows = np.tile(b, (widening.copies, 1))
    return np.tile(a, (1, widening.copies)) / np.float32(widening.copies), np.zeros_like(rows) if silent else rows
