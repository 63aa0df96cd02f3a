"""The two seams around a round: a policy decides, an executor computes. A session calls both and owns neither.

Nothing here knows of audio devices, clocks or threads. Whether a class is a policy or an executor is a matter of its
methods: neither has to import this module.
"""

from typing import Any, ClassVar, Protocol, Self, TypeVar

from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Search
from whispertide.types import FloatArray


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
    It is a value, and a choice of a recipe (`choice.Choice`).

    streams     whether its windows are one stream that only grows, for a causal encoder
    overlaps    whether a round may be planned while the one before it is decoded
    forces      whether a round begins with the words that the last one confirmed
    searches    the searches that can do what its plans ask for
    usual_s     how long windows usually get at most, without what is new, in seconds
    hard_cap_s  windows never get longer
    loop_guard  whether repetition loops are cut down, also in the guess that is shown
    drop_below  how unlikely words have to be, with those around them, not to be written (0: all are)
    """

    kind: ClassVar[str]
    streams: ClassVar[bool]
    overlaps: ClassVar[bool]
    forces: ClassVar[bool]
    searches: ClassVar[tuple[str, ...]]

    @property
    def usual_s(self) -> float:
        """See above."""

    @property
    def hard_cap_s(self) -> float:
        """See above."""

    @property
    def loop_guard(self) -> bool:
        """See above."""

    @property
    def drop_below(self) -> float:
        """See above."""

    def start(self, at: int, after: State | None = None) -> State:
        """The state for an utterance whose audio begins at sample `at`.

        `after` is the state in which the one before it ended, where both belong to one turn: its text may go before
        what is heard now. A policy need not look at it.
        """

    def limit(self, state: State) -> int:
        """The last sample that the next window may reach. Applying a round that reached it must raise it."""

    def plan(
        self, state: State, frontier: int, *, search: Search, round_id: int, is_last: bool, load: int = 0
    ) -> RoundPlan:
        """The round that looks up to `frontier` (at most `limit`). Leaves the state as it is: a plan may be dropped.

        `search` is how its tokens will be found: what the plan brings for it (a text to follow, a guess) depends on it.
        `load` is how much of the step to it is owed to computing, in samples (`schedule.Schedule.load`).
        """

    def apply(self, state: State, result: RoundResult[Any]) -> Commit:
        """Judge a result and update the state. The last round of an utterance leaves no hypothesis; where the verdict
        is that it goes on, the next window begins later than this one did.
        """


AnyPolicy = Policy[Any]


class Executor(Protocol):
    """Computes rounds. It may be shared by many sessions, so all that concerns one session comes with the call."""

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None = None
    ) -> RoundResult[Any]:
        """Hear `audio` ([len(plan.window)] samples: those of the window), the encoder going on from `state`.

        Times in the result are absolute and lie within the window. `options.beam` is 1 for greedy. The window may be
        shorter than anything the model was made for, down to one sample.
        """
