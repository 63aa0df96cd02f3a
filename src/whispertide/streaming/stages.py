"""A round in two stages, and rounds that are under way: what stands between a session and whoever computes.

The first stage makes an `Opening` of the round's audio, the second turns it into a result. An executor that is `Staged`
can do both at once or leave each to a worker of its own (`streaming.pipelined`). A session does not care: it begins a
round and asks for its result later. Nothing here starts a thread.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from whispertide.decoding.longform import Cost, Features
from whispertide.decoding.search import Guard
from whispertide.options import DecodeOptions
from whispertide.streaming.policy import Executor
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import FloatArray

if TYPE_CHECKING:
    from whispertide.model.engine import Encoded
    from whispertide.model.whisper import WhisperModel


@dataclass(frozen=True, slots=True)
class Opening:
    """What the first stage leaves to the second: the features of the round, and its first window encoded.

    `hushed` says whether a hush word is after that window.
    """

    features: Features
    encoded: "Encoded"
    cost: Cost
    hushed: bool

    @classmethod
    def of(cls, features: Features, frames: int, encode: "Callable[[FloatArray], Encoded]") -> "Opening":
        """Encode the first `frames` mel frames, and note what that took."""
        mel = features.followed(0, frames)
        began = time.perf_counter()
        encoded = encode(mel)
        return cls(
            features, encoded, Cost("encode", time.perf_counter() - began, frames=encoded.frames), mel.shape[1] > frames
        )


class Staged(Protocol):
    """Computes a round in two stages, which may run in two threads and overlap with those of other rounds."""

    def encode(self, plan: RoundPlan, audio: FloatArray) -> Opening | None:
        """The first stage; None: there is too little audio to hear anything. Raises `GraphError`."""

    def decode(
        self, plan: RoundPlan, opening: Opening | None, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult:
        """The second stage. Raises `GraphError`."""


@runtime_checkable
class Exchangeable(Staged, Protocol):
    """Stages whose decode may change workers (`model.exchanged`)."""

    model: "WhisperModel"

    def decoding_with(self, model: "WhisperModel") -> Staged:
        """The same stages, but `model` decodes."""


class Pending(Protocol):
    """A round that was begun."""

    @property
    def plan(self) -> RoundPlan:
        """What was to be done."""

    @property
    def done(self) -> bool:
        """Whether `result` returns, or raises, at once."""

    def result(self) -> RoundResult:
        """Wait for it. Raises what its computation raised."""

    def cancel(self) -> None:
        """Nobody wants it any more: stop soon. Does not wait."""


@runtime_checkable
class Overlapping(Protocol):
    """An executor that computes several rounds at once, `depth` at most; their results come in the order of `begin`."""

    depth: int

    def begin(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions) -> Pending:
        """Like `Executor.run`, without waiting for the result."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A round whose result is there. Satisfies `Pending`."""

    found: RoundResult

    @property
    def plan(self) -> RoundPlan:
        """What was to be done."""
        return self.found.plan

    @property
    def done(self) -> bool:
        """Always."""
        return True

    def result(self) -> RoundResult:
        """The result."""
        return self.found

    def cancel(self) -> None:
        """Nothing is left to stop."""


def begin(executor: Executor, plan: RoundPlan, audio: FloatArray, options: DecodeOptions) -> Pending:
    """Begin a round; an executor that does not overlap computes it now."""
    if isinstance(executor, Overlapping):
        return executor.begin(plan, audio, options)
    return Ready(executor.run(plan, audio, options))


def depth_of(executor: Executor | None) -> int:
    """How many rounds the executor works on at once."""
    return executor.depth if isinstance(executor, Overlapping) else 1
