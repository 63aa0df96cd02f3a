"""When a round starts: how much audio must have arrived, and up to where the round looks.

A schedule is a pure function of sample counts. It has no clock and no state: what it needs to know of the past is the
last round: its end, and how long it was computed. It knows nothing of models.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, Self

from whispertide.audio.vad import Gate, GateOptions, SpeechGate
from whispertide.errors import OptionError
from whispertide.options import check_range
from whispertide.streaming.choice import Choice, in_samples, setting
from whispertide.streaming.end_of_turn import TurnLimits
from whispertide.streaming.smart_turn import load_smart_turn
from whispertide.streaming.turn_gate import TurnGate
from whispertide.types import CHUNK_SECONDS

TurnEnder = Literal["pause", "smart-turn"]
UNTIL_JUDGED = 2**62  # samples: more silence than there is


class Schedule(Protocol):
    """Says up to which sample the next round looks, or None while it is not due.

    `last` is where the last round of this utterance ended (at first: where the utterance began), `known` is how much
    audio it took to know of the utterance at all (a voice gate decides late), `received` is how much there is. `spent`
    is how long the last round was computed, in samples.
    """

    @property
    def recorded(self) -> bool:
        """True if the rounds are a record being replayed: all of them happen, and lateness means nothing."""

    @property
    def ahead(self) -> bool:
        """True if the last round is computed in a pause that may be the end, before that is known."""

    def frontier(self, last: int, known: int, received: int, spent: int = 0) -> int | None:
        """The end of the next round's window, or None while no round is due."""

    def load(self, last: int, frontier: int, spent: int, waited: int = 0) -> int:
        """The part of the step from `last` to `frontier` owed to computing, in samples; 0: no more than is usual.

        `waited` is how much came in after the round was due, while something else was computed.
        """


@dataclass(frozen=True, slots=True)
class Lateness:
    """The last report of how late a stream is: by how many times `lag_s`, and how many steps of quality it cost."""

    steps: int = 0
    lowered: int = 0

    def after(self, behind: int, lowered: int, limit: int) -> "Lateness":
        """The report where so many samples wait; below half of `limit` a stream is on time again."""
        steps = behind // limit
        # Or lateness around the limit would be told, and taken back, again and again.
        if steps == 0 < self.steps and behind > limit // 2:
            steps = self.steps
        return Lateness(steps, lowered)


