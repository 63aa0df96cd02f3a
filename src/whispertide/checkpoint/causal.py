"""Adapters that make a Whisper causal: low-rank changes of its attention, learned under a block-causal mask
(WhisperRT).

An adapter belongs to one checkpoint and lies next to it (`attachments`), or inside a `.pt` of the paper's authors
(`published_causal`). Merged (`low_rank`), it gives a checkpoint like any other, whose encoder understands sound that
arrives block by block. Numpy only; training is the laboratory's business (`training.causal`). (Krichli, Raj, Keshet
2025; ALGORITHMS E.)
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np

from whispertide.checkpoint import attachments
from whispertide.checkpoint.attachments import Attachment, Kind, Shapes
from whispertide.checkpoint.loader import Checkpoint
from whispertide.checkpoint.low_rank import GROUPS, Adapter, adapted_names, arrays_of, matrices_of, shapes_of
from whispertide.checkpoint.published_causal import is_published, published_adapter
from whispertide.errors import CheckpointError

KIND = Kind("a causal adapter", "causal.npz", "whispertide train causal {model}")

# Frames of 20 ms that a block may have, and the first one of a stream.
SHORTEST_BLOCK, LONGEST_BLOCK, LONGEST_FIRST = 2, 50, 100


@dataclass(frozen=True, slots=True)
class CausalAdapter(Adapter):
    """The changes of every projection of every attention.

    block  encoder frames of 20 ms in a block that it was trained for, 2 to 50; 0: any from 100 ms to 1 s
    first  encoder frames of the first block, which is as long at least, and 100 at most
    """

    block: int = field(kw_only=True)
    first: int = field(kw_only=True)

    def save(self, path: Path) -> None:
        """Write it as a `.npz`, matrices as float16. Raises OSError."""
        arrays = {"block": np.int64(self.block), "first": np.int64(self.first), **arrays_of(self.matrices)}
        attachments.save(path, Attachment(arrays, self.content_hash, self.report))

    @classmethod
    def load(cls, path: Path, checkpoint: Checkpoint) -> Self:
        """Read an adapter and check that it is one of this checkpoint.

        Raises `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is damaged, has matrices of
        several ranks or blocks of impossible lengths, or belongs to another checkpoint.
        """
        kind = replace(KIND, command=KIND.command.format(model=checkpoint.argument))
        shapes: Shapes = {"block": (), "first": (), **shapes_of(checkpoint.dims)}
        found = attachments.load(kind, path, shapes, *checkpoint.hashes)
        block, first = int(found.arrays["block"]), int(found.arrays["first"])
        _check_blocks(block, first, path, f"make it again with {kind.making()}")
        rank, matrices = matrices_of(found.arrays, tuple(GROUPS), kind, path)
        return cls(rank, matrices, found.content_hash, found.report, block=block, first=first)

    @classmethod
    def of_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        """Load the adapter inside the checkpoint's file, if it is a published causal one, else that of its tensors.

        Raises as `load` does.
        """
        if is_inside(checkpoint):
            path = checkpoint.tensors.files[0]
            shapes = {name: checkpoint.tensors.shape(name) for name in adapted_names(checkpoint.dims)}
            found = published_adapter(path, shapes)
            _check_blocks(found.block, found.first, path, "choose another checkpoint")
            return cls(found.rank, found.matrices, checkpoint.content_hash, block=found.block, first=found.first)
        path = attachments.find(checkpoint, KIND, instead="a recipe that needs none")
        return cls.load(path, checkpoint)


def is_inside(checkpoint: Checkpoint) -> bool:
    """True if the checkpoint's own file has an adapter, which then comes before one next to it."""
    weights = checkpoint.tensors.files[0]
    return weights.suffix == ".pt" and is_published(weights)


def has_adapter(checkpoint: Checkpoint) -> bool:
    """True if there is an adapter, inside the checkpoint's file or of its tensors."""
    return is_inside(checkpoint) or attachments.anywhere(checkpoint, KIND) is not None


def _check_blocks(block: int, first: int, path: Path, advice: str) -> None:
    is_one = SHORTEST_BLOCK <= block <= LONGEST_BLOCK
    if not (is_one or block == 0) or not max(SHORTEST_BLOCK, block) <= first <= LONGEST_FIRST:
        raise CheckpointError(
            f"expected blocks of {SHORTEST_BLOCK} to {LONGEST_BLOCK} frames in {path}, or of 0 (any), and a first one "
            f"that is as long at least and has {LONGEST_FIRST} at most; got {block} and {first}: {advice}"
        )
