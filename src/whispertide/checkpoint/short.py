"""Adapters for short windows: low-rank changes of a Whisper, trained by distillation from itself (the laboratory's
`training.short`).

They are of its encoder, and of the decoder's attention to it. An adapter belongs to tensors, whatever file they came
in (`Checkpoint.tensors_hash`): it lies next to the checkpoint, in the cache, or in the package. Numpy only.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from whispertide.checkpoint import attachments
from whispertide.checkpoint.attachments import Attachment, Kind
from whispertide.checkpoint.cache import file_digest
from whispertide.checkpoint.loader import Checkpoint
from whispertide.checkpoint.low_rank import Adapter, arrays_of, matrices_of, shapes_of
from whispertide.errors import CheckpointNotFoundError
from whispertide.types import N_FRAMES

KIND = Kind("an adapter for short windows", "short.npz", "whispertide train short {model}")
GROUPS = ("encoder_self", "encoder_inner", "encoder_outer", "decoder_hears")


@dataclass(frozen=True, slots=True)
class ShortAdapter(Adapter):
    """The changes of every layer of the encoder, and of the keys and values that the decoder makes of its output."""

    @property
    def merged(self) -> int:
        """The frames of merged padding after the windows that it was taught on; 0: none, as bare ones."""
        return _merged(self.report)

    def save(self, path: Path) -> None:
        """Write it as a `.npz`, matrices as float16. Raises OSError."""
        attachments.save(path, Attachment(arrays_of(self.matrices, GROUPS), self.content_hash, self.report))

    @classmethod
    def load(cls, path: Path, checkpoint: Checkpoint, *, of_shape: bool = False) -> Self:
        """Read an adapter and check that it is one of this checkpoint, or with `of_shape` of any of the same shape.

        Raises `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is damaged, of an older
        form, has matrices of several ranks, or belongs to another checkpoint.
        """
        kind = replace(KIND, command=KIND.command.format(model=checkpoint.argument))
        owners = () if of_shape else (checkpoint.tensors_hash,)
        found = attachments.load(kind, path, shapes_of(checkpoint.dims, GROUPS), *owners)
        rank, matrices = matrices_of(found.arrays, GROUPS, kind, path)
        return cls(rank, matrices, found.content_hash, found.report)

    @classmethod
    def of_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        """Load the adapter that `short_adapter` finds. Raises as `load` does."""
        path = short_adapter(checkpoint)
        if path is None:
            raise CheckpointNotFoundError(
                f"expected {KIND.title} of {checkpoint.name}; there is none: make it with "
                f"{KIND.making(checkpoint.argument)}, or choose framing=pad30"
            )
        return cls.load(path, checkpoint)


def shipped_merged(name: str) -> int:
    """The frames of merged padding that the adapter in the package knows, if the published checkpoint of that name has
    one, which need not be there; else 0.
    """
    path = KIND.place(attachments.BUNDLED / name)
    return _merged(attachments.report_in(path)) if path.is_file() else 0


def _merged(report: Mapping[str, Any]) -> int:
    """As a report says; adapters of earlier versions, whose reports say nothing of it, know bare windows."""
    options = report.get("options")
    frames = options.get("merged") if isinstance(options, dict) else None
    return frames if isinstance(frames, int) and 0 < frames < N_FRAMES // 2 else 0


def adapted_hash(checkpoint: Checkpoint) -> str:
    """Hash the checkpoint with its adapter, if there is one: results of `tune` hold for both together."""
    path = short_adapter(checkpoint)
    if path is None:
        return checkpoint.content_hash
    return hashlib.sha256(f"{checkpoint.content_hash} {file_digest(path)}".encode()).hexdigest()


def short_adapter(checkpoint: Checkpoint) -> Path | None:
    """The path of the adapter of these tensors; None: there is none."""
    return attachments.anywhere(checkpoint, KIND)
