"""Adapters for an encoder in blocks: low-rank changes of its attention, learned under a mask (WhisperKit).

One adapter for each mask, next to its checkpoint. It was taught to give the outputs that the encoder gives without the
mask (the laboratory's `training.masked`). Numpy only.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from whispertide.checkpoint import attachments
from whispertide.checkpoint.attachments import Attachment, Kind
from whispertide.checkpoint.loader import Checkpoint
from whispertide.checkpoint.low_rank import Adapter, arrays_of, matrices_of, shapes_of
from whispertide.checkpoint.mask import Mask
from whispertide.errors import CheckpointError, OptionError

KIND = Kind("an adapter for masked blocks", "masked-{variant}.npz", "whispertide train blocks {model} --mask {variant}")
GROUPS = ("encoder_self",)


@dataclass(frozen=True, slots=True)
class MaskedAdapter(Adapter):
    """The changes of every projection of the encoder's attention, for the mask that it was trained under."""

    mask: Mask = field(kw_only=True)

    def save(self, path: Path) -> None:
        """Write it as a `.npz`, matrices as float16. Raises OSError."""
        report = {**self.report, "mask": str(self.mask)}
        attachments.save(path, Attachment(arrays_of(self.matrices, GROUPS), self.content_hash, report))

    @classmethod
    def load(cls, path: Path, checkpoint: Checkpoint, mask: Mask) -> Self:
        """Read an adapter and check that it is one of this checkpoint and this mask.

        Raises `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is damaged, has matrices of
        several ranks, or belongs to another checkpoint or mask.
        """
        kind = replace(KIND, command=KIND.command.format(model=checkpoint.argument, variant=mask))
        found = attachments.load(kind, path, shapes_of(checkpoint.dims, GROUPS), *checkpoint.hashes)
        rank, matrices = matrices_of(found.arrays, GROUPS, kind, path)
        name = str(found.report.get("mask"))
        try:
            trained = Mask.parse(name)
        except OptionError:
            trained = None
        if trained != mask:
            raise CheckpointError(
                f"expected an adapter for the mask {mask} in {path}; it was trained for {name}: make one with "
                f"{kind.making()}"
            )
        return cls(rank, matrices, found.content_hash, found.report, mask=mask)

    @classmethod
    def of_checkpoint(cls, checkpoint: Checkpoint, mask: Mask) -> Self:
        """Load the checkpoint's adapter for the mask. Raises as `load` does."""
        path = attachments.find(checkpoint, KIND, str(mask), instead="trained=false, the mask without training")
        return cls.load(path, checkpoint, mask)


def has_masked_adapter(checkpoint: Checkpoint, mask: Mask) -> bool:
    """True if there is an adapter of the checkpoint for this mask."""
    return attachments.anywhere(checkpoint, KIND, str(mask)) is not None
