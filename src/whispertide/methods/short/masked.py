"""The framing of a masked encoder (WhisperKit): windows of 30 s in blocks, of which only those with new audio are
encoded.

Unlike `blocks`, whose stream has a causal encoder and no padding, this is a window like any other: padded to 30 s, for
any policy. What the engine leaves for the next round are the blocks it encoded (`model.masked`): one whose log-mel is
the same is not encoded again. Whisper's floor depends on the loudest cell of the window, so a louder one changes the
blocks before it too, and they are encoded anew: the result is a function of the window alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.mask import Mask, MaskName
from whispertide.checkpoint.masked import has_masked_adapter
from whispertide.model.engine import Encoded, EncoderState
from whispertide.model.masked import start
from whispertide.model.whisper import WhisperModel
from whispertide.streaming.choice import setting
from whispertide.streaming.framing import Framing
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked(Framing):
    """Windows of 30 s under a mask of blocks."""

    kind: ClassVar[str] = "masked"
    mask: MaskName = setting(
        "d750", "d750, d500, d250: blocks of 15, 10, 5 s that attend only to themselves; c250: also to earlier blocks"
    )
    trained: bool = setting(True, "whether the adapter trained for the mask is used")

    def __call__(self, model: WhisperModel, mel: FloatArray, *, taps: Sequence[int] = ()) -> Encoded:
        """All blocks but those of padding, which are known after the first time."""
        return self.after(model, mel, None, taps=taps)

    def after(
        self, model: WhisperModel, mel: FloatArray, state: EncoderState | None, *, taps: Sequence[int] = ()
    ) -> Encoded:
        """The blocks that the round before did not leave."""
        mask = Mask.parse(self.mask)
        # Blocks under another mask have heard other audio.
        if state is None or state.tensors.get("mask") != mask:
            state = start(mask)
        return model.encode(mel, state=state, taps=taps)

    def adapted(self, model: WhisperModel) -> WhisperModel:
        """With its adapter for the mask. Raises `CheckpointNotFoundError` where there is none."""
        return model.masked(Mask.parse(self.mask)) if self.trained else model

    def can_adapt(self, checkpoint: Checkpoint) -> bool:
        """True if there is an adapter for the mask, if one is wanted."""
        return not self.trained or has_masked_adapter(checkpoint, Mask.parse(self.mask))
