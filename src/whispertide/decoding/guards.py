"""Guards, which end a search early, and how they are told about a decode. They may only truncate.

Two look for repetition in the tokens. The others look at the attention. A policy plans a round without a model, so it
can only say *how* the round is to be watched, as a value (`Watch`). Who runs the round makes the guard from it, once
the prompt and the heads are known (`Scene`). Afterwards the guard says whether and where it stopped (`Halt`).

`Frontier` is AlignAtt: text stands as long as it attends to audio well before the end of what there is (Papi et al.
2023). A token whose attention lies within `margin` frames of the end may be about a word that is still being spoken: it
is dropped, and the search ends. A token that attends far *before* the one that it follows means that the decoder has
lost its place: then nothing of this decode stands. Source: SimulStreaming, `PaddedAlignAttWhisper.infer`; as in
docs/internals/attention.md. Ours: a word that attends somewhat before the one that it follows ends the decode, because
the decoder is about to say again what it has said (the idea is NPUsper's, see `backward_shift`). That is looked for
first, so words before a jump stand, however long the jump is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from whispertide.checkpoint.generation import Head
from whispertide.checkpoint.tokenizer import KindOf
from whispertide.decoding.search import Guard
from whispertide.decoding.token_words import MEDIAN_WIDTH, median_filter
from whispertide.errors import OptionError
from whispertide.model.whisper import WhisperModel
from whispertide.types import FloatArray

# A loop: so many copies in a row, that make up so many tokens, of an n-gram of so many tokens at most. Four copies of
# more do not fit into a window's 224.
_COPIES, _RUN, _LONGEST = 4, 12, 40
_KEPT = 2  # copies of a loop


@dataclass(frozen=True, slots=True)
class RepetitionGuard:
    """Stops when the text ends in many copies of one n-gram, and keeps the first two of them.

    People do say "no, no, no, no" and repeat a line of a song, so it takes at least four copies in a row that make up
    at least twelve tokens: twelve times one token, four times three tokens. Tokens from `text_end` on (end of text,
    timestamps) do not count: a loop is a loop whatever times the model gives it.
    """

    text_end: int

    def check(self, tokens: Sequence[int], attention: FloatArray | None = None, logprob: float = 0) -> int | None:
        """The number of `tokens` to keep if they end in a loop, else None. Nothing else is looked at."""
        if not tokens or tokens[-1] >= self.text_end:
            return None
        places = [place for place, token in enumerate(tokens) if token < self.text_end]
        text = [tokens[place] for place in places]
        # The shortest first, because twelve times one token is six times two as well.
        for size in range(1, min(_LONGEST, len(text) // _COPIES) + 1):
            copies = max(_COPIES, -(-_RUN // size))
            if _ends_in_copies(text, size, copies):
                first = len(text) - size * copies
                return places[first + size * _KEPT - 1] + 1
        return None


def with_loop_guard(guards: Iterable[Guard], text_end: int, *, wanted: bool) -> list[Guard]:
    """The guards, and where it is wanted a `RepetitionGuard` after them."""
    return [*guards, RepetitionGuard(text_end)] if wanted else [*guards]


@dataclass(frozen=True, slots=True)
class SameToken:
    """Stops at the `copies`-th token in a row that is the same, and drops all of them (NPUsper's code)."""

    copies: int = 3

    def __post_init__(self) -> None:
        if self.copies < 2:
            raise OptionError(f"expected copies >= 2; got {self.copies}")

    def check(self, tokens: Sequence[int], attention: FloatArray | None = None, logprob: float = 0) -> int | None:
        """The number of `tokens` before the copies, else None. Nothing else is looked at."""
        return len(tokens) - self.copies if _ends_in_copies(list(tokens), 1, self.copies) else None


def _ends_in_copies(text: list[int], size: int, copies: int) -> bool:
    """True if the last `size * copies` items of `text` repeat with period `size`."""
    tail = text[-size * copies :]
    return len(tail) == size * copies and tail[size:] == tail[:-size]


HaltReason = Literal["frontier", "rewind", "backward-shift", "near-end", "early-stop"]


@dataclass(frozen=True, slots=True)
class Halt:
    """The reason why a guard stopped: at which of the sampled tokens (counted from 0), and which token that was."""

    reason: HaltReason
    index: int
    token: int


@dataclass(frozen=True, slots=True)
class Scene:
    """One decode as its guards see it.

    kind_of   tells words from punctuation
    heads     the (layer, head) that each row of attention belongs to
    opening   tokens fed before the first one was sampled, forced ones included: query `opening - 1` predicts it
    forced    the forced prefix, the last tokens of the opening
    frames    encoder frames with real audio; attention may reach beyond them
    silence   frames of silence after these that were put there to end the text: what looks there is about no audio
    """

    kind_of: KindOf
    heads: tuple[Head, ...]
    opening: int
    forced: tuple[int, ...]
    frames: int
    silence: int = 0

    def rows_of(self, heads: Sequence[Head]) -> list[int]:
        """The place of these heads in the attention."""
        return [self.heads.index(head) for head in heads]


class WatchingGuard(Guard, Protocol):
    """A guard that says afterwards what it did. `last_frame`: what the newest token attended to, where it is known."""

    @property
    def halt(self) -> Halt | None:
        """The place where it stopped the decode."""

    @property
    def last_frame(self) -> int | None:
        """In frames from the window's start."""


class Watch(Protocol):
    """A way to watch a decode: a value, from which a guard is made for each decode."""

    def heads(self, model: WhisperModel) -> tuple[Head, ...]:
        """The heads whose attention the guard needs."""

    def guard(self, scene: Scene, model: WhisperModel) -> WatchingGuard:
        """A fresh guard for one decode."""


def attended_frame(attention: FloatArray, frames: int, floor: float = 0.0) -> int:
    """The frame that the newest query attends to more than the others do (AlignAtt, as SimulStreaming computes it).

    attention [heads, queries, frames or more], softmaxed. Scores are standardised over the queries, smoothed by a
    median over time, averaged over the heads; only the first `frames` count. `floor` is a share of each head's
    strongest attention; the spread over the queries is taken to be so much larger. Without it a frame that nobody looks
    at, as at the end of a short window, can score highest: nearly nothing divided by nearly nothing may be much.
    """
    # The median at the last frames of the audio needs the three after them.
    near = attention[..., : frames + MEDIAN_WIDTH // 2]
    mean = near.mean(axis=1, keepdims=True)
    spread = near.std(axis=1, mean=mean) + floor * near.max(axis=(1, 2))[:, None]
    centred = near[:, -1] - mean[:, 0]
    scores = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    # Heads are standardised one by one before they are averaged: a head that attends sharply would outweigh the others.
    return int(median_filter(scores).mean(axis=0)[:frames].argmax())


@dataclass(frozen=True, slots=True)
class Frontier:
    """The rule, in encoder frames of 20 ms.

    margin      attention must keep this far from the end; None: it may go anywhere
    rewind      attention may jump back by this much; None: by any amount
    words_only  after the first token only those that begin a word tell a rewind: punctuation may look anywhere
    last_frame  what the last token before this decode attended to, in this window's frames (may be negative)
    lookahead_tokens  tokens that are still decoded after the frontier, as a guess; they are not firm
    doubtful    a log-probability; a less likely token ends the guess
    back        a word may look so far back from the one before it; one that looks further ends the search
                (not across decodes, whose windows differ); None: any place is right
    floor       of the spread of attention, see `attended_frame`; 0: as published
    marks       marks that close a word which stands may look anywhere: nothing is heard of them (ours)
    """

    margin: int | None = 25  # 0.5 s, as in the program (SimulStreaming)
    rewind: int | None = 200  # 4 s, the same
    words_only: bool = False
    last_frame: int = -200
    lookahead_tokens: int = 0
    doubtful: float = -math.inf
    back: int | None = None
    floor: float = 0.0
    marks: bool = False

    def __post_init__(self) -> None:
        least = min(self.margin or 0, self.lookahead_tokens, self.back or 0, self.floor)
        if least < 0 or (self.rewind is not None and self.rewind < 1):
            raise OptionError(f"expected margin, lookahead, back and floor >= 0, and rewind >= 1 frames; got {self}")

    def heads(self, model: WhisperModel) -> tuple[Head, ...]:
        """Those that follow the audio."""
        return model.alignment_heads

    def guard(self, scene: Scene, model: WhisperModel) -> FrontierGuard:
        """The guard of one decode."""
        return FrontierGuard(self, scene, scene.rows_of(self.heads(model)))


@dataclass(slots=True)
class FrontierGuard(Guard):
    """Watches one decode; `rows` of the attention are the alignment heads, and `word_at` is what the newest token that
    begins a word attended to.
    """

    rule: Frontier
    scene: Scene
    rows: list[int]
    halt: Halt | None = None
    last_frame: int | None = None
    word_at: int | None = None

    def check(self, tokens: Sequence[int], attention: FloatArray | None, logprob: float = 0) -> int | None:
        """The number of tokens to keep, or None to go on. Raises `ValueError` without attention."""
        if attention is None:
            raise ValueError("expected the attention of the alignment heads; the decoder was asked for none")
        reach = self.scene.frames + self.scene.silence
        frame = attended_frame(attention[self.rows], reach, self.rule.floor)
        if self.rule.margin is None and self.last_frame is None and frame >= self.scene.frames:
            self.word_at = self.rule.last_frame  # the silence after the audio is no place to turn back from
            return None
        # Asked of every token, also where it decides nothing, because it remembers where the last word was.
        turns_back = self._turns_back(tokens[-1], frame)
        if self.halt is None:
            self._look(tokens, frame, turns_back)
        elif turns_back:  # so far the guess goes
            return len(tokens) - 1
        if self.halt is None:
            return None
        # The decoder has lost its place, so what it said before in this round is not to be trusted either.
        if self.halt.reason == "rewind":
            return 0
        if self.halt.reason == "backward-shift" or not self.rule.lookahead_tokens:
            return self.halt.index
        return self._enough(tokens, logprob)

    def _turns_back(self, token: int, frame: int) -> bool:
        """True if this token begins a word, and looks too far back from the word before it."""
        if self.rule.back is None or not self.scene.kind_of(token).is_content:
            return False
        before, self.word_at = self.word_at, frame
        return before is not None and before - frame > self.rule.back

    def _look(self, tokens: Sequence[int], frame: int, turns_back: bool) -> None:
        before = self.rule.last_frame if self.last_frame is None else self.last_frame
        newest = len(tokens) - 1
        if self.rule.marks and (newest or self.scene.forced) and self.scene.kind_of(tokens[-1]).closes:
            return
        # After a special token attention is nowhere in particular: nothing to jump back from (SimulStreaming).
        after_special = newest == 0 and not self.scene.forced
        if turns_back:
            # Before a rewind is looked for, which would void the words before a long jump as well.
            self.halt = Halt("backward-shift", newest, tokens[-1])
            return
        if self.rule.rewind is not None and before - frame > self.rule.rewind and not after_special:
            if self.rule.words_only and newest and not self.scene.kind_of(tokens[-1]).is_content:
                return
            self.halt = Halt("rewind", newest, tokens[-1])
            return
        self.last_frame = frame
        # `frames` are without the silence after the audio: whatever looks there is beyond the frontier.
        if self.rule.margin is not None and self.scene.frames - frame <= self.rule.margin:
            self.halt = Halt("frontier", newest, tokens[-1])

    def _enough(self, tokens: Sequence[int], logprob: float) -> int | None:
        """All tokens, once there are enough after the frontier, or what follows would be guessed after a bad guess."""
        assert self.halt is not None
        is_enough = len(tokens) - self.halt.index >= self.rule.lookahead_tokens or logprob < self.rule.doubtful
        return len(tokens) if is_enough else None
