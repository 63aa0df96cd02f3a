"""One utterance under a policy, round by round, on results that are written down."""

import itertools
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


def word_after_word(play: Attended[Any], at: float) -> list[tuple[list[str], int, int | None]]:
    """A word more in each round, from `at` on: what is confirmed, where the next window begins, how far it
    looks back.
    """
    found: list[tuple[list[str], int, int | None]] = []
    for number in range(1, 20):
        end = at + 0.8 * number
        commit = play.round(end, word(f"w{number}", end - 0.6, end - 0.2 - 0.02 * number), last_frame=20)
        begins = play.state.start - round(at * S)
        found.append((texts(commit.confirmed), begins, watch(play.plan(end + 1)).last_frame))
    return found


def check_unheard_audio_goes(play: Attended[Any], step: float, cap_s: float) -> list[float]:
    """Rounds that a guard ends before the first word, again and again; returns how long their windows are."""
    starts, lengths = [0], []
    for number in range(1, 60):
        plan = play.plan(min(number * step, play.policy.limit(play.state) / S))
        lengths.append(len(plan.window) / S)
        play.apply(plan, HeardWords((), 0, None, None, stop="guard"))
        starts.append(play.state.start)
    assert max(lengths) <= cap_s + 0.1
    steps = [(after - before) / S for before, after in itertools.pairwise(starts)]
    assert max(steps) <= 2.5 + 0.1  # the room that the next round needs
    return lengths
