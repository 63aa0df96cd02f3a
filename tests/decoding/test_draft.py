"""Drafts: whoever drafts and whatever they propose, the text is greedy search's, token for token.

Where in a reference a search is: silent tokens, several places at a time, three alignments, coming back.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from reference import nano
from scripted_decoder import (
    EOT,
    SIZE,
    SOT,
    SOT_PREV,
    SPECIALS,
    VOCABULARY,
    ScriptedDecoder,
    random_script,
)
from whispertide.decoding.accept import GREEDY
from whispertide.decoding.draft import Align, Expected, Follower, Reference, piece_key
from whispertide.decoding.end import SecondBest
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules, Vocabulary, build_rules
from whispertide.decoding.search import SearchResult, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.options import DecodeOptions
from whispertide.types import FloatArray, Word

PROMPT = Prompt((SOT_PREV, 2, SOT), sot_index=2, limit=12)
PLAIN = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,))
TIMED = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,), timestamps=True, max_initial_index=3)

Proposal = Callable[[Sequence[int]], tuple[int, ...]]


class Proposes:
    """Drafts by a function; one hypothesis is always enough."""

    def __init__(self, proposal: Proposal) -> None:
        self.propose = proposal

    def follow(self, token: int) -> bool:
        return True

    def find(self, sampled: Sequence[int]) -> bool:
        return True


class AsFarAs:
    """Ends the text where the attention of the last query, the length of what it saw, is so large."""

    def __init__(self, far: int) -> None:
        self.far = far
        self.shown: list[tuple[tuple[int, ...], FloatArray]] = []

    def check(self, tokens: Sequence[int], attention: FloatArray | None, logprob: float) -> int | None:
        assert attention is not None
        self.shown.append((tuple(tokens), attention))
        return len(tokens) - 1 if attention[0, -1, 0] >= self.far else None


def attend(seen: tuple[int, ...]) -> FloatArray:
    return np.array([[len(seen), sum(seen)]], dtype=np.float32)


def searched(script: Any, rules: Rules, draft: Any = None, **parts: Any) -> tuple[SearchResult, ScriptedDecoder]:
    decoder = ScriptedDecoder(script, attend=attend)
    return run_search(TokenSearch(PROMPT, rules, GREEDY, draft=draft, **parts), decoder), decoder


@given(
    data=st.data(),
    seed=st.integers(0, 100_000),
    timed=st.booleans(),
    far=st.sampled_from([7, 10, 99]),
    second_best=st.booleans(),
)
def test_the_result_is_greedy_searchs(data: st.DataObject, seed: int, timed: bool, far: int, second_best: bool) -> None:
    rules, script = TIMED if timed else PLAIN, random_script(seed, eot_bonus=2.0)
    end = SecondBest(lambda token: token < 10, EOT, least=3) if second_best else None
    alone, ahead = AsFarAs(far), AsFarAs(far)
    expected, _ = searched(script, rules, guards=[alone], end=end)
    right = expected.best.tokens

    def propose(sampled: Sequence[int]) -> tuple[int, ...]:
        """What is right for a while, then anything."""
        good = right[len(sampled) :][: data.draw(st.integers(0, 4))]
        return (*good, *data.draw(st.lists(st.integers(0, SIZE - 1), max_size=3)))

    found, decoder = searched(script, rules, Proposes(propose), guards=[ahead], end=end)
    assert found.best.tokens == right
    assert found.best.stop == expected.best.stop
    assert found.no_speech_prob == pytest.approx(expected.no_speech_prob)
    np.testing.assert_allclose(found.best.logprobs, expected.best.logprobs, atol=1e-5)
    assert found.steps.runs <= expected.steps.runs
    assert [tokens for tokens, _ in ahead.shown] == [tokens for tokens, _ in alone.shown]
    for (_, attention), (_, wanted) in zip(ahead.shown, alone.shown, strict=True):
        np.testing.assert_array_equal(attention, wanted)
    fed = (*PROMPT.tokens, *(tokens for tokens in right))
    assert len(decoder.cache) == 1
    assert decoder.cache[0][: len(fed) - 1] == fed[: len(decoder.cache[0])][: len(fed) - 1]


@each_row("rules", [PLAIN, TIMED])
@each_row("ahead", [1, 3, 4])
def test_a_perfect_drafter_is_accepted_whole(rules: Rules, ahead: int) -> None:
    script = random_script(3, eot_bonus=-9.0)
    right = searched(script, rules)[0].best.tokens
    assert len(right) == PROMPT.limit

    def propose(sampled: Sequence[int]) -> tuple[int, ...]:
        return right[len(sampled) :][:ahead] if sampled else ()

    found, decoder = searched(script, rules, Proposes(propose))
    assert found.best.tokens == right
    assert found.steps.runs == 1 + -(-(PROMPT.limit - 1) // (ahead + 1))
    assert decoder.cache == [(*PROMPT.tokens, *right[:-1])]


def test_nothing_beyond_the_limit_is_fed() -> None:
    _, decoder = searched(random_script(1, eot_bonus=-9.0), PLAIN, Proposes(lambda sampled: (1,) * 9))
    positions = [0]
    for request in decoder.requests:
        assert positions[-1] + request.tokens.shape[1] <= len(PROMPT.tokens) + PROMPT.limit - 1
        positions.append(len(PROMPT.tokens) + len(positions) - 1)


BEGIN = 1000  # timestamps from here on
COMMA, STOP = 900, 901
RULES = Rules(Vocabulary(BEGIN + 100, BEGIN - 3, BEGIN - 2, BEGIN - 1, BEGIN))


def key(token: int) -> int | None:
    return token if token < COMMA else None


def follower(*tokens: int, times: tuple[int, ...] = (), align: Align = "bigram", recover: bool = True) -> Follower:
    return Follower(tokens, RULES, Reference(align=align, recover=recover), key, times=times)


def test_follows_the_text_to_its_end_and_no_further() -> None:
    place = follower(1, 2, 3)
    assert place.ahead() == (1, 2, 3)
    assert [place.follow(token) for token in (1, 2)] == [True, True]
    assert place.ahead() == (3,)
    assert place.follow(3)
    assert place.ahead() == ()
    assert not place.follow(4)
    assert place.matched == 3


def test_silent_tokens_are_neither_missed_nor_minded() -> None:
    place = follower(1, COMMA, 2, STOP, 3)
    for token in (
        BEGIN,
        STOP,
        1,
        STOP,
        BEGIN + 5,
        BEGIN + 5,
        2,
        3,
        STOP,
    ):  # another mark for the comma, none for the stop
        assert place.follow(token)
    assert place.matched == 3


def test_a_silent_token_takes_the_place_of_a_silent_token() -> None:
    place = follower(1, COMMA, 2)
    place.follow(1)
    assert place.ahead() == (COMMA, 2)
    place.follow(STOP)
    assert place.ahead() == (2,)
    place.follow(STOP)
    assert place.ahead() == (2,)


def test_without_anything_to_say_there_is_nothing_to_follow() -> None:
    assert not follower().speaks
    assert not follower(COMMA, BEGIN).speaks
    assert follower(COMMA, 1).speaks


def test_a_bigram_keeps_all_places_in_mind_until_one_is_left() -> None:
    place = follower(1, 2, 9, 1, 3, 8, 1, 3, 7)
    assert all(place.follow(token) for token in (1, 3, 7))
    assert place.ahead() == ()


def test_a_first_match_is_misled_by_a_common_word() -> None:
    place = follower(1, 2, 9, 1, 3, align="first")
    assert place.follow(1)
    assert place.ahead() == (2, 9, 1, 3)
    assert not place.follow(3)


def test_the_nearest_in_time_is_the_one_that_the_timestamp_tells() -> None:
    times = (0, 10, 20, 50, 60)
    place = follower(1, 2, 9, 1, 3, times=times, align="time")
    place.follow(BEGIN + 45)
    assert place.follow(1)
    assert place.ahead() == (3,)


def test_what_is_too_far_away_in_time_is_no_match() -> None:
    assert not follower(1, times=(101,), align="time").follow(1)
    assert follower(1, times=(100,), align="time").follow(1)


def test_two_pieces_in_a_row_bring_a_search_back() -> None:
    place = follower(1, 4, 2, 3, 4, 5)
    place.follow(1)
    assert not place.follow(7)
    assert place.ahead() == ()
    said = [1, 7, 8, 3, 4]
    assert [place.find(said[:count]) for count in (2, 3, 4, 5)] == [False, False, False, True]
    assert place.ahead() == (5,)


@pytest.mark.parametrize(("align", "ahead"), [("first", (2, 3, 4, 5)), ("time", (5,))])
def test_one_piece_is_enough_for_the_other_alignments(align: Align, ahead: tuple[int, ...]) -> None:
    place = follower(1, 4, 2, 3, 4, 5, times=(0, 4, 8, 60, 66, 70), align=align)
    place.follow(1)
    assert not place.follow(7)
    said = [1, 7, BEGIN + 62, 4]
    assert [place.find(said[:count]) for count in (2, 3, 4)] == [False, False, True]
    assert place.ahead() == ahead


def test_marks_between_two_words_do_not_keep_a_search_from_coming_back() -> None:
    place = follower(1, 2, COMMA, 3, 4)
    place.follow(1)
    place.follow(7)
    assert not place.find([1, 7, 2])
    assert not place.find([1, 7, 2, STOP])
    assert place.find([1, 7, 2, STOP, 3])
    assert not follower(1, 2).find([STOP, 2])  # one piece is no pair


def test_without_recovery_a_search_has_left_for_good() -> None:
    place = follower(1, 2, 3, 4, recover=False)
    place.follow(1)
    place.follow(7)
    assert not place.find([1, 7, 3, 4])


def test_an_exact_text_counts_every_token_from_the_first_on() -> None:
    place = Expected((BEGIN, 1, COMMA))
    assert place.follow(BEGIN)
    assert place.follow(1)
    assert place.propose([BEGIN, 1]) == (COMMA,)
    assert not place.follow(STOP)
    assert not place.find([BEGIN, 1, STOP, 1])
    assert not Expected((1, 2)).follow(2)
    assert not Expected(()).follow(2)


def test_pieces_are_compared_in_lower_case_and_marks_not_at_all() -> None:
    encode, key_of = nano().tokenizer.encode, piece_key(nano().tokenizer)
    assert [key_of(token) for token in encode(" The")] == [" the"] == [key_of(token) for token in encode(" the")]
    assert key_of(encode(" the")[0]) != key_of(encode("the")[0])  # the beginning of a word is another piece
    assert [key_of(token) for token in (*encode(","), *encode("."), *encode(" -"))] == [None] * 3
    assert [key_of(token) for token in (nano().tokenizer.eot, nano().tokenizer.timestamp_begin + 3)] == [None, None]
    parts = encode("漢")
    assert len(parts) > 1
    assert len({key_of(token) for token in parts}) == len(set(parts))


def test_words_become_the_tokens_that_the_model_would_write() -> None:
    tokenizer = nano().tokenizer
    words = [Word(" Storms", 16_000, 24_000), Word(" over", 24_000, 28_000), Word(" Shetland,", 28_000, 40_000)]
    rules = build_rules(nano(), DecodeOptions())
    draft = Reference((), 0, tuple(words)).since(8_000).draft(tokenizer, rules)
    assert isinstance(draft, Follower)
    assert list(draft.tokens) == tokenizer.encode(" Storms over Shetland,")
    assert draft.times[0] == 25
    assert draft.times[-1] == 62
    assert draft.keys[-1] is None
    assert draft.speaks


def test_how_a_text_began_is_known_where_the_window_begins_there_too() -> None:
    tokenizer, rules = nano().tokenizer, build_rules(nano(), DecodeOptions())
    first, text = tokenizer.timestamp_begin + 2, tuple(tokenizer.encode(" Storms"))
    for begins, known in ((8_000, True), (4_000, False)):
        told = Reference((first, 1), begins, (Word(" Storms", 9_000, 24_000),), block=True).since(8_000)
        draft = told.draft(tokenizer, rules)
        assert draft is not None
        assert draft.propose(()) == ((first, *text) if known else ())


def test_words_before_the_window_are_left_out_and_what_says_nothing_is_no_draft() -> None:
    tokenizer, rules = nano().tokenizer, build_rules(nano(), DecodeOptions())
    words = (Word(" Storms", 0, 8_000), Word(" over", 6_000, 12_000), Word(",", 12_000, 14_000))
    assert [word.text for word in Reference(words=words).since(8_000).words] == [" over", ","]
    assert Reference(words=words).since(13_500).draft(tokenizer, rules) is None
    assert Reference(words=words[2:]).draft(tokenizer, rules) is None
    assert Reference().draft(tokenizer, rules) is None


def test_what_is_given_exactly() -> None:
    given = Reference.exactly([5, COMMA])
    assert given == Reference((5, COMMA), recover=False, block=True)
    assert given.draft(nano().tokenizer, RULES) == Expected((5, COMMA))
    assert Reference() == Reference((), 0, (), align="bigram", recover=True, block=False)


def test_a_match_tells_the_time() -> None:
    """After the piece at 50 frames the later copy of another is the nearer one."""
    place = follower(1, 2, 7, 1, 3, times=(0, 50, 60, 95, 99), align="time")
    assert place.follow(2)
    assert not place.follow(8)
    assert place.find([2, 8, 1])
    assert place.ahead() == (3,)


def test_time_does_not_go_back() -> None:
    place = follower(1, 2, 1, 3, times=(0, 10, 90, 95), align="time")
    for token in (BEGIN + 80, BEGIN + 5):
        place.follow(token)
    assert place.follow(1)
    assert place.ahead() == (3,)


def test_of_two_places_as_near_the_first_counts() -> None:
    place = follower(1, 2, 1, 3, times=(40, 45, 60, 65), align="time")
    place.follow(BEGIN + 50)
    assert place.follow(1)
    assert place.ahead() == (2, 1, 3)


def test_while_several_places_are_possible_the_first_one_is_ahead_and_tells_no_time() -> None:
    place = follower(1, COMMA, 2, 1, 3, times=(0, 10, 20, 190, 200))
    assert place.follow(1)
    assert place.ahead() == (COMMA, 2, 1, 3)
    assert place.matched == 1
    place.follow(STOP)  # a mark for the mark in the first place alone
    assert place.ahead() == (2, 1, 3)
    assert place.follow(3)
    assert place.ahead() == ()
    assert place.matched == 2


def test_a_pair_is_looked_for_with_the_newest_piece_that_counts() -> None:
    place = follower(1, 2, 3, 4, 3, 5)
    assert not place.follow(9)
    assert place.ahead() == ()
    assert not place.find([2, 4, 3, COMMA])  # a mark brings nothing back
    assert place.find([2, 4, COMMA, 3])
    assert place.ahead() == (5,)
    assert place.matched == 1


def test_the_end_of_the_text_is_its_end() -> None:
    place = follower(1, 2, COMMA)
    assert place.follow(1)
    assert place.follow(2)
    assert place.ahead() == (COMMA,)
    assert not place.follow(3)
    assert not place.find([3])
