"""WhisperKit's two streams, one rule at a time, on results that are written down."""

from typing import Any

import pytest

from policy_rounds import Rounds, S, texts
from whispertide.decoding.token_words import TokenWord
from whispertide.errors import OptionError
from whispertide.methods.agreement.early_stop import EarlyStop
from whispertide.methods.agreement.held_agreement import HeldAgreement, HeldState
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.recipes.catalogue import get_recipe
from whispertide.streaming.round import Commit, RoundResult
from whispertide.types import Word


def word(text: str, start: float, token: int) -> TokenWord:
    return TokenWord(Word(" " + text, round(start * S), round((start + 0.3) * S)), (token,))


SAID = tuple(word(text, 0.5 * n + 0.2, n) for n, text in enumerate(("one", "two", "three", "four", "five", "six")))


class Play(Rounds[HeldState]):
    def __init__(self, **settings: Any) -> None:
        super().__init__(HeldAgreement(**settings))

    def round(self, end: float, *words: TokenWord, is_last: bool = False, logprob: float = -0.2) -> Commit:
        return self.apply(self.plan(end, is_last=is_last), HeardWords(words, len(words), avg_logprob=logprob))


def test_what_two_rounds_agree_on_is_confirmed_but_for_the_last_two_words() -> None:
    play = Play()
    first = play.round(2, *SAID[:3])
    assert (texts(first.confirmed), texts(first.hypothesis)) == ([], ["one", "two", "three"])
    second = play.round(3, *SAID[:4])
    assert (texts(second.confirmed), texts(second.hypothesis)) == (["one"], ["two", "three", "four"])
    plan = play.plan(4)
    assert plan.prefix == (1, 2)  # the held words
    assert plan.window.start == pytest.approx(0.6 * S, abs=320)  # a tenth of a second before the first of them


def test_the_next_round_s_words_follow_on_the_held_ones() -> None:
    play = Play()
    play.round(2, *SAID[:3])
    play.round(3, *SAID[:4])
    third = play.round(4, *SAID[3:6])  # after the prefix
    assert (texts(third.confirmed), texts(third.hypothesis)) == (["two"], ["three", "four", "five", "six"])
    assert play.plan(5).prefix == (2, 3)


def test_agreement_ends_at_the_first_word_that_differs() -> None:
    play = Play()
    play.round(2, *SAID[:4])
    commit = play.round(3, SAID[0], SAID[1], word("tree", 1.2, 9), SAID[3])
    assert (texts(commit.confirmed), texts(commit.hypothesis)) == ([], ["one", "two", "tree", "four"])
    assert play.plan(4).prefix == (0, 1)


def test_case_and_punctuation_do_not_count() -> None:
    play = Play(hold=1)
    play.round(2, word("One,", 0.2, 0), word("two", 0.7, 1))
    assert texts(play.round(3, word("one", 0.2, 0), word("Two.", 0.7, 1)).confirmed) == ["one"]


def test_no_word_vanishes_where_fewer_than_two_agree() -> None:
    play = Play()
    play.round(2, *SAID[:2])
    commit = play.round(3, SAID[0], word("too", 0.7, 9))
    assert texts(commit.hypothesis) == ["one", "too"]
    assert play.plan(4).window.start == 0  # a cursor needs two held words
    commit = play.round(4, word("two", 0.7, 1), SAID[2])
    assert texts(commit.hypothesis) == ["one", "two", "three"]


def test_the_last_round_confirms_everything() -> None:
    play = Play()
    play.round(2, *SAID[:3])
    play.round(3, *SAID[:3])
    commit = play.round(3.2, SAID[3], is_last=True)
    assert (texts(commit.confirmed), commit.hypothesis) == (["two", "three", "four"], ())


def test_a_window_too_short_to_be_heard_confirms_the_guess_in_the_last_round() -> None:
    play = Play()
    play.round(2, *SAID[:3])
    plan = play.plan(2, is_last=True)
    assert texts(play.policy.apply(play.state, RoundResult(plan)).confirmed) == ["one", "two", "three"]


def test_an_unlikely_round_agrees_with_nothing() -> None:
    play = Play()
    play.round(2, *SAID[:3])
    commit = play.round(3, *SAID[:3], logprob=-1.5)
    assert (texts(commit.confirmed), texts(commit.hypothesis)) == ([], ["one", "two", "three"])
    assert texts(play.round(4, *SAID[:3]).confirmed) == ["one"]


def test_a_window_that_is_to_be_full_stays_where_it_began() -> None:
    play = Play(cut="full", hard_cap_s=8)
    play.round(2, *SAID[:4])
    play.round(3, *SAID[:4])
    plan = play.plan(4)
    assert (plan.window.start, plan.prefix) == (0, (0, 1, 2, 3))  # the confirmed words are forced, too
    play.round(6.5)
    assert play.plan(7).window.start == pytest.approx(1.1 * S, abs=320)
    assert play.plan(7).prefix == (2, 3)


def test_a_full_window_in_which_nothing_agrees_is_cut() -> None:
    play = Play(hard_cap_s=6)
    confirmed: list[str] = []
    for number in range(1, 12):
        end = min(number, play.policy.limit(play.state) / S)
        heard = [word(f"{text}{number}", at, 10 * number + k) for k, (text, at) in enumerate([("a", 0.5), ("b", 2.5)])]
        confirmed += texts(play.round(end, *(one for one in heard if one.start >= play.state.start)).confirmed)
        assert end * S - play.state.start <= 6 * S
    assert play.state.start > 0
    assert confirmed[0].startswith("a")


def test_loops_are_cut_down_unless_that_is_switched_off() -> None:
    loop = [TokenWord(Word(" you", S + i * 800, S + i * 800 + 640), (7,)) for i in range(8)]
    for guarded, count in ((True, 1), (False, 8)):
        play = Play(loop_guard=guarded)
        assert len(play.round(2, *loop, is_last=True).confirmed) == count


def test_a_copy_of_the_state_is_independent() -> None:
    play = Play()
    play.round(2, *SAID[:3])
    kept = play.state.copy()
    play.round(3, *SAID[:3])
    assert (kept.start, texts(item.word for item in kept.guess)) == (0, ["one", "two", "three"])


def test_what_watches_a_decode() -> None:
    plan = Play().plan(2)
    assert plan.hearing == SinglePass(watch=(EarlyStop(60, 2.4),), no_speech=0.9)
    assert Play(stop_tokens=0).plan(2).hearing == SinglePass(no_speech=0.9)
    with pytest.raises(OptionError, match="stop_tokens=0, which is never, or at least 2; got 1"):
        Play(stop_tokens=1)
    last = Play().plan(2, is_last=True).hearing
    assert isinstance(last, SinglePass)
    assert last.unheard_from == 0


def test_the_recipe() -> None:
    assert get_recipe("whisperkit").policy == HeldAgreement()
