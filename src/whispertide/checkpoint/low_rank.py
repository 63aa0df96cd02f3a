"""Low-rank changes of a checkpoint's weights (LoRA), as attachments hold them: to a weight W, B @ A is added.

A kind of adapter names the groups of weights that it changes; its file holds one stack of matrices per group. Merged it
gives a checkpoint like any other. What was learned, and on which windows, the adapters know: `causal` (WhisperRT),
`masked` (WhisperKit), `short`. Numpy only.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from whispertide.checkpoint.attachments import Arrays, Kind, Shapes
from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.layout import expected_shapes
from whispertide.checkpoint.loader import Checkpoint
from whispertide.checkpoint.weights import Change, Weights
from whispertide.errors import CheckpointError
from whispertide.types import FloatArray

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")


@dataclass(frozen=True, slots=True)
class Group:
    """Weights of one shape in every layer; their matrices are arrays [layers, projections, ...] in a file.

    `place` is where they are, with {} for the layer's number; `projections` are their names there.
    """

    place: str
    projections: tuple[str, ...] = PROJECTIONS

    def names(self, layer: int) -> tuple[str, ...]:
        return tuple(f"{self.place.format(layer)}.{projection}.weight" for projection in self.projections)


_GROUPS = {
    "encoder_self": Group("encoder.layers.{}.self_attn"),
    "decoder_self": Group("decoder.layers.{}.self_attn"),
    "decoder_cross": Group("decoder.layers.{}.encoder_attn"),
    "encoder_inner": Group("encoder.layers.{}", ("fc1",)),
    "encoder_outer": Group("encoder.layers.{}", ("fc2",)),
    "decoder_hears": Group("decoder.layers.{}.encoder_attn", ("k_proj", "v_proj")),
}
GROUPS = ("encoder_self", "decoder_self", "decoder_cross")  # every attention

Matrices = Mapping[str, tuple[FloatArray, FloatArray]]  # A [rank, in], B [out, rank] by the name of the weight


@dataclass(frozen=True, slots=True)
class Adapter:
    """Changes of one checkpoint: to each named weight W, [out, in], B @ A is added.

    rank          A is [rank, in], B [out, rank]
    matrices      (A, B) by the name of the weight
    content_hash  of the checkpoint, or its `tensors_hash`
    report        what it was trained on, with which settings, and what training measured
    """

    rank: int
    matrices: Matrices
    content_hash: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AdaptedCheckpoint(Checkpoint):
    """A checkpoint with an adapter merged into the weights. Its hash is its own, so its graphs are too."""

    adapter: Adapter = field(kw_only=True)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over the checkpoint without the adapter, and over the adapter's matrices."""
        return hash_matrices(self.adapter.matrices, super().content_hash)


def hash_matrices(matrices: Matrices, before: str = "") -> str:
    """SHA-256 over the matrices, after the text `before`, in hexadecimal."""
    content = hashlib.sha256(before.encode())
    for name, pair in sorted(matrices.items()):
        content.update(name.encode())
        for matrix in pair:
            content.update(np.ascontiguousarray(matrix, np.float32).tobytes())
    return content.hexdigest()


def merge_adapter(checkpoint: Checkpoint, adapter: Adapter) -> AdaptedCheckpoint:
    """Make the checkpoint whose weights are W + B @ A, computed when they are read."""
    changes = {name: _adding(*matrices) for name, matrices in adapter.matrices.items()}
    given = {item.name: getattr(checkpoint, item.name) for item in fields(Checkpoint)}
    return AdaptedCheckpoint(**{**given, "tensors": checkpoint.tensors.changed(changes)}, adapter=adapter)


def _adding(a: FloatArray, b: FloatArray) -> Change:
    def change(weight: Weights) -> Weights:
        # In float32: a product of small float16 matrices would lose what was learned.
        return weight.astype(np.float32) + b.astype(np.float32) @ a.astype(np.float32)

    return change


# --- in a file --------------------------------------------------------------------------------------------------------


def adapted_names(dims: ModelDims, groups: Sequence[str] = GROUPS) -> tuple[str, ...]:
    """The weights that an adapter of these groups changes."""
    return tuple(
        name for group in groups for layer in range(_layers(group, dims)) for name in _GROUPS[group].names(layer)
    )


def arrays_of(matrices: Matrices, groups: Sequence[str] = GROUPS) -> dict[str, Any]:
    """Stack the matrices for a file: an array for each group, float16."""
    arrays: dict[str, Any] = {}
    for group in groups:
        start = _GROUPS[group].place.partition("{}")[0]
        named = (name.removeprefix(start) for name in matrices if name.startswith(start))
        layers = sorted({int(name.partition(".")[0]) for name in named})
        for which, letter in enumerate("AB"):
            stacked = [[matrices[name][which] for name in _GROUPS[group].names(at)] for at in layers]
            arrays[f"{group}_{letter}"] = np.array(stacked, np.float16)
    return arrays


def shapes_of(dims: ModelDims, groups: Sequence[str] = GROUPS) -> Shapes:
    """The shapes of these arrays, of any rank."""
    shapes: dict[str, tuple[int | None, ...]] = {}
    weights = expected_shapes(dims)
    for group in groups:
        names = _GROUPS[group].names(0)
        stack, (rows, columns) = (_layers(group, dims), len(names)), weights[names[0]]
        shapes |= {f"{group}_A": (*stack, None, columns), f"{group}_B": (*stack, rows, None)}
    return shapes


def matrices_of(arrays: Arrays, groups: Sequence[str], kind: Kind, path: Path) -> tuple[int, Matrices]:
    """Split arrays that were read from `path` into the rank and the matrices. Raises `CheckpointError` for several
    ranks.
    """
    ranks = {arrays[f"{group}_A"].shape[2] for group in groups} | {arrays[f"{group}_B"].shape[3] for group in groups}
    if len(ranks) > 1 or 0 in ranks:
        raise CheckpointError(
            f"expected matrices of one rank, from 1 on, in {path}; got {', '.join(map(str, sorted(ranks)))}: make it "
            f"again with {kind.making()}"
        )
    return int(ranks.pop()), dict(_unstack(arrays, groups))


def _unstack(arrays: Arrays, groups: Sequence[str]) -> Iterator[tuple[str, tuple[FloatArray, FloatArray]]]:
    for group in groups:
        a, b = (np.asarray(arrays[f"{group}_{letter}"], np.float32) for letter in "AB")
        for layer in range(len(a)):
            for place, name in enumerate(_GROUPS[group].names(layer)):
                yield name, (a[layer, place], b[layer, place])


def _layers(group: str, dims: ModelDims) -> int:
    return dims.n_audio_layer if group.startswith("encoder") else dims.n_text_layer
