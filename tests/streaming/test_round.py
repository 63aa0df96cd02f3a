"""What of a policy's verdict is written."""

from dataclasses import replace

import pytest

from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.agreement.whole_window import WholeWindow
from whispertide.streaming.repetition import BEFORE
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.turn_state import TurnState, Utterance
from whispertide.streaming.written import drop_unlikely, written
from whispertide.types import Span, Word


def words(text: str, probability: float) -> tuple[Word, ...]:
    return tuple(Word(f" {word}", at, at + 1, probability) for at, word in enumerate(text.split()))


MUTTERED = Commit(words("or as a", 0.1), words("by the", 0.1), 7, level=2)


def test_unlikely_words_are_neither_written_nor_shown() -> None:
    commit, chances = drop_unlikely(MUTTERED, (), 0, 0.5)
    assert commit == replace(MUTTERED, confirmed=(), hypothesis=())
    assert chances == (0.1, 0.1, 0.1)


def test_all_words_are_written_where_nothing_is_to_be_left_out() -> None:
    assert drop_unlikely(MUTTERED, (), 0, 0.0)[0] == MUTTERED


def test_what_is_not_shown_of_the_guess_tells_as_well() -> None:
    verdict = Commit(words("or as", 0.45), (), 0)
    assert drop_unlikely(verdict, (), 0, 0.5)[0].confirmed == verdict.confirmed, "two words tell nothing"
    assert drop_unlikely(replace(verdict, guess=words("a by", 0.1)), (), 0, 0.5)[0].confirmed == ()
    assert drop_unlikely(replace(verdict, guess=words("of the", 0.9)), (), 0, 0.5)[0].confirmed == verdict.confirmed


def test_words_of_the_utterance_before_tell_how_noisy_it_is_and_no_more() -> None:
    alone = Commit(words("seven", 0.1), (), 0)
    assert drop_unlikely(alone, (0.1,) * 5, 0, 0.5)[0] == alone
    assert drop_unlikely(alone, (0.1,) * 5, 5, 0.5)[0].confirmed == ()
    assert drop_unlikely(MUTTERED, (0.9,) * 12, 0, 0.5)[0].confirmed == MUTTERED.confirmed


def test_no_more_is_remembered_than_is_asked_for() -> None:
    _, chances = drop_unlikely(Commit(words("a " * 20, 0.9), (), 0), (0.1,) * 5, 0, 0.5)
    assert chances == (0.9,) * BEFORE


@pytest.mark.parametrize(("loop_guard", "shown"), [(True, 1), (False, 6)])
def test_the_guard_against_loops_takes_from_the_guess_alone(loop_guard: bool, shown: int) -> None:
    loop = words("you " * 6, 0.9)
    policy = LocalAgreement(loop_guard=loop_guard)
    result: RoundResult[object] = RoundResult(RoundPlan(0, Span(0, 320), WholeWindow()))
    utterance = Utterance(0, 0, policy=policy.start(0), keep_from=0, last_end=0)
    found = written(Commit(loop, loop, 0), result, policy, TurnState(), utterance, (), certain=True, turns_last=False)
    assert len(found.confirmed) == 6
    found = written(Commit((), loop, 0), result, policy, TurnState(), utterance, (), certain=True, turns_last=False)
    assert len(found.hypothesis) == shown
