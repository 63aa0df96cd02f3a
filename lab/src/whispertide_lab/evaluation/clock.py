"""A session on a clock: audio arrives as it would be spoken, and what is shown is written down with the time.

    simulated  discrete events: computing occupies the one worker for the wall time it was measured to take, so a talk
               of an hour is done as fast as it can be computed
    processor  the same, by the processor time of the process in place of the wall's: what others do on the machine does
               not count. Meant for one thread: with several, all their seconds are added up
    free       computing takes no time: the delay of the policy alone
    live       the wall clock: what the others are checked against

All run the same loop. Audio arrives in blocks; when the worker is free it takes every block that has arrived
and runs what is due, so a round that takes long makes the next one look at more, whether the recipe's schedule has a
fixed step or does its best. What a round says is shown at its end. The end of the audio is known as it arrives, and
the session is finished then.

An executor that overlaps rounds has two workers, one per stage: in a simulation each is occupied for the time that its
stage took alone, so a round is encoded while the one before it is decoded, and what both lose to each other's use of
memory and caches is not in it. In real time the workers are the executor's own. Knows no reference.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, TypeVar

from whispertide.checkpoint import ModelDims
from whispertide.decoding.search import Steps
from whispertide.errors import SessionError
from whispertide.events import Confirmed, Event, Hypothesis
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.pilot.pilot import HeardUtterance
from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.session import Session
from whispertide.streaming.pipelined import PipelinedExecutor
from whispertide.streaming.policy import Executor
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.stages import Pending, Ready
from whispertide.types import SAMPLE_RATE, FloatArray, seconds
from whispertide_lab.evaluation.energy import Meter
from whispertide_lab.evaluation.flops import encoder_gflop
from whispertide_lab.evaluation.holding import holds_back
from whispertide_lab.evaluation.pace import Clock, SimulatedClock, WallClock
from whispertide_lab.evaluation.trace import FREE, ClockName, RoundCost, Shown, Trace

BLOCK = SAMPLE_RATE // 50  # 20 ms: how finely audio arrives
_GLANCE_S = 0.002  # how often the live clock looks whether a round is done
ComputeTime = Callable[[RoundResult[Any]], float]  # what a round took, in seconds, in place of what was measured
T = TypeVar("T")


def play(
    session: Session,
    samples: FloatArray,
    *,
    clock: ClockName = "simulated",
    block: int = BLOCK,
    utterance: str = "",
    recogniser: str = "",
    dims: ModelDims | None = None,
    compute_time: ComputeTime | None = None,
) -> Trace:
    """Play `samples` [n] to a new session.

    With `compute_time` a round takes what that says and everything else nothing, so that the trace is a function of
    the audio; so it is on the free clock. Where stages overlap each takes half of it. `dims` are the model's, to count
    the encoder's work. Raises `SessionError` for a session without executor, and what the executor raises.
    """
    compute_time = (lambda _: 0.0) if clock == FREE else compute_time
    ticking = WallClock() if clock == "live" else SimulatedClock(measured=compute_time is None, name=clock)
    return _Play(session, samples, block, ticking, dims, compute_time).run(utterance, recogniser)


@dataclass(slots=True)
class _Play:
    """One session on one clock. `taken` samples have been given to the session; `guess` is the hypothesis shown.

    Rounds are computed by `worker`, which knows the clock; what it takes is written down as a round comes back.
    """

    session: Session
    samples: FloatArray
    block: int
    clock: Clock
    dims: ModelDims | None
    compute_time: ComputeTime | None
    worker: "_OneWorker | _TwoWorkers" = field(init=False)
    taken: int = 0
    guess: tuple[str, ...] = ()
    shown: list[Shown] = field(default_factory=list)
    rounds: list[RoundCost] = field(default_factory=list)

    def __post_init__(self) -> None:
        executor = self.session.executor
        if executor is None:
            raise SessionError("expected a session with an executor; this one has none: give it one")
        if isinstance(executor, PipelinedExecutor):
            self.worker = _TwoWorkers(executor, self.clock, self.compute_time, self._note)
        else:
            self.worker = _OneWorker(executor, self.clock, self.compute_time, self._note)

    def run(self, utterance: str, recogniser: str) -> Trace:
        executor, self.session.executor = self.session.executor, self.worker
        meter = Meter()
        try:
            self._run()
        finally:
            self.session.executor = executor
        usage = meter.read()
        return Trace(
            utterance=utterance,
            recogniser=recogniser or self.session.recipe.name,
            clock=self.clock.name,
            audio_s=seconds(len(self.samples)),
            shown=tuple(self.shown),
            rounds=tuple(self.rounds),
            **asdict(usage),
        )

    def _run(self) -> None:
        while self.taken < len(self.samples):
            self.worker.wait_until(seconds(self._next_arrival))
            self._take_arrived()
            self._run_due()
        self._work(lambda: self.session.request("finish"))
        self._run_due()
        while not self.session.ended and self.worker.flights:
            self.worker.wait_until(float("inf"))
            self._run_due()
        if not self.session.ended:
            raise SessionError("expected the policy to make room for the rest of the audio; it did not")
        self._show((), at_the_end=True)

    @property
    def _next_arrival(self) -> int:
        """Where the next block ends."""
        return min(self.taken + self.block, len(self.samples))

    def _take_arrived(self) -> None:
        """Give the session every block that has arrived."""
        arrived = self._next_arrival
        if seconds(arrived) > self.clock.now:
            return
        while arrived < len(self.samples) and seconds(min(arrived + self.block, len(self.samples))) <= self.clock.now:
            arrived = min(arrived + self.block, len(self.samples))
        if arrived > self.taken:
            new, self.taken = self.samples[self.taken : arrived], arrived
            self._work(lambda: self.session.ingest(new))

    def _run_due(self) -> None:
        """Run rounds until none is due; one worker takes the audio that arrives while it computes."""
        while self._work(lambda: self.session.step(wait=False)) is not None:
            self._show(self.session.drain())
            # One worker's round has taken time, in which audio came in; with two a round has only begun.
            if isinstance(self.worker, _OneWorker) and self.taken < len(self.samples):
                self._take_arrived()
        self._show(self.session.drain())

    def _work(self, task: Callable[[], T]) -> T:
        """The session's own work: the voice gate, planning, judging; what the worker did meanwhile it accounts for."""
        began, computed = self.clock.timer(), self.worker.computed_s
        done = task()
        self.clock.spend(self.clock.timer() - began - (self.worker.computed_s - computed))
        return done

    def _note(self, result: RoundResult[Any], start: float, spent: float, worked: float | None) -> RoundResult[Any]:
        """Write down what a round took; a schedule that looks at the load must see this clock's figures."""
        began = self.clock.timer()
        self.rounds.append(self._cost(result, start, spent, worked))
        self.worker.computed_s += self.clock.timer() - began  # to look at a round is no work of the session
        return replace(result, stats=replace(result.stats, encode_s=spent, decode_s=0.0, align_s=0.0))

    def _show(self, events: Sequence[Event], *, at_the_end: bool = False) -> None:
        """What these events change for a viewer, all at once."""
        words = [word.text for event in events if isinstance(event, Confirmed) for word in event.words]
        guesses = [event for event in events if isinstance(event, Hypothesis)]
        if guesses:
            self.guess = tuple(word.text for word in guesses[-1].words)
        if words or guesses or at_the_end:
            self.shown.append(Shown(self.clock.now, tuple(words), self.guess))

    def _cost(self, result: RoundResult[Any], start: float, spent: float, worked: float | None) -> RoundCost:
        stats = result.stats
        encoded = [piece for cost in result.costs for piece in cost.pieces]
        searches = sum((cost.steps for cost in result.costs if cost.stage == "decode"), Steps())
        return RoundCost(  # encode_s and decode_s are measured, on every clock
            start_s=start,
            seconds=spent,
            window_s=seconds(len(result.plan.window)),
            encode_s=stats.encode_s,
            decode_s=stats.decode_s,
            align_s=stats.align_s,
            decoder_runs=stats.decoder_runs,
            search_runs=searches.runs,
            search_rows=searches.rows,
            narrow_runs=searches.narrow,
            prompt_runs=searches.prompts,
            tokens=stats.tokens,
            encoder_gflop=sum(encoder_gflop(self.dims, *piece) for piece in encoded) if self.dims else 0.0,
            cpu_s=worked,
            window_end_s=seconds(result.plan.window.end),
            heard=_heard(result.heard),
            waits=holds_back(self.session, result),
            features_s=stats.features_s,
        )


