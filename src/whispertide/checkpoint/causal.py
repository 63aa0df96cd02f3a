"""What makes a Whisper causal: low-rank changes of its attention, learned under a block-causal mask (WhisperRT).

An adapter belongs to one checkpoint and lies next to it (`attachments`), or inside a `.pt` of the paper's authors
(`published_causal`). Merged, it gives a checkpoint like any other, whose encoder understands sound that arrives block
by block. Numpy only; training is `lab.training.causal`'s business. (Krichli, Raj, Keshet 2025; ALGORITHMS E.)
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from whispertide.checkpoint import attachments
from whispertide.checkpoint.attachments import Arrays, Attachment, Kind, Shapes
from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.loader import Checkpoint
from whispertide.checkpoint.published_causal import is_published, published_adapter
from whispertide.checkpoint.weights import Change, Weights
from whispertide.errors import CheckpointError
from whispertide.types import FloatArray

KIND = Kind("a causal adapter", "causal.npz", "whispertide train causal {model}")

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
_GROUPS = {  # of attentions; their matrices are arrays [layers, projections, ...] in the file
    "encoder_self": "encoder.layers.{}.self_attn",
    "decoder_self": "decoder.layers.{}.self_attn",
    "decoder_cross": "decoder.layers.{}.encoder_attn",
}

Matrices = Mapping[str, tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, slots=True)
class CausalAdapter:
    """The changes of one checkpoint: to each weight W that is named, [out, in], B @ A is added.

    rank          A is [rank, in], B [out, rank]
    block         encoder frames of 20 ms in a block that it was trained for; 0: any from 100 ms to 1 s
    first         encoder frames of the first block
    matrices      (A, B) by the name of the weight: every projection of every attention
    content_hash  of the checkpoint
    report        what it was trained on and what training measured
    """

    rank: int
    block: int
    first: int
    matrices: Matrices
    content_hash: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write it as a `.npz`, matrices as float16. Raises OSError."""
        arrays: dict[str, Any] = {"block": np.int64(self.block), "first": np.int64(self.first)}
        for group, prefix in _GROUPS.items():
            start = prefix.partition("{}")[0]
            layers = {
                int(name.removeprefix(start).partition(".")[0]) for name in self.matrices if name.startswith(start)
            }
            for which, letter in enumerate("AB"):
                stacked = [[self.matrices[name][which] for name in _names(prefix, at)] for at in sorted(layers)]
                arrays[f"{group}_{letter}"] = np.array(stacked, np.float16)
        attachments.save(path, Attachment(arrays, self.content_hash, self.report))

    @classmethod
    def load(cls, path: Path, checkpoint: Checkpoint) -> Self:
        """Read an adapter and check that it is one of this checkpoint.

        Raises `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is damaged, has matrices of
        several ranks, or belongs to another checkpoint.
        """
        kind = replace(KIND, command=KIND.command.format(model=checkpoint.argument))
        found = attachments.load(kind, path, _shapes(checkpoint.dims), checkpoint.content_hash)
        block, first = int(found.arrays["block"]), int(found.arrays["first"])
        if block < 0 or first < max(1, block):
            raise CheckpointError(
                f"expected blocks of 0 frames (any) or more in {path}, and a first one that is as long at least; got "
                f"{block} and {first}: make it again with {kind.making()}"
            )
        rank = _one_rank(found.arrays, kind, path)
        return cls(rank, block, first, dict(_matrices(found.arrays)), found.content_hash, found.report)

    @classmethod
    def beside(cls, checkpoint: Checkpoint) -> Self:
        """The one inside the checkpoint's file, if it is a published causal one, else the one next to it.

        Raises as `load` does.
        """
        weights = checkpoint.tensors.files[0]
        if weights.suffix == ".pt" and is_published(weights):
            found = published_adapter(weights)
            return cls(found.rank, found.block, found.first, found.matrices, checkpoint.content_hash)
        path = attachments.find(checkpoint, KIND, instead="a recipe that needs none")
        return cls.load(path, checkpoint)


def has_adapter(checkpoint: Checkpoint) -> bool:
    """Whether there is one, inside the checkpoint's file or next to it."""
    weights = checkpoint.tensors.files[0]
    return (weights.suffix == ".pt" and is_published(weights)) or attachments.place(checkpoint, KIND).is_file()


@dataclass(frozen=True)
class CausalCheckpoint(Checkpoint):
    """A checkpoint with its adapter merged into the weights. Its hash is its own, so its graphs are too."""

    adapter: CausalAdapter = field(kw_only=True)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over the checkpoint without the adapter, and over the adapter's matrices."""
        content = hashlib.sha256(super().content_hash.encode())
        for name, matrices in sorted(self.adapter.matrices.items()):
            content.update(name.encode())
            for matrix in matrices:
                content.update(np.ascontiguousarray(matrix, np.float32).tobytes())
        return content.hexdigest()


def merged(checkpoint: Checkpoint, adapter: CausalAdapter) -> CausalCheckpoint:
    """The checkpoint whose weights are W + B @ A, computed when they are read."""
    changes = {name: _adding(*matrices) for name, matrices in adapter.matrices.items()}
    given = {item.name: getattr(checkpoint, item.name) for item in fields(Checkpoint)}
    return CausalCheckpoint(**{**given, "tensors": checkpoint.tensors.changed(changes)}, adapter=adapter)


def adapted_names(dims: ModelDims) -> tuple[str, ...]:
    """The weights that an adapter changes."""
    return tuple(
        name
        for group, prefix in _GROUPS.items()
        for layer in range(_layers(group, dims))
        for name in _names(prefix, layer)
    )


def _adding(a: FloatArray, b: FloatArray) -> Change:
    def change(weight: Weights) -> Weights:
        return weight.astype(np.float32) + b.astype(np.float32) @ a.astype(np.float32)

    return change


def _layers(group: str, dims: ModelDims) -> int:
    return dims.n_audio_layer if group.startswith("encoder") else dims.n_text_layer


def _names(prefix: str, layer: int) -> tuple[str, ...]:
    return tuple(f"{prefix.format(layer)}.{projection}.weight" for projection in PROJECTIONS)


def _shapes(dims: ModelDims) -> Shapes:
    shapes: dict[str, tuple[int | None, ...]] = {"block": (), "first": ()}
    for group in _GROUPS:
        stack = (_layers(group, dims), len(PROJECTIONS))
        shapes |= {f"{group}_A": (*stack, None, dims.n_text_state), f"{group}_B": (*stack, dims.n_text_state, None)}
    return shapes


def _one_rank(arrays: Arrays, kind: Kind, path: Path) -> int:
    ranks = {arrays[f"{group}_A"].shape[2] for group in _GROUPS} | {arrays[f"{group}_B"].shape[3] for group in _GROUPS}
    if len(ranks) > 1 or 0 in ranks:
        raise CheckpointError(
            f"expected matrices of one rank, from 1 on, in {path}; got {', '.join(map(str, sorted(ranks)))}: make it "
            f"again with {kind.making()}"
        )
    return int(ranks.pop())


def _matrices(arrays: Arrays) -> Iterator[tuple[str, tuple[FloatArray, FloatArray]]]:
    for group, prefix in _GROUPS.items():
        a, b = (np.asarray(arrays[f"{group}_{letter}"], np.float32) for letter in "AB")
        for layer in range(len(a)):
            for place, name in enumerate(_names(prefix, layer)):
                yield name, (a[layer, place], b[layer, place])
