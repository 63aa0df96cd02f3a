"""The two seams around a round: a policy decides, an executor computes. A session calls both and owns neither.

Nothing here knows of audio devices, clocks or threads. Whether a class is a policy or an executor is a matter of its
methods: neither has to import this module.
"""

from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeVar

from whispertide.decoding.search import Guard
from whispertide.options import DecodeOptions
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.types import FRAME_SAMPLES, FloatArray


class PolicyState(Protocol):
    """What a policy remembers between the rounds of one utterance: a dataclass that can be copied."""

    def copy(self) -> Self:
        """An independent copy."""


State = TypeVar("State", bound=PolicyState)


class Policy(Protocol[State]):
    """Which words are confirmed, and what audio and text the next round carries.

    A policy may know what its rounds heard, where the audio ends, and what load it is told; not how fast anything runs,
    nor what the session does with its verdicts. All memory is in the state, so one policy object serves any number of
    utterances. Plans may be made while earlier ones are still in flight; results come back in the order of the plans.
    """

    def start(self, at: int) -> State:
        """The state for an utterance whose audio begins at sample `at`."""

    def limit(self, state: State) -> int:
        """The last sample that the next window may reach. Applying a round that reached it must raise it."""

    def plan(self, state: State, frontier: int, *, round_id: int, is_last: bool, load: int = 0) -> RoundPlan:
        """The round that looks up to `frontier` (at most `limit`). Leaves the state as it is: a plan may be dropped.

        `load` is how much of the step to it is owed to computing, in samples (`schedule.Schedule.load`).
        """

    def guards(self, plan: RoundPlan) -> Sequence[Guard]:
        """What watches the tokens of this round."""

    def apply(self, state: State, result: RoundResult) -> Commit:
        """Judge a result and update the state. The last round of an utterance leaves no hypothesis."""


AnyPolicy = Policy[Any]


class Executor(Protocol):
    """Computes rounds. It may be shared by many sessions, so all that concerns one session comes with the call."""

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult:
        """Hear `audio` ([len(plan.window)] samples: those of the window).

        Times in the result are absolute and lie within the window. `options.beam` is 1 for greedy. The window may be
        shorter than anything the model was made for, down to one sample.
        """


def align_down(sample: int) -> int:
    """The nearest sample at or before this one at which a window may start (a multiple of 320)."""
    return sample - sample % FRAME_SAMPLES
