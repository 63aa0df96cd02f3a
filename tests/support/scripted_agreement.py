"""LocalAgreement by scripted hypotheses, for the tests."""

from dataclasses import dataclass, field

from oracle import speech
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.agreement.whole_window import HeardSegment, HeardSegments
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Beam, Search
from whispertide.types import SAMPLE_RATE, Span, Word

S = SAMPLE_RATE
WALK = speech(("We", 0.5, 0.8), ("walk", 0.8, 1.2), ("home", 1.2, 1.6))


def segment(words: tuple[Word, ...], no_speech_prob: float = 0.0, end: int | None = None) -> HeardSegment:
    start = words[0].start if words else 0
    return HeardSegment(Span(start, max(start, end or (words[-1].end if words else 0))), words, no_speech_prob)


@dataclass
class Script:
    """Feeds a policy one scripted result after the other."""

    policy: LocalAgreement = field(default_factory=LocalAgreement)
    search: Search = field(default_factory=Beam)
    at: int = 0
    rounds: int = 0
    plan: RoundPlan | None = None

    def __post_init__(self) -> None:
        self.state = self.policy.start(self.at)

    def planned(self, end: float, *, round_id: int = 99, is_last: bool = False) -> RoundPlan:
        at = round(end * S)
        return self.policy.plan(self.state, at, search=self.search, round_id=round_id, is_last=is_last)

    def hear(self, end: float, *segments: HeardSegment | tuple[Word, ...], is_last: bool = False) -> Commit:
        self.plan = self.planned(end, round_id=self.rounds, is_last=is_last)
        self.rounds += 1
        heard = tuple(item if isinstance(item, HeardSegment) else segment(item) for item in segments)
        return self.policy.apply(self.state, RoundResult(self.plan, HeardSegments(heard)))


def texts(words: tuple[Word, ...]) -> str:
    return "".join(word.text for word in words).strip()


def many(count: int, start: float = 0.0, length: float = 0.5, text: str = "w") -> tuple[Word, ...]:
    """`count` different words without pauses."""
    return speech(*((f"{text}{i}", start + i * length, start + (i + 1) * length) for i in range(count)))


def feed(
    script: Script, words: tuple[Word, ...], *, per_segment: int = 4, upto: int | None = None, step: float = 1.0
) -> None:
    """Rounds every `step` seconds in which all that was said in the window is heard."""
    end = step
    while end <= (upto or words[-1].end) / S:
        start = script.state.start
        heard = [w for w in words if start <= w.start and w.end <= end * S]
        script.hear(end, *(tuple(heard[i : i + per_segment]) for i in range(0, len(heard), per_segment)))
        end += step


def loop(start: float, copies: int) -> tuple[Word, ...]:
    return speech(
        *(
            (text, start + i + j / 2, start + i + j / 2 + 0.5)
            for i in range(copies)
            for j, text in enumerate(("thank", "you"))
        )
    )
