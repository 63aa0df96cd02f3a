"""Rounds in two stages, and rounds under way: what stands between a session and whoever computes.

An executor that is `Staged` can do both stages at once or leave each to a worker of its own (`streaming.pipelined`). A
session does not care: it begins a round and asks for its result later. Nothing here starts a thread: `SerialExecutor`
computes a round at once, where it is called.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from whispertide.decoding.search import Guard
from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.policy import Executor
from whispertide.streaming.round import Equipment, Opened, RoundPlan, RoundResult
from whispertide.types import FloatArray

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel


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
        """What was to be done."""

    @property
    def done(self) -> bool:
        """Whether `result` returns, or raises, at once."""

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
        """What was to be done."""
        return self.found.plan

    @property
    def done(self) -> bool:
        """Always."""
        return True

    def result(self) -> RoundResult[Any]:
        """The result."""
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
    """How many rounds the executor works on at once."""
    return executor.depth if isinstance(executor, Overlapping) else 1


@dataclass(frozen=True, slots=True)
class SerialExecutor:
    """Computes a round at once, on the caller's thread. Satisfies `policy.Executor` and `stages.Staged`."""

    equipment: Equipment

    @property
    def model(self) -> "WhisperModel":
        """What decodes."""
        return self.equipment.model

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None = None
    ) -> RoundResult[Any]:
        """Hear `audio` ([len(plan.window)] samples). Raises `GraphError` where the model fails."""
        opened = self.encode(plan, audio, state)
        return self.decode(plan, opened, options) if opened is not None else RoundResult(plan, state=state)

    def encode(self, plan: RoundPlan, audio: FloatArray, state: EncoderState | None = None) -> Opened | None:
        """The first stage of `run`."""
        return plan.hearing.encode(self.equipment, plan, audio, state)

    def decode(
        self, plan: RoundPlan, opened: Opened | None, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult[Any]:
        """The second stage of `run`."""
        if opened is None:
            return RoundResult(plan)
        return replace(plan.hearing.decode(self.equipment, plan, opened, options, guards), state=opened.encoded.state)


class UnderWay:
    """Rounds that were begun and whose results were not taken, the oldest first."""

    def __init__(self) -> None:
        self._rounds: list[Pending] = []

    def __len__(self) -> int:
        return len(self._rounds)

    @property
    def is_ready(self) -> bool:
        """Whether there is a round, and taking the oldest does not wait."""
        return bool(self._rounds) and self._rounds[0].done

    def begin(
        self,
        executor: Executor,
        plan: RoundPlan,
        audio: FloatArray,
        options: DecodeOptions,
        state: EncoderState | None,
    ) -> None:
        """Begin another. `state` is what the encoder carries from the newest result that was taken."""
        after = self._rounds[-1] if self._rounds else None
        self._rounds.append(begin(executor, plan, audio, options, state, after))

    def take(self) -> RoundResult[Any]:
        """Wait for the oldest. Raises what its computation raised; then it is still the oldest."""
        result = self._rounds[0].result()
        del self._rounds[0]
        return result

    def give_up(self, ids: Collection[int] | None = None) -> set[int]:
        """Stop those with these plan ids, or all; returns which there were."""
        given_up = [each for each in self._rounds if ids is None or each.plan.id in ids]
        for each in given_up:
            each.cancel()
        self._rounds = [each for each in self._rounds if not (ids is None or each.plan.id in ids)]
        return {each.plan.id for each in given_up}
