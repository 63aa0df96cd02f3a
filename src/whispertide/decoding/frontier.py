"""AlignAtt: text stands as long as it attends to audio well before the end of what there is (Papi et al. 2023).

A token whose attention lies within `margin` frames of the end may be about a word that is still being spoken: it is
dropped, and the search ends. A token that attends far *behind* the one before it means that the decoder has lost its
place: then nothing of this decode stands. Source: SimulStreaming, `PaddedAlignAttWhisper.infer`; ALGORITHMS as in
docs/attention.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whispertide.decoding.alignment import alignment_heads
from whispertide.decoding.search import Guard
from whispertide.decoding.watch import Halt, Head, Scene, attended_frame
from whispertide.errors import OptionError
from whispertide.types import FloatArray

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel


@dataclass(frozen=True, slots=True)
class Frontier:
    """The rule, in encoder frames of 20 ms.

    margin      attention must keep this far from the end
    rewind      attention may jump back by this much; None: by any amount
    last_frame  what the last token before this decode attended to, in this window's frames (may be negative)
    beyond      tokens that are still decoded behind the frontier, as a guess; they are not firm
    """

    margin: int = 25
    rewind: int | None = 200
    last_frame: int = -200
    beyond: int = 0

    def __post_init__(self) -> None:
        if self.margin < 0 or self.beyond < 0 or (self.rewind is not None and self.rewind < 1):
            raise OptionError(f"expected margin >= 0, beyond >= 0 and rewind >= 1 frames; got {self}")

    def heads(self, model: WhisperModel) -> tuple[Head, ...]:
        """Those that follow the audio."""
        return alignment_heads(model)

    def guard(self, scene: Scene, model: WhisperModel) -> FrontierGuard:
        """The guard of one decode."""
        return FrontierGuard(self, scene, scene.rows_of(self.heads(model)))


class FrontierGuard(Guard):
    """Watches one decode; `rows` of the attention are the alignment heads."""

    def __init__(self, rule: Frontier, scene: Scene, rows: Sequence[int]) -> None:
        self._rule = rule
        self._scene = scene
        self._rows = list(rows)
        self.halt: Halt | None = None
        self.last_frame: int | None = None

    def check(self, tokens: Sequence[int], attention: FloatArray | None) -> int | None:
        """How many tokens to keep, or None to go on. Raises `ValueError` without attention."""
        if attention is None:
            raise ValueError("expected the attention of the alignment heads; the decoder was asked for none")
        if self.halt is None:
            self._look(tokens, attention)
        if self.halt is None:
            return None
        if self.halt.reason == "rewind":
            return 0
        return self.halt.index if not self._rule.beyond else self._enough(tokens)

    def _look(self, tokens: Sequence[int], attention: FloatArray) -> None:
        frame = attended_frame(attention[self._rows], self._scene.frames)
        before = self._rule.last_frame if self.last_frame is None else self.last_frame
        newest = len(tokens) - 1
        after_special = newest == 0 and not self._scene.forced
        if self._rule.rewind is not None and before - frame > self._rule.rewind and not after_special:
            self.halt = Halt("rewind", newest, tokens[-1])
            return
        self.last_frame = frame
        if self._scene.frames - frame <= self._rule.margin:
            self.halt = Halt("frontier", newest, tokens[-1])

    def _enough(self, tokens: Sequence[int]) -> int | None:
        """All tokens, once there are enough behind the frontier."""
        assert self.halt is not None
        return len(tokens) if len(tokens) - self.halt.index >= self._rule.beyond else None
