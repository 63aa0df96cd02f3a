"""What a round knows of a word, the rule over it, and the calm view of a guess."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy_rounds import S, texts
from whispertide.decoding.token_words import TokenWord
from whispertide.errors import OptionError
from whispertide.methods.attention.steadiness import (
    FEATURES,
    STALE,
    Facts,
    Rule,
    facts_of,
    likely_shown,
    read_rule,
)
from whispertide.methods.attention.tide import Tide
from whispertide.types import Word

FACTS = Facts(S, S, 5, 0.9, 0.8, 1.0, None, 0, 1, True, False, S // 4)


def word(text: str, start: float, end: float, probability: float = 0.9) -> TokenWord:
    spoken = Word(f" {text}", round(start * S), round(end * S), probability)
    return TokenWord(spoken, (1,), attended=spoken.end, least=probability / 2)


def only(name: str, weight: float) -> Rule:
    """A rule that looks at one feature."""
    return Rule(tuple(weight if one == name else 0.0 for one in FEATURES))


# --- features -----------------------------------------------------------------------------------------------------


def test_facts_are_distances_to_the_end_of_the_audio_and_what_stands_around_the_word() -> None:
    words = [word("one", 0.2, 0.5), word("two.", 0.6, 1.0, 0.4)]
    one, two = facts_of(words, (), (), firm=1, end=2 * S, step=S)
    assert (one.frontier, one.ended, two.frontier) == (round(1.5 * S), round(1.5 * S), S)
    assert (one.following, two.following, one.after, two.after) == (0.4, None, 1, 0)
    assert (one.before, two.before) == (1.0, 0.45)
    assert (one.firm, two.firm, one.closes, two.closes) == (True, False, False, True)
    assert one.step == S


def test_a_word_that_rounds_hear_again_is_counted_whatever_its_spelling() -> None:
    before = (word("game,", 1.0, 1.3), word("bird", 1.4, 1.8))
    again = [word("Game", 1.1, 1.4), word("birch", 1.4, 1.8), word("bird", 3.0, 3.4)]
    facts = facts_of(again, before, (2, 1), firm=0, end=4 * S, step=S)
    assert [known.rounds for known in facts] == [3, 1, 1]


@given(st.integers(-S, 40 * S), st.floats(0, 1), st.floats(0, 1), st.integers(0, 1500), st.integers(0, 9))
def test_features_are_as_many_as_weights_and_small(
    frontier: int, probability: float, before: float, width: int, after: int
) -> None:
    facts = replace(FACTS, frontier=frontier, probability=probability, before=before, width=width, after=after)
    features = facts.features()
    assert len(features) == len(FEATURES)
    assert all(abs(value) <= 2 for value in features)


# --- the rule -----------------------------------------------------------------------------------------------------


def test_a_chance_is_the_logistic_function_of_the_weighted_features() -> None:
    assert only("firm", 2.0).chance(FACTS) == pytest.approx(1 / (1 + math.exp(-2)))
    assert only("firm", 2.0).chance(replace(FACTS, firm=False)) == 0.5


def stands(*chances: float, frontier: float = 0.2, firm: bool = True) -> int:
    facts = [replace(FACTS, frontier=round(frontier * S), firm=firm)] * len(chances)
    return Tide(max_revision_rate=0.05, settle_s=1.0).stands(facts, chances)


def test_words_stand_up_to_the_first_that_may_change() -> None:
    assert stands(0.99, 0.97, 0.8, 0.99) == 2
    assert stands(0.99, 0.97) == 2
    assert stands() == 0


def test_a_word_waits_no_longer_than_for_the_audio_that_settles_it() -> None:
    assert stands(0.5, 0.4, frontier=1.0) == 2
    assert stands(0.5, 0.4, frontier=0.99) == 0
    assert stands(0.5, 0.4, frontier=1.0, firm=False) == 0


def test_a_rule_is_written_and_read_again() -> None:
    rule = Rule(tuple(float(n) / 4 for n in range(len(FEATURES))))
    assert read_rule(rule.text()) == rule
    assert read_rule("") == read_rule("general") != read_rule("base")
    for wrong in ("1 2 3", "one", " ".join(["nan"] * len(FEATURES))):
        with pytest.raises(OptionError, match="train steadiness"):
            read_rule(wrong)
    with pytest.raises(OptionError, match="train steadiness"):
        Tide(rule="1 2 3")


def test_the_shipped_rule_trusts_what_was_heard_long_ago_and_surely() -> None:
    rule = read_rule("")
    sure = replace(FACTS, probability=0.99, least=0.98, rounds=3, after=2, following=0.99)
    unsure = replace(FACTS, probability=0.3, least=0.1, frontier=0, ended=0, firm=False, before=0.2)
    assert rule.chance(sure) > 0.97
    assert rule.chance(unsure) < 0.3


# --- the calm view ------------------------------------------------------------------------------------------------


def view(
    shown: tuple[Word, ...], *heard: tuple[TokenWord, float], settled: tuple[TokenWord, ...] = (), end: float = 3.0
) -> tuple[Word, ...]:
    guess, chances = zip(*heard, strict=True) if heard else ((), ())
    return likely_shown(shown, settled, guess, chances, least=0.7, start=0, end=round(end * S))


def test_only_likely_words_come_into_view_and_nothing_after_an_unlikely_one() -> None:
    assert texts(view((), (word("a", 1, 1.2), 0.9), (word("large", 1.3, 1.6), 0.5), (word("game", 1.7, 2), 0.9))) == [
        "a"
    ]


def test_a_word_in_view_stays_while_rounds_hear_it_and_keeps_its_spelling() -> None:
    shown = view((), (word("Bird,", 1, 1.2), 0.9))
    assert texts(view(shown, (word("bird", 1.05, 1.25), 0.1))) == ["Bird,"]


def test_another_word_takes_its_place_only_if_it_is_likely() -> None:
    shown = view((), (word("a", 1, 1.2), 0.9), (word("game", 1.3, 1.6), 0.9))
    unlikely = view(shown, (word("a", 1, 1.2), 0.9), (word("bird", 1.3, 1.6), 0.6))
    assert texts(unlikely) == ["a", "game"]
    likely = view(shown, (word("a", 1, 1.2), 0.9), (word("bird", 1.3, 1.6), 0.8))
    assert texts(likely) == ["a", "bird"]


def test_what_is_confirmed_or_stale_leaves_the_view() -> None:
    shown = view((), (word("a", 1, 1.2), 0.9), (word("game", 1.3, 1.6), 0.9))
    assert texts(view(shown, settled=(word("a", 1, 1.2),))) == ["game"]
    assert texts(view(shown, end=1.6 + STALE / S)) == []
    assert texts(view(shown, end=1.5 + STALE / S)) == ["game"]


def test_what_is_confirmed_leaves_the_view_also_where_it_was_placed_over_the_pause_after_it() -> None:
    """As the last word of a text is, until the next one is heard."""
    shown = view((), (word("a", 1, 1.2), 0.9), (word("game", 1.3, 2.4), 0.9), end=2.4)
    both = word("a", 1, 1.2), word("game", 1.3, 1.6)
    assert texts(view(shown, (word("of", 2.3, 2.8), 0.4), settled=both, end=2.8)) == []


def test_of_a_word_that_is_in_view_twice_one_is_left_when_one_is_confirmed() -> None:
    shown = view((), (word("no", 1, 1.3), 0.9), (word("no", 1.3, 1.6), 0.9))
    assert texts(view(shown, (word("no", 1.3, 1.6), 0.4), settled=(word("no", 1, 1.3),))) == ["no"]
    assert texts(view(shown, settled=(word("no", 1, 1.3),))) == ["no"]
