"""Rounds in two stages, and rounds under way: what stands between a session and whoever computes.

An executor that is `Staged` can do both stages at once or leave each to a worker of its own (`streaming.pipelined`). A
session does not care: it begins a round and asks for its result later. Nothing here starts a thread: `SerialExecutor`
computes a round at once, where it is called.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from whispertide.decoding.search import Guard
from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.policy import Executor
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import Opened, RoundPlan, RoundResult
from whispertide.types import FloatArray


class Staged(Protocol):
    """Computes a round in the two stages of its hearing; they may run in two threads and overlap with other rounds."""

    def encode(self, plan: RoundPlan, audio: FloatArray, state: EncoderState | None) -> Opened | None:
        """The first stage; None: there is too little audio to hear anything. Raises `GraphError`."""

    def decode(
        self, plan: RoundPlan, opened: Opened | None, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult[Any]:
        """The second stage. Raises `GraphError`."""


class Pending(Protocol):
    """A round that was begun."""

    @property
    def plan(self) -> RoundPlan:
        """The plan of the round."""

    @property
    def done(self) -> bool:
        """True if `result` returns, or raises, at once."""

    def result(self) -> RoundResult[Any]:
        """Wait for it. Raises what its computation raised."""

    def cancel(self) -> None:
        """Nobody wants it any more: stop soon. Does not wait."""


@runtime_checkable
class Overlapping(Protocol):
    """An executor that computes several rounds at once, `depth` at most; their results come in the order of `begin`."""

    depth: int

    def begin(
        self,
        plan: RoundPlan,
        audio: FloatArray,
        options: DecodeOptions,
        state: EncoderState | None = None,
        after: Pending | None = None,
    ) -> Pending:
        """Like `Executor.run`, without waiting for the result. `after` is the round before, if that is under way still:
        then the encoder goes on from where that one leaves it, and not from `state`.
        """


@dataclass(frozen=True, slots=True)
class Ready:
    """A round whose result is there. Satisfies `Pending`."""

    found: RoundResult[Any]

    @property
    def plan(self) -> RoundPlan:
        """The plan of the round."""
        return self.found.plan

    @property
    def done(self) -> bool:
        return True

    def result(self) -> RoundResult[Any]:
        return self.found

    def cancel(self) -> None:
        """Nothing is left to stop."""


def begin(
    executor: Executor,
    plan: RoundPlan,
    audio: FloatArray,
    options: DecodeOptions,
    state: EncoderState | None = None,
    after: Pending | None = None,
) -> Pending:
    """Begin a round (`Overlapping.begin`); an executor that does not overlap computes it now, as it did `after`."""
    if isinstance(executor, Overlapping):
        return executor.begin(plan, audio, options, state, after)
    return Ready(executor.run(plan, audio, options, state if after is None else after.result().state))


def depth_of(executor: Executor | None) -> int:
    """The number of rounds that the executor works on at once."""
    return executor.depth if isinstance(executor, Overlapping) else 1


@dataclass(frozen=True, slots=True)
class SerialExecutor:
    """Computes a round at once, on the caller's thread. Satisfies `policy.Executor` and `stages.Staged`."""

    resources: RoundResources

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None = None
    ) -> RoundResult[Any]:
        """Hear `audio` ([len(plan.window)] samples). Raises `GraphError` where the model fails."""
        opened = self.encode(plan, audio, state)
        return self.decode(plan, opened, options) if opened is not None else RoundResult(plan, state=state)

    def encode(self, plan: RoundPlan, audio: FloatArray, state: EncoderState | None = None) -> Opened | None:
        """The first stage of `run`."""
        return plan.hearing.encode(self.resources, plan, audio, state)

    def decode(
        self, plan: RoundPlan, opened: Opened | None, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult[Any]:
        """The second stage of `run`."""
        if opened is None:
            return RoundResult(plan)
        return replace(plan.hearing.decode(self.resources, plan, opened, options, guards), state=opened.encoded.state)
