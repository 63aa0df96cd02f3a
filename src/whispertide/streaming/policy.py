"""The two seams around a round: a policy decides, an executor computes. A session calls both and owns neither.

Nothing here knows of audio devices, clocks or threads. Whether a class is a policy or an executor is a matter of its
methods; `Bounded` is what most policies have in common.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeVar

from whispertide.decoding.token_words import TokenWord
from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.choice import Choice, in_samples, setting
from whispertide.streaming.repetition import without_loops
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.schedule import Rounds
from whispertide.streaming.searches import Search
from whispertide.types import CHUNK_SECONDS, FloatArray, Word, align_down


class PolicyState(Protocol):
    """A policy's state between the rounds of one utterance: a dataclass that can be copied."""

    def copy(self) -> Self:
        """An independent copy."""


State = TypeVar("State", bound=PolicyState)


class Policy(Protocol[State]):
    """Decides which words are confirmed, and what audio and text the next round carries.

    A policy may know its rounds' transcripts, the end of the audio, and its load; not how fast anything runs,
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


class RoundChoices(Protocol):
    """What rounds depend on of a recipe (`recipes.recipe.Recipe`)."""

    @property
    def schedule(self) -> Rounds:
        """When rounds start."""

    @property
    def policy(self) -> AnyPolicy:
        """What they look at, and what is confirmed after them."""

    @property
    def search(self) -> Search:
        """How their tokens are found."""


class Executor(Protocol):
    """Computes rounds. It may be shared by many sessions, so all that concerns one session comes with the call."""

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None = None
    ) -> RoundResult[Any]:
        """Hear `audio` ([len(plan.window)] samples: those of the window), the encoder going on from `state`.

        Times in the result are absolute and lie within the window. `options.beam` is 1 for greedy. The window may be
        shorter than anything the model was made for, down to one sample.
        """


class Begun(Protocol):
    """A state that says where the next window begins."""

    @property
    def start(self) -> int:
        """The sample."""


def drop_below_setting() -> float:
    """The setting of a policy that says which unlikely words are not written."""
    return setting(
        0.0,
        "a word is dropped if it, the two before it and the two after it are less likely than this on "
        "average, and the last twelve words indicate noise (0 = never)",
        least=0,
        most=1,
    )


def least_probability_setting() -> float:
    """The setting of a policy that says which words wait before they are confirmed."""
    return setting(
        0.0, "a less probable word is not confirmed while it lies in the last `settle_s` (0 = all are)", least=0, most=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded(Choice):
    """Settings of a policy whose windows never outgrow `hard_cap_s`, and what most of these policies are."""

    streams: ClassVar[bool] = False
    overlaps: ClassVar[bool] = False
    forces: ClassVar[bool] = True

    hard_cap_s: float = setting(
        28.0,
        "longest window; at this length words are confirmed, certain or not",
        least=4,
        most=CHUNK_SECONDS,
    )
    no_speech: float = setting(0.9, "a text with a higher no-speech probability is dropped", least=0, most=1)
    loop_guard: bool = setting(
        True, "whether repetition loops are cut before they are confirmed, and in the hypothesis"
    )
    drop_below: float = drop_below_setting()

    hard_cap: int = in_samples("hard_cap_s")

    @property
    def usual_s(self) -> float:
        """The usual limit of windows: as long as they can be."""
        return self.hard_cap_s

    def limit(self, state: Begun) -> int:
        """The end of a window of `hard_cap` samples."""
        return state.start + self.hard_cap

    def without_loops(self, said: Sequence[Word], words: Sequence[TokenWord]) -> list[TokenWord]:
        """The words after those that were said, loops cut down if that is asked for."""
        return without_loops(said, words) if self.loop_guard else list(words)


def commit(confirmed: Iterable[TokenWord], guess: Iterable[TokenWord], state: Begun, end: int) -> Commit:
    """After a window up to `end`: audio is needed from the start of the next one on, or from there."""
    shown = tuple(word.word for word in guess)
    return Commit(tuple(word.word for word in confirmed), shown, min(state.start, align_down(end)))
