"""NPUsper's guard: the attention of true speech moves forward; when it jumps back, the decoder is making words up.

For each content token the change of a layer's attention (the last one's, unless told otherwise) since the content token
before it is smoothed (median, then moving average). It rises most where attention arrives (f+) and falls most where it
leaves (f-). f+ < f- is a backward shift: the token is dropped and the search ends. A token that arrives within
`near_end` of the end is kept, and ends the search too. Where paper and published code differ both are choices
(docs/internals/attention.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from whispertide.checkpoint.generation import Head
from whispertide.decoding.guards import Halt, Scene
from whispertide.decoding.search import Guard
from whispertide.errors import OptionError
from whispertide.model.whisper import WhisperModel
from whispertide.options import check_choice
from whispertide.types import FloatArray

ShiftRow = Literal["predicting", "fed"]
Compared = Literal["words", "no-marks", "all"]


@dataclass(frozen=True, slots=True)
class BackwardShift:
    """The rule; frames are the encoder's, of 20 ms.

    detect      whether backward shifts end the search (without: only the near end does)
    median, average   widths of the two filters; 1 switches one off
    row         "predicting": a token's attention is that of the query that predicted it; "fed": of the query at which
                it was fed in, which predicts the next one and takes a step more (the published code)
    search_from   f+ is looked for from this frame on (the published code: 15)
    near_end    a token whose f+ lies this close to the end ends the search and stays; None: never
    finish_word   then the rest of its word is decoded too
    compared    which tokens are: "words", those that begin one; "no-marks", all but punctuation; or "all" (table 2)
    layer       of the decoder, from 0; None: the last (table 4 has others)
    """

    detect: bool = True
    median: int = 7
    average: int = 10
    row: ShiftRow = "predicting"
    search_from: int = 0
    near_end: int | None = None
    finish_word: bool = False
    compared: Compared = "words"
    layer: int | None = None

    def __post_init__(self) -> None:
        if self.median < 1 or self.median % 2 == 0 or self.average < 1 or self.search_from < 0:
            raise OptionError(f"expected an odd median >= 1, average >= 1 and search_from >= 0; got {self}")
        check_choice("row", self.row, get_args(ShiftRow))
        check_choice("compared", self.compared, get_args(Compared))

    def heads(self, model: WhisperModel) -> tuple[Head, ...]:
        """All heads of the decoder layer. Raises `OptionError` for one that the model has not."""
        last = model.dims.n_text_layer - 1
        layer = last if self.layer is None else self.layer
        if not 0 <= layer <= last:
            raise OptionError(f"expected a decoder layer from 0 to {last}; got {layer}")
        return tuple((layer, head) for head in range(model.dims.n_text_head))

    def guard(self, scene: Scene, model: WhisperModel) -> BackwardShiftGuard:
        """The guard of one decode."""
        return BackwardShiftGuard(self, scene, scene.rows_of(self.heads(model)))


class BackwardShiftGuard(Guard):
    """Watches one greedy decode; `rows` of the attention are the layer's heads."""

    def __init__(self, rule: BackwardShift, scene: Scene, rows: Sequence[int]) -> None:
        self._rule = rule
        self._scene = scene
        self._rows = list(rows)
        self._late = int(rule.row == "fed")  # tokens between one and its attention
        self._before: FloatArray | None = None
        self._started = False
        self.halt: Halt | None = None
        self.last_frame: int | None = None

    def check(self, tokens: Sequence[int], attention: FloatArray | None, logprob: float = 0) -> int | None:
        """The number of tokens to keep, or None to go on. Raises `ValueError` without attention."""
        if attention is None:
            raise ValueError("expected the attention of a layer; the decoder was asked for none")
        if not self._started:
            self._start(attention)
        if self.halt is not None:  # near the end, in the middle of a word
            return None if self._scene.kind_of(tokens[-1]).continues else len(tokens) - 1
        # With the row "fed" the newest token has no attention yet: it is judged when the next one is there.
        index = len(tokens) - 1 - self._late
        if index < 0 or not self._is_compared(tokens[index]):
            return None
        # A token was predicted by the query before it.
        return self._judge(tokens, index, self._map(attention, self._scene.opening - 1 + index))

    def _start(self, attention: FloatArray) -> None:
        """The last content token of the forced prefix is what the first one is compared with."""
        self._started = True
        forced = self._scene.forced
        # The prefix stands at the end of the prompt, and each of its tokens was predicted by the query before.
        first_query = self._scene.opening - len(forced) - 1
        for index in reversed(range(len(forced))):
            if self._is_compared(forced[index]) and first_query + index >= 0:
                self._before = self._map(attention, first_query + index)
                return

    def _is_compared(self, token: int) -> bool:
        kind = self._scene.kind_of(token)
        if self._rule.compared == "words":
            return kind.is_content
        return not (kind.is_special or (self._rule.compared == "no-marks" and kind.is_mark))

    def _map(self, attention: FloatArray, query: int) -> FloatArray:
        """The mean over the heads of what predicted (or, fed, followed) the token of `query`: [frames]."""
        found: FloatArray = attention[self._rows, query + self._late, : self._scene.frames].mean(axis=0)
        return found

    def _judge(self, tokens: Sequence[int], index: int, now: FloatArray) -> int | None:
        arrives, leaves = self._shift(now)
        self.last_frame = arrives
        # What is newly attended to lies before what is no longer: the decoder goes back over audio that it has heard.
        if self._rule.detect and self._before is not None and arrives < leaves:
            self.halt = Halt("backward-shift", index, tokens[index])
            return index
        self._before = now
        if self._rule.near_end is not None and arrives > self._scene.frames - self._rule.near_end:
            self.halt = Halt("near-end", index, tokens[index])
            # Near the end the token stays; AlignAtt would drop it.
            return self._end_here(tokens, index)
        return None

    def _end_here(self, tokens: Sequence[int], index: int) -> int | None:
        if not self._rule.finish_word:
            return index + 1
        if self._late and not self._scene.kind_of(tokens[-1]).continues:
            return index + 1
        return None

    def _shift(self, now: FloatArray) -> tuple[int, int]:
        """f+ and f-, in frames."""
        # Without a token before it all of the attention is new; only the distance to the end is judged by that.
        before = np.zeros_like(now) if self._before is None else self._before
        change = smooth(now - before, self._rule.median, self._rule.average)
        # A short window may end before that frame.
        start = min(self._rule.search_from, len(change) - 1)
        return start + int(change[start:].argmax()), int(change.argmin())


def smooth(change: FloatArray, median: int, average: int) -> FloatArray:
    """Running median (mirrored at the ends), then moving average over taps i - n//2 ... (zeros outside)."""
    if median > 1 and len(change) > median // 2:
        padded = np.pad(change, median // 2, mode="reflect")
        change = np.median(np.lib.stride_tricks.sliding_window_view(padded, median), axis=-1).astype(np.float32)
    if average > 1:
        padded = np.pad(change, (average // 2, average - 1 - average // 2))
        change = np.lib.stride_tricks.sliding_window_view(padded, average).mean(axis=-1).astype(np.float32)
    return change
