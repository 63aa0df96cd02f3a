"""AlignAtt: text stands as long as it attends to audio well before the end of what there is (Papi et al. 2023).

A token whose attention lies within `margin` frames of the end may be about a word that is still being spoken: it is
dropped, and the search ends. A token that attends far *before* the one that it follows means that the decoder has
lost its place: then nothing of this decode stands. Source: SimulStreaming, `PaddedAlignAttWhisper.infer`; as in
docs/attention.md. Ours: a word that attends somewhat before the one that it follows ends the decode, because the
decoder is about to say again what it has said (the idea is NPUsper's, see `backward_shift`). That is looked for first,
so words before a jump stand, however long the jump is.
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

    margin      attention must keep this far from the end; None: it may go anywhere
    rewind      attention may jump back by this much; None: by any amount
    last_frame  what the last token before this decode attended to, in this window's frames (may be negative)
    beyond      tokens that are still decoded after the frontier, as a guess; they are not firm
    back        a word may look so far back from the one before it; one that looks further ends the search
                (not across decodes, whose windows differ); None: any place is right
    floor       of the spread of attention, see `watch.attended_frame`; 0: as published
    """

    margin: int | None = 25
    rewind: int | None = 200
    last_frame: int = -200
    beyond: int = 0
    back: int | None = None
    floor: float = 0.0

    def __post_init__(self) -> None:
        least = min(self.margin or 0, self.beyond, self.back or 0, self.floor)
        if least < 0 or (self.rewind is not None and self.rewind < 1):
            raise OptionError(f"expected margin, beyond, back and floor >= 0, and rewind >= 1 frames; got {self}")

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
        self._word_at: int | None = None  # what the newest token that begins a word attended to
        self.halt: Halt | None = None
        self.last_frame: int | None = None

    def check(self, tokens: Sequence[int], attention: FloatArray | None) -> int | None:
        """How many tokens to keep, or None to go on. Raises `ValueError` without attention."""
        if attention is None:
            raise ValueError("expected the attention of the alignment heads; the decoder was asked for none")
        reach = self._scene.frames + self._scene.silence
        frame = attended_frame(attention[self._rows], reach, self._rule.floor)
        turns_back = self._turns_back(tokens[-1], frame)
        if self.halt is None:
            self._look(tokens, frame, turns_back)
        elif turns_back:  # so far the guess goes
            return len(tokens) - 1
        if self.halt is None:
            return None
        if self.halt.reason == "rewind":
            return 0
        if self.halt.reason == "backward-shift" or not self._rule.beyond:
            return self.halt.index
        return self._enough(tokens)

    def _turns_back(self, token: int, frame: int) -> bool:
        """Whether this token begins a word, and looks too far back from the word before it."""
        if self._rule.back is None or not self._scene.kinds.is_content(token):
            return False
        before, self._word_at = self._word_at, frame
        return before is not None and before - frame > self._rule.back

    def _look(self, tokens: Sequence[int], frame: int, turns_back: bool) -> None:
        before = self._rule.last_frame if self.last_frame is None else self.last_frame
        newest = len(tokens) - 1
        after_special = newest == 0 and not self._scene.forced
        if turns_back:
            self.halt = Halt("backward-shift", newest, tokens[-1])
            return
        if self._rule.rewind is not None and before - frame > self._rule.rewind and not after_special:
            self.halt = Halt("rewind", newest, tokens[-1])
            return
        self.last_frame = frame
        if self._rule.margin is not None and self._scene.frames - frame <= self._rule.margin:
            self.halt = Halt("frontier", newest, tokens[-1])

    def _enough(self, tokens: Sequence[int]) -> int | None:
        """All tokens, once there are enough after the frontier."""
        assert self.halt is not None
        return len(tokens) if len(tokens) - self.halt.index >= self._rule.beyond else None