def _heard(found: object) -> tuple[str, ...]:
    """What came of a decode that says it word by word."""
    if not isinstance(found, HeardWords | HeardUtterance):
        return ()
    return tuple(word.word.text for word in found.words)


class _Note(Protocol):
    def __call__(
        self, result: RoundResult[Any], start: float, spent: float, worked: float | None
    ) -> RoundResult[Any]: ...


@dataclass(slots=True)
class _OneWorker:
    """Computes one round after the other; the clock goes on meanwhile. `computed_s` is what that took in fact."""

    executor: Executor
    clock: Clock
    compute_time: ComputeTime | None
    note: _Note
    computed_s: float = 0.0
    flights: tuple[()] = ()

    def wait_until(self, at: float) -> None:
        """Nothing happens before."""
        self.clock.wait_until(at)

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None = None
    ) -> RoundResult[Any]:
        """Satisfies `policy.Executor`."""
        start, began, worked = self.clock.now, self.clock.timer(), time.process_time()
        result = self.executor.run(plan, audio, options, state)
        spent, worked = self.clock.timer() - began, time.process_time() - worked
        self.computed_s += spent
        if self.compute_time is None:
            self.clock.spend(spent)
        else:
            spent = self.compute_time(result)
            self.clock.wait_until(start + spent)
        return self.note(result, start, spent, worked)


