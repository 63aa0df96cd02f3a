"""Guards of attention: what they are told about a decode, and what they leave behind.

A policy plans a round without a model; so it can only say *how* the round is to be watched, as a value (`Watch`). Who
runs the round makes the guard from it, once the prompt and the heads are known (`Scene`). Afterwards the guard says
whether and where it stopped (`Halt`). Knows nothing of rounds or audio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from whispertide.decoding.alignment import MEDIAN_WIDTH, median_filter
from whispertide.decoding.search import Guard
from whispertide.types import FloatArray

if TYPE_CHECKING:
    from whispertide.decoding.token_kinds import TokenKinds
    from whispertide.model.whisper import WhisperModel

HaltReason = Literal["frontier", "rewind", "backward-shift", "near-end", "early-stop"]
Head = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Halt:
    """Why a guard stopped: at which of the sampled tokens (counted from 0), and which token that was."""

    reason: HaltReason
    index: int
    token: int


@dataclass(frozen=True, slots=True)
class Scene:
    """One decode as its guards see it.

    kinds     tells words from punctuation
    heads     the (layer, head) that each row of attention belongs to
    opening   tokens fed before the first one was sampled, forced ones included: query `opening - 1` predicts it
    forced    the forced prefix, the last tokens of the opening
    frames    encoder frames with real audio; attention may reach beyond them
    silence   frames of silence after these that were put there to end the text: what looks there is about no audio
    """

    kinds: TokenKinds
    heads: tuple[Head, ...]
    opening: int
    forced: tuple[int, ...]
    frames: int
    silence: int = 0

    def rows_of(self, heads: Sequence[Head]) -> list[int]:
        """Where in the attention these heads are."""
        return [self.heads.index(head) for head in heads]


class WatchingGuard(Guard, Protocol):
    """A guard that says afterwards what it did. `last_frame`: what the newest token attended to, where it is known."""

    @property
    def halt(self) -> Halt | None:
        """Where it stopped the decode."""

    @property
    def last_frame(self) -> int | None:
        """In frames from the window's start."""


class Watch(Protocol):
    """How a decode is to be watched: a value, from which a guard is made for each decode."""

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
    near = attention[..., : frames + MEDIAN_WIDTH // 2]
    mean, spread = near.mean(axis=1), near.std(axis=1) + floor * near.max(axis=(1, 2))[:, None]
    centred = near[:, -1] - mean
    scores = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    return int(median_filter(scores).mean(axis=0)[:frames].argmax())
