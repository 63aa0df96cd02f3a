"""Copies are told by what they attend to."""

from dataclasses import replace

import pytest

from policy_rounds import S, texts, word
from whispertide.decoding.token_words import TokenWord
from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.forced_window import ForcedWindow
from whispertide.methods.attention.listening import HeardWords, said_once, without_loops
from whispertide.streaming.round import RoundResult
from whispertide.streaming.searches import Greedy


def heard(text: str, *attended: float, end: float = 0.0) -> list[TokenWord]:
    """Words that attend to these places, in seconds, and end there, or all at `end`."""
    return [
        replace(word(each, (end or at) - 0.1, end or at), attended=round(at * S))
        for each, at in zip(text.split(), attended, strict=True)
    ]


# What tiny.en heard in the end of "And so, my fellow Americans", unpadded, after "And so am" (issue "faults").
SAID = heard("And so am", 6.62, 6.8, 7.14)
FIRST = heard("I fellow Americans.", 7.24, 7.56, 7.98)
COPY = heard("And so am I fellow Americans.", 6.52, 6.84, 7.1, 7.22, 7.58, 8.0, end=7.94)
BROKEN = heard("And so am", 8.5, 6.82, 7.08, end=8.54)


def test_copies_are_left_out_and_what_is_new_stays() -> None:
    assert said_once(SAID, [*FIRST, *COPY, *BROKEN]) == [0, 1, 2]
    assert said_once(SAID, [*FIRST, *COPY, *heard("Ask not", 9.1, 9.5)]) == [0, 1, 2, 9, 10]
    assert said_once([], [*SAID, *FIRST, *COPY]) == [0, 1, 2, 3, 4, 5]


def test_of_a_copy_that_differs_in_a_word_a_single_one_may_be_left() -> None:
    said = heard("we talk home now", 1, 1.3, 1.6, 1.9)
    assert said_once(said, heard("then we walk home now", 2.3, 1.1, 1.4, 1.5, 1.95)) == [0, 1, 2]
    assert said_once(said, heard("then home we", 2.3, 1.5, 1.1)) == [0]


def test_who_says_it_again_is_heard_again() -> None:
    again = heard("And so am I fellow Americans.", 8.62, 8.8, 9.14, 9.24, 9.56, 9.98)
    assert said_once(SAID, [*FIRST, *again]) == list(range(9))
    sevens = heard("seven seven seven seven", 0.3, 0.7, 1.1, 1.5)
    assert said_once([], sevens) == [0, 1, 2, 3]
    quick = heard("no no no no no no", 0.1, 0.25, 0.4, 0.55, 0.7, 0.85)
    assert said_once([], quick) == list(range(6))


def test_single_words_other_words_and_words_without_attention_stand() -> None:
    assert said_once(heard("very", 1.0), heard("very", 1.1)) == [0]
    assert said_once(heard("we walk home", 1, 1.3, 1.6), heard("we talk home", 1, 1.3, 1.6)) == [0, 1, 2]
    blind = [word("we", 1, 1.2), word("walk", 1.2, 1.5)]
    assert said_once(blind, blind) == [0, 1]


@pytest.mark.parametrize("loop_guard", [True, False])
def test_a_last_round_confirms_no_copies(loop_guard: bool) -> None:
    policy = AlignAtt(truncate="none", loop_guard=loop_guard)
    state = policy.start(round(5.32 * S))
    state.confirm(SAID, len(SAID), loop_guard=False)
    plan = policy.plan(state, round(8.56 * S), search=Greedy(), round_id=0, is_last=True)
    words = (*FIRST, *COPY)
    commit = policy.apply(state, RoundResult(plan, HeardWords(words, len(words))))
    assert texts(commit.confirmed) == texts(one.word for one in (words if not loop_guard else FIRST))


def test_what_was_said_is_remembered_where_the_window_begins_anew() -> None:
    state = ForcedWindow(0)
    state.confirm(SAID, len(SAID), loop_guard=False)
    state.words = []  # as `reopen_s` leaves it
    copied = state.copy()
    state.confirm(FIRST, len(FIRST), loop_guard=False)
    assert (texts(one.word for one in copied.said), len(state.said)) == (["And", "so", "am"], 6)


def test_however_often_a_word_is_said_it_stands_if_each_time_has_its_own_sound() -> None:
    """A real "no" eleven times lost copies by their number, squeezed as the times of the words were."""
    said = heard("no no", 1.0, 1.3)
    words = heard("no no no no no no no no no", *(1.6 + 0.3 * at for at in range(9)), end=2.0)
    assert without_loops(said, words) == words
    sevens = heard("seven seven seven seven seven", 0.4, 1.2, 2.1, 3.14, 3.24)  # the last in the fourth one's sound
    assert without_loops([], sevens) == sevens[:4]


def test_a_loop_stays_in_its_place_and_is_cut() -> None:
    said = heard("thank you", 1.0, 1.3)
    loop = heard("thank you thank you thank", 1.02, 1.3, 1.0, 1.34, 1.1)
    assert without_loops(said, loop) == loop[:2]
    assert without_loops(said, [*loop, *heard("all", 1.9)]) == [*loop[:2], *loop[4:], *heard("all", 1.9)]
    squeezed = heard("very very very", 1.0, 1.02, 1.04)
    assert without_loops([], squeezed) == squeezed[:2]
    blind = [replace(word("no", 0.5 + at / 50, 0.51 + at / 50), attended=None) for at in range(9)]
    assert without_loops([], blind) == blind[:1]


def test_a_stream_confirms_all_copies_that_have_sounds_of_their_own() -> None:
    policy = AlignAtt()
    state = policy.start(0)
    words = tuple(heard("no no no no no no no no no no no", *(0.3 + 0.3 * at for at in range(11)), end=0.9))
    plan = policy.plan(state, 4 * S, search=Greedy(), round_id=0, is_last=True)
    commit = policy.apply(state, RoundResult(plan, HeardWords(words, firm=len(words))))
    assert len(commit.confirmed) == 11
