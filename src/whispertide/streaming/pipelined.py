"""Round n is encoded while round n-1 is decoded: two stages on two workers, after WhisperFlow (Wang et al., section 4).

A worker is graph sessions of its own, bound to a provider and a number of threads; `executor.make_executor` gives them
to the stages. Each round has a thread that uses one worker after the other, in the order of the rounds. A round is
planned while the one before it is still under way, so it knows one round less: results, and with them the trimming of
audio, come one round late. That is the algorithm's price, and the only difference from serial execution of the same
plans.

Knows threads; knows no policy and no session.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Any, ClassVar
from weakref import ref

from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.round import Opened, RoundPlan, RoundResult
from whispertide.streaming.stages import Pending, Staged
from whispertide.types import FloatArray


class PipelinedRound:
    """A round on its way through the stages, after the round `before` it, whosever that is. Satisfies `stages.Pending`.

    `after` is the round before it of the same session, if that is under way; its encoder state is known once it has
    left the first stage, and that is before this one gets there. `alone`: it keeps both workers until it is done.
    """

    alone: ClassVar[bool] = False

    def __init__(
        self,
        plan: RoundPlan,
        audio: FloatArray,
        options: DecodeOptions,
        state: EncoderState | None = None,
        after: "PipelinedRound | None" = None,
        before: "PipelinedRound | None" = None,
    ) -> None:
        self.plan = plan
        self.state = state  # of the encoder: before the first stage what that goes on from, then what it leaves
        self._after = after
        self._audio = audio
        self._options = options
        self._before = before
        self._outcome: Future[RoundResult[Any]] = Future()
        self._cancelled = threading.Event()
        self._first_is_free = threading.Event()
        self._second_is_free = threading.Event()

    @property
    def done(self) -> bool:
        """True if `result` returns, or raises, at once."""
        return self._outcome.done()

    def result(self) -> RoundResult[Any]:
        """Wait for it. Raises what a stage raised, `CancelledError` after `cancel`."""
        return self._outcome.result()

    def cancel(self) -> None:
        """Give it up: a stage that has not begun does not begin, and a decode stops at its next token."""
        self._cancelled.set()

    def check(self) -> None:
        """Raises `CancelledError` where nobody wants the round any more."""
        if self._cancelled.is_set():
            raise CancelledError

    def run(self, stages: Staged) -> None:
        """Both stages, each as soon as the round before has left it."""
        try:
            if self._before is not None:
                self._before._first_is_free.wait()
            self.check()
            if self._after is not None:
                self.state = self._after.encoded_to()
            opened = self._encoding(stages)
            if opened is not None:
                self.state = opened.encoded.state
            self._between()
            self._check_between(stages, opened)
            found = stages.decode(self.plan, opened, self._options, (_Cancellation(self),))
            # A round with nothing to hear has no state of its own, and the one that it was given is still good.
            self._outcome.set_result(replace(found, state=self.state))
        except BaseException as error:  # it belongs to whoever waits for the result
            self._outcome.set_exception(error)
        # Whatever happened: the rounds after this one wait for both.
        finally:
            self._leave_first()
            self._second_is_free.set()
            # Else every round would keep all those before it alive.
            self._before = self._after = None

    def encoded_to(self) -> EncoderState | None:
        """The encoder's state after it, once the first stage is done. Raises `CancelledError` where that failed."""
        # Asked only where it is done: before that `exception` would wait.
        if self._outcome.done() and self._outcome.exception() is not None:
            raise CancelledError
        return self.state

    def _encoding(self, stages: Staged) -> Opened | None:
        """The first stage."""
        return stages.encode(self.plan, self._audio, self.state)

    def _check_between(self, stages: Staged, opened: Opened | None) -> None:
        """`check` between the stages, when the first has left `opened`."""
        self.check()

    def _between(self) -> None:
        """The round goes from one worker to the other."""
        self._leave_first()

    def _leave_first(self) -> None:
        """Go from the first worker to the second one as soon as that is free."""
        self._first_is_free.set()
        if self._before is not None:
            # A cancelled round waits, too, or the one after it would decode next to the one before.
            self._before._second_is_free.wait()


class _Cancellation:
    """A guard that truncates nothing: it breaks off the decode of a cancelled round."""

    def __init__(self, wanted: PipelinedRound) -> None:
        self._wanted = wanted

    def check(self, tokens: Sequence[int], attention: FloatArray | None, logprob: float) -> int | None:
        """Raises `CancelledError` in a cancelled round."""
        self._wanted.check()
        return None


class PipelinedExecutor:
    """Runs the two stages of each round on two workers, in the order of the rounds.

    `depth` rounds are enough to keep both busy. Any number of sessions may share it; it satisfies `policy.Executor` and
    `stages.Overlapping`. A thread lives only as long as its round: there is nothing to close.
    """

    depth: int = 2
    rounds: ClassVar[type[PipelinedRound]] = PipelinedRound

    def __init__(self, stages: Staged) -> None:
        self.stages = stages
        # Not kept alive: of a round that is done, and that no session holds, nobody has to wait for anything.
        self._newest: Callable[[], PipelinedRound | None] = lambda: None
        self._lock = threading.Lock()

    def begin(
        self,
        plan: RoundPlan,
        audio: FloatArray,
        options: DecodeOptions,
        state: EncoderState | None = None,
        after: Pending | None = None,
    ) -> PipelinedRound:
        """Begin to hear `audio` ([len(plan.window)] samples, not to be written to); returns at once."""
        of_session = after if isinstance(after, PipelinedRound) else None
        with self._lock:  # so that no two rounds follow the same one
            begun = self.rounds(plan, audio, options, state, of_session, self._newest())
            threading.Thread(target=begun.run, args=(self.stages,), name="round").start()
            # Not before: where there is no room for a thread, nobody must wait for a round that never runs.
            self._newest = ref(begun)
        return begun

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None = None
    ) -> RoundResult[Any]:
        """The same, waiting for the result: nothing overlaps with other rounds of this caller."""
        begun = self.begin(plan, audio, options, state)
        try:
            return begun.result()
        except BaseException:  # also an interrupt: nobody will ask again
            begun.cancel()
            raise