@dataclass(slots=True, eq=False)
class _Flight:
    """A round under way: when it began and, in a simulation, what its stages take, in time and in processor time, and
    when it is done. Satisfies `stages.Pending`.
    """

    worker: "_TwoWorkers"
    start: float
    pending: Pending
    spent: float | None = None
    worked: float | None = None
    done_at: float = 0.0
    encoded_at: float = 0.0

    @property
    def plan(self) -> RoundPlan:
        return self.pending.plan

    @property
    def done(self) -> bool:
        return self.done_at <= self.worker.clock.now if isinstance(self.pending, Ready) else self.pending.done

    def result(self) -> RoundResult[Any]:
        found = self.pending.result()
        stats = found.stats
        spent = stats.encode_s + stats.decode_s + stats.align_s if self.spent is None else self.spent
        self.worker.flights.remove(self)
        return self.worker.note(found, self.start, spent, self.worked)

    def cancel(self) -> None:
        self.worker.flights.remove(self)
        self.pending.cancel()
        if isinstance(self.pending, Ready) and not self.done:
            self.worker.stop(self)

    @property
    def step_s(self) -> float:
        """How long one run of the decoder took, in a simulation: a decode that is given up stops after one."""
        return (self.done_at - self.encoded_at) / max(self.pending.result().stats.decoder_runs, 1)


@dataclass(frozen=True, slots=True)
class _Took:
    """Seconds of a round."""

    encode_s: float
    decode_s: float


@dataclass(slots=True)
class _TwoWorkers:
    """Computes the stages of several rounds at once. In a simulation each of the two workers is occupied as long as its
    stage took alone; in real time they are the executor's own. Satisfies `stages.Overlapping`.
    """

    executor: PipelinedExecutor
    clock: Clock
    compute_time: ComputeTime | None
    note: _Note
    computed_s: float = 0.0
    flights: list[_Flight] = field(default_factory=list)
    encoder_free: float = 0.0
    decoder_free: float = 0.0

    @property
    def depth(self) -> int:
        return self.executor.depth

    def wait_until(self, at: float) -> None:
        """Until then, or until the oldest round is done."""
        oldest = self.flights[0] if self.flights else None
        if oldest is None or isinstance(oldest.pending, Ready):
            self.clock.wait_until(at if oldest is None else min(at, oldest.done_at))
            return
        while not oldest.pending.done and self.clock.now < at:
            self.clock.wait_until(min(at, self.clock.now + _GLANCE_S))

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None = None
    ) -> RoundResult[Any]:
        return self.begin(plan, audio, options, state).result()

    def begin(
        self,
        plan: RoundPlan,
        audio: FloatArray,
        options: DecodeOptions,
        state: EncoderState | None = None,
        after: Pending | None = None,
    ) -> _Flight:
        start, before = self.clock.now, after.pending if isinstance(after, _Flight) else None
        if self.clock.name == "live":
            flight = _Flight(self, start, self.executor.begin(plan, audio, options, state, before))
        else:
            # In a simulation a round is computed where it begins, so the one before has its result.
            state = before.result().state if before is not None else state
            flight = self._simulated(plan, audio, options, state)
        self.flights.append(flight)
        return flight

    def _simulated(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None
    ) -> _Flight:
        start, worked = self.clock.now, time.process_time()
        result, took = self._compute(plan, audio, options, state)
        worked = time.process_time() - worked
        # Such a round keeps both workers until it is done.
        if self.executor.rounds.alone:
            self.encoder_free = max(self.encoder_free, self.decoder_free)
        encoded_at = max(start, self.encoder_free) + took.encode_s
        self.encoder_free = encoded_at
        self.decoder_free = max(encoded_at, self.decoder_free) + took.decode_s
        spent = took.encode_s + took.decode_s
        return _Flight(self, start, Ready(result), spent, worked, self.decoder_free, encoded_at)

    def _compute(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None
    ) -> tuple[RoundResult[Any], _Took]:
        """The round, and what it takes on this clock."""
        stages = self.executor.stages
        began = self.clock.timer()
        opened = stages.encode(plan, audio, state)
        encoded = self.clock.timer()
        result = stages.decode(plan, opened, options)
        done = self.clock.timer()
        self.computed_s += done - began
        if self.compute_time is not None:
            half = self.compute_time(result) / 2
            return result, _Took(half, half)
        return result, _Took(encoded - began, done - encoded)

    def stop(self, flight: _Flight) -> None:
        """A round is given up now: it ends with the stage it is in, or with the next run of the decoder."""
        stopped = min(max(flight.encoded_at, self.clock.now + flight.step_s), flight.done_at)
        self.encoder_free, self.decoder_free = min(self.encoder_free, stopped), stopped
        # A round that takes no time, as on the free clock, has no share to take off.
        share = 1 - (flight.done_at - stopped) / (flight.spent or 1.0)
        self.note(flight.pending.result(), flight.start, share * (flight.spent or 0.0), share * (flight.worked or 0.0))
