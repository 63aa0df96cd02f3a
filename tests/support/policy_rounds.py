"""One utterance under a policy, round by round, on results that are written down."""

from collections.abc import Iterable
from typing import Any, Generic

from whispertide.decoding.guards import Frontier, Halt
from whispertide.decoding.search import StopReason
from whispertide.decoding.token_words import TokenWord
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.streaming.policy import Policy, State
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Greedy, Search
from whispertide.types import SAMPLE_RATE, Word

S = SAMPLE_RATE


def word(text: str, start: float, end: float, *tokens: int) -> TokenWord:
    """In seconds; of token 1 where none is named."""
    return TokenWord(Word(" " + text, round(start * S), round(end * S)), tokens or (1,))


def texts(words: Iterable[Word]) -> list[str]:
    return [item.text.strip() for item in words]


class Rounds(Generic[State]):
    """What a test says of each round is heard; times are in seconds."""

    def __init__(self, policy: Policy[State], at: int = 0, search: Search | None = None) -> None:
        self.policy = policy
        self.search = search or Greedy()
        self.state = policy.start(at)
        self.rounds = 0

    def plan(self, end: float, *, is_last: bool = False, load: float = 0.0) -> RoundPlan:
        at, owed = round(end * S), round(load * S)
        return self.policy.plan(self.state, at, search=self.search, round_id=self.rounds, is_last=is_last, load=owed)

    def apply(self, plan: RoundPlan, heard: Any) -> Commit:
        self.rounds += 1
        return self.policy.apply(self.state, RoundResult(plan, heard))


class Attended(Rounds[State]):
    """Rounds of a policy that hears a window in one decode."""

    def round(
        self,
        end: float,
        *words: TokenWord,
        firm: int | None = None,
        halt: Halt | None = None,
        last_frame: int | None = None,
        is_last: bool = False,
        ended: bool | None = None,
        load: float = 0.0,
        stop: StopReason = "end_of_text",
    ) -> Commit:
        plan = self.plan(end, is_last=is_last, load=load)
        frames = len(plan.window) // 320
        heard = HeardWords(words, len(words) if firm is None else firm, halt, last_frame, frames, ended, stop=stop)
        return self.apply(plan, heard)


def hearing(plan: RoundPlan) -> SinglePass:
    assert isinstance(plan.hearing, SinglePass)
    return plan.hearing


def watch(plan: RoundPlan) -> Frontier:
    (found,) = hearing(plan).watch
    assert isinstance(found, Frontier)
    return found