ON_TIME = Lateness()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds(Choice):
    """When rounds start, as a recipe says it. What it says of the voice gate and of lateness holds for every kind."""

    recorded: ClassVar[bool] = False
    step_s: float = setting(1.0, "new audio that starts a round", least=0.02, most=CHUNK_SECONDS)
    vad: bool = setting(True, "whether a voice gate removes silence")
    vad_pause_s: float = setting(0.5, "length of silence that ends an utterance", least=0.1, most=CHUNK_SECONDS)
    vad_turn_s: float = setting(
        0.0,
        "length of silence that ends a turn within a sentence; after a shorter pause there the next utterance "
        "is decoded with the text before it (0 = every utterance is a turn)",
        least=0,
        most=CHUNK_SECONDS,
    )
    vad_pre_roll_s: float = setting(1.0, "audio kept before the first speech", least=0, most=CHUNK_SECONDS)
    turn_end: TurnEnder = setting(
        "pause",
        'end of a turn: at a "pause", or when a network predicts in a pause that the speaker has finished '
        "(`whispertide models pull smart-turn`); utterances still end in pauses, and `vad_turn_s` has no effect",
    )
    turn_threshold: float = setting(
        0.5, "probability of that network from which a turn ends (1 = never)", least=0, most=1
    )
    turn_eager: float = setting(
        0.0,
        "probability from which a turn is reported as perhaps over (0 = never; at most `turn_threshold`)",
        least=0,
        most=1,
    )
    turn_timeout_s: float = setting(3.0, "length of silence that ends a turn in any case", least=0.2, most=60)
    lag_s: float = setting(5.0, "lag is reported above this much audio since the last round", least=0.1, most=3600)

    step: int = in_samples("step_s")
    turn_pause: int = in_samples("vad_turn_s")
    lag: int = in_samples("lag_s")

    @property
    def ahead(self) -> bool:
        """It is not."""
        return False

    def check(self) -> None:
        """Nothing that ends a turn is less certain than what may end it."""
        Choice.check(self)
        check_range("turn_eager", self.turn_eager, 0, self.turn_threshold)

    def derive(self) -> dict[str, Any]:
        """No silence ends a turn where the gate says when it is over."""
        return {} if self.turn_end == "pause" else {"turn_pause": UNTIL_JUDGED}

    @property
    def turn_limits(self) -> TurnLimits:
        """When an end of turn that is heard is believed."""
        return TurnLimits(self.turn_threshold, self.turn_eager, self.turn_timeout_s)

    def with_step(self, step_s: float) -> Self:
        """The same with another step."""
        return replace(self, step_s=step_s)

    def gate(self) -> Gate | None:
        """The voice gate, or None if there is none. Raises `CheckpointError` if weights are missing: its own, or those
        of what ends turns.
        """
        if not self.vad:
            return None
        # The gate cannot add more audio after speech than the pause that ends it.
        pad = min(GateOptions().post_pad, self.vad_pause_s)
        gate = SpeechGate(GateOptions(min_silence=self.vad_pause_s, pre_roll=self.vad_pre_roll_s, post_pad=pad))
        return gate if self.turn_end == "pause" else TurnGate(gate, load_smart_turn(), self.turn_limits)

    def wanted(self, spent: int) -> int:
        """The amount of new audio that a round waits for; see `Schedule`."""
        return self.step

    def frontier(self, last: int, known: int, received: int, spent: int = 0) -> int | None:
        """All that has arrived, once that is enough."""
        return received if received - last >= self.wanted(spent) else None

    def load(self, last: int, frontier: int, spent: int, waited: int = 0) -> int:
        """The step, but no longer than computing wants it to be (twice as long as it takes, so that the machine has
        room) or than the round was kept waiting.

        So a long step is no load where audio comes in large portions, or where usual steps are that long.
        """
        owed = min(frontier - last, max(2 * spent, waited))
        return owed if owed > self.step else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(Rounds):
    """A round starts when `step_s` of new audio has arrived, and takes all of it (whisper_streaming).

    So when computing takes longer than the step, the next round simply looks at more, and the delay does not grow.
    """

    kind: ClassVar[str] = "fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffort(Rounds):
    """A round starts when the previous one is done and `step_s` has arrived, and takes all new audio."""

    kind: ClassVar[str] = "best-effort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive(Rounds):
    """Like `best-effort`, with steps long enough that computing takes at most half of the time.

    A round starts when `step_s` has arrived, but not before twice as much audio as arrives while the last one was
    computed, and at the latest after `longest_step_s`. It takes all new audio.
    """

    kind: ClassVar[str] = "adaptive"
    longest_step_s: float = setting(2.0, "the longest step", least=0.02, most=CHUNK_SECONDS)

    longest_step: int = in_samples("longest_step_s")

    def check(self) -> None:
        """The longest step is no shorter than the step."""
        Rounds.check(self)
        check_range("longest_step_s", self.longest_step_s, self.step_s, CHUNK_SECONDS)

    def with_step(self, step_s: float) -> Self:
        """The same with another step, and at least as long a longest one."""
        return replace(self, step_s=step_s, longest_step_s=max(self.longest_step_s, step_s))

    def wanted(self, spent: int) -> int:
        """Enough for the load."""
        return min(max(2 * spent, self.step), self.longest_step)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The rounds of an earlier run again: `boundaries` and `loads` are those of its session. Portions do not matter.

    Without `loads` the machine was never late.
    """

    boundaries: tuple[int, ...]
    loads: tuple[int, ...] = ()
    recorded: ClassVar[bool] = True
    ahead: ClassVar[bool] = False

    def __post_init__(self) -> None:
        # The 0 in front, so that the first one is positive, too.
        if any(b <= a for a, b in zip((0, *self.boundaries), self.boundaries, strict=False)):
            raise OptionError(f"expected round boundaries that are positive and rise; got {list(self.boundaries)[:20]}")
        if self.loads and len(self.loads) != len(self.boundaries):
            raise OptionError(f"expected a load for each of {len(self.boundaries)} boundaries; got {len(self.loads)}")

    def frontier(self, last: int, known: int, received: int, spent: int = 0) -> int | None:
        """The next boundary, once that much has arrived. Those before the utterance was known of had no round."""
        # A boundary at `last` is that of the round that has just been.
        at = bisect_left(self.boundaries, max(last + 1, known))
        if at == len(self.boundaries) or self.boundaries[at] > received:
            return None
        return self.boundaries[at]

    def load(self, last: int, frontier: int, spent: int, waited: int = 0) -> int:
        """The recorded result of the round that ended there."""
        at = bisect_left(self.boundaries, frontier)
        return self.loads[at] if at < len(self.loads) else 0
