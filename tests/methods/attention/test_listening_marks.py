"""Marks at the end of what was heard: they wait for what follows, and unlikely ones for the end of the turn."""

from dataclasses import replace
from typing import Any

import pytest

from policy_rounds import Rounds, S, texts, word
from whispertide.decoding.guards import Frontier
from whispertide.decoding.token_words import TokenWord
from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.listening import HeardWords, is_mark
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.methods.attention.steadiness import FEATURES, Rule
from whispertide.methods.attention.tide import Tide
from whispertide.streaming.round import Commit

BY_FRONTIER = Rule(tuple({"firm": 60.0, "one": -30.0}.get(name, 0.0) for name in FEATURES)).text()
POLICY = Tide(reopen_s=1.2, rule=BY_FRONTIER, min_shown_probability=0.0)
SURE, UNSURE = 0.9, 0.4


def ending(text: str, mark: str, start: float, end: float, chance: float = SURE) -> tuple[TokenWord, TokenWord]:
    """A word of token 7 and a mark of token 8."""
    one, after = word(text, start, end, 7), word("", end, end, 8)
    return one, replace(after, word=replace(after.word, text=mark, probability=chance))


class Play(Rounds[Any]):
    def hear(
        self, end: float, *words: TokenWord, last: tuple[TokenWord, TokenWord] | None = None, is_last: bool = False
    ) -> Commit:
        """`words`, and after them a word with a mark."""
        plan = self.plan(end, is_last=is_last)
        if last is not None:
            one, mark = last
            text = one.word.text + mark.word.text
            words = (*words, replace(one, word=replace(one.word, text=text), tokens=one.tokens + mark.tokens))
        return self.apply(plan, HeardWords(words, len(words), frames=len(plan.window) // 320, ending=last))


def test_a_word_at_the_end_is_confirmed_without_its_mark() -> None:
    play = Play(POLICY)
    commit = play.hear(2, word("present", 0.2, 0.6), last=ending("concerned", ".", 0.8, 1.4))
    assert texts(commit.confirmed) == ["present", "concerned"]
    assert texts(commit.hypothesis) == ["."]
    assert play.plan(3).prefix == (1, 7)  # so the next round may say another


@pytest.mark.parametrize("mark", [",", "?"])
def test_the_next_round_says_which_mark_it_is(mark: str) -> None:
    play = Play(POLICY)
    play.hear(2, last=ending("concerned", ".", 0.8, 1.4))
    comma = ending("", mark, 1.4, 1.4)[1]
    commit = play.hear(3, comma, word("differs", 2, 2.5))
    assert texts(commit.confirmed) == [mark, "differs"]


def test_or_that_there_is_none() -> None:
    play = Play(POLICY)
    play.hear(2, last=ending("concerned", ".", 0.8, 1.4))
    assert texts(play.hear(3, word("differs", 2, 2.5)).confirmed) == ["differs"]


def test_a_mark_alone_waits_too() -> None:
    play = Play(POLICY)
    play.hear(2, last=ending("concerned", ".", 0.8, 1.4))
    mark = ending("", ".", 1.4, 1.4)[1]
    assert play.hear(2.4, mark).confirmed == ()
    assert texts(play.hear(3, mark, is_last=True).confirmed) == ["."]


def test_within_a_text_marks_are_confirmed_with_their_words() -> None:
    commit = Play(POLICY).hear(2, word("yes,", 0.2, 0.6), word("it", 0.8, 1.0))
    assert texts(commit.confirmed) == ["yes,", "it"]


def test_a_text_that_is_over_long_before_its_window_keeps_its_mark() -> None:
    play = Play(POLICY)
    play.hear(1, last=ending("concerned", ".", 0.2, 0.8))
    commit = play.hear(4, ending("", ".", 0.8, 0.8)[1])
    assert commit.goes_on
    assert texts(commit.confirmed) == ["."]
    assert play.plan(5).prefix == ()


def test_as_published_no_mark_waits() -> None:
    play = Play(AlignAtt(truncate="none"))
    assert texts(play.hear(2, last=ending("concerned", ".", 0.8, 1.4)).confirmed) == ["concerned."]
    commit = Play(AlignAtt()).hear(2, last=ending("concerned", ".", 0.8, 1.4, UNSURE), is_last=True)
    assert (texts(commit.confirmed), commit.closing) == (["concerned."], None)


@pytest.mark.parametrize("waits", [False, True])
def test_where_marks_wait_they_may_attend_anywhere_in_the_last_round(waits: bool) -> None:
    play = Play(Tide(waiting_marks=waits))
    found = []
    for is_last in (False, True):
        hearing = play.plan(1, is_last=is_last).hearing
        assert isinstance(hearing, SinglePass)
        (rule,) = hearing.watch
        assert isinstance(rule, Frontier)
        found.append(rule.marks)
    assert found == [False, waits]


@pytest.mark.parametrize(("chance", "stands"), [(SURE, True), (0.64, True), (0.59, False), (UNSURE, False)])
def test_in_the_last_round_a_likely_mark_stands(chance: float, stands: bool) -> None:
    """In a rhetorical pause ("my fellow Americans") tiny.en gives a full stop 0.59."""
    commit = Play(POLICY).hear(2, last=ending("concerned", ".", 0.8, 1.4, chance), is_last=True)
    assert (texts(commit.confirmed), commit.closing is None) == (["concerned." if stands else "concerned"], stands)


def test_in_the_last_round_an_unlikely_one_is_left_to_the_end_of_the_turn() -> None:
    play = Play(POLICY)
    commit = play.hear(2, last=ending("Americans", ".", 0.8, 1.4, UNSURE), is_last=True)
    assert texts(commit.confirmed) == ["Americans"]
    assert commit.closing is not None
    assert commit.closing.text == "."
    assert play.policy.start(3 * S, play.state).context == " Americans"


def test_so_is_one_whose_word_is_confirmed_already() -> None:
    play = Play(POLICY)
    play.hear(2, last=ending("Americans", ".", 0.8, 1.4))
    commit = play.hear(2.4, ending("", ".", 1.4, 1.4, UNSURE)[1], is_last=True)
    assert (texts(commit.confirmed), commit.closing and commit.closing.text) == ([], ".")


@pytest.mark.parametrize(("text", "marks"), [(".", True), (' ."', True), ("a.", False), (" 7", False)])
def test_what_is_a_mark(text: str, marks: bool) -> None:
    assert is_mark(replace(word("x", 0, 1), word=replace(word("x", 0, 1).word, text=text))) is marks
