"""Round n is encoded while round n-1 is decoded: two stages on two workers, after WhisperFlow (Wang et al., section 4).

Each worker has graph sessions of its own, bound to a provider and a number of threads; `executor.make_executor` gives
them to the stages. In the paper the workers also exchange a round in mid-decode, to balance them; here a round is
decoded whole by one worker. A round is planned while the one before it is still under way, so it knows one round less:
results, and with them the trimming of audio, come one round late. That is the algorithm's price, and the only
difference from serial execution of the same plans.

Knows threads; knows no model, no policy and no session.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial

from whispertide.decoding.search import Guard
from whispertide.options import DecodeOptions
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.stages import Opening, Staged
from whispertide.types import FloatArray


class Worker:
    """Does one task after the other, in order, on a thread that lives only while there are tasks: nothing to close."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._busy = False

    def submit(self, task: Callable[[], None]) -> None:
        """Do it after all that was submitted before. It must not raise."""
        with self._lock:
            self._tasks.append(task)
            if not self._busy:
                threading.Thread(target=self._work, name=self._name).start()
                self._busy = True

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._tasks:
                    self._busy = False
                    return
                task = self._tasks.popleft()
            task()


class PipelinedRound:
    """A round on its way through the stages. Satisfies `stages.Pending`."""

    def __init__(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> None:
        self.plan = plan
        self._audio = audio
        self._options = options
        self._guards = (*guards, _Cancellation(self))
        self._outcome: Future[RoundResult] = Future()
        self._cancelled = threading.Event()

    @property
    def done(self) -> bool:
        """Whether `result` returns, or raises, at once."""
        return self._outcome.done()

    def result(self) -> RoundResult:
        """Wait for it. Raises what a stage raised, `CancelledError` after `cancel`."""
        return self._outcome.result()

    def cancel(self) -> None:
        """Give it up: a stage that has not begun does not begin, and a decode stops at its next token."""
        self._cancelled.set()

    def check(self) -> None:
        """Raises `CancelledError` where nobody wants the round any more."""
        if self._cancelled.is_set():
            raise CancelledError

    def encode(self, stages: Staged, then: Callable[[Callable[[], None]], None]) -> None:
        """The first stage; `then` is given the second one to run."""
        try:
            self.check()
            opening = stages.encode(self.plan, self._audio)
        except BaseException as error:  # it belongs to whoever waits for the result
            self._outcome.set_exception(error)
        else:
            then(partial(self._decode, stages, opening))

    def _decode(self, stages: Staged, opening: Opening | None) -> None:
        try:
            self.check()
            result = stages.decode(self.plan, opening, self._options, self._guards)
        except BaseException as error:
            self._outcome.set_exception(error)
        else:
            self._outcome.set_result(result)


class _Cancellation:
    """A guard that truncates nothing: it breaks off the decode of a cancelled round."""

    def __init__(self, wanted: PipelinedRound) -> None:
        self._wanted = wanted

    def check(self, tokens: Sequence[int], attention: FloatArray | None) -> int | None:
        """Raises `CancelledError` in a cancelled round."""
        self._wanted.check()
        return None


class PipelinedExecutor:
    """Runs the two stages of each round on two workers, in the order of the rounds.

    `depth` rounds are enough to keep both busy. Any number of sessions may share it; it satisfies `policy.Executor` and
    `stages.Overlapping`.
    """

    depth: int = 2

    def __init__(self, stages: Staged) -> None:
        self.stages = stages
        self._encoder = Worker("encode")
        self._decoder = Worker("decode")

    def begin(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> PipelinedRound:
        """Begin to hear `audio` ([len(plan.window)] samples, not to be written to); returns at once."""
        begun = PipelinedRound(plan, audio, options, guards)
        self._encoder.submit(partial(begun.encode, self.stages, self._decoder.submit))
        return begun

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult:
        """The same, waiting for the result: nothing overlaps with other rounds of this caller."""
        begun = self.begin(plan, audio, options, guards)
        try:
            return begun.result()
        except BaseException:  # also an interrupt: nobody will ask again
            begun.cancel()
            raise
