"""When `tide` begins a window anew, or hears one again."""

from dataclasses import replace

import pytest

from policy_rounds import S, texts, watch, word
from tide_play import Play, tide
from whispertide.decoding.guards import Halt
from whispertide.decoding.token_words import TokenWord
from whispertide.methods.attention.listening import HeardWords
from whispertide.streaming.round import Commit, RoundResult


def opened_anew(commit: Commit, play: Play, end: float) -> bool:
    """Whether the next window begins after all that was said, without text in front."""
    plan = play.plan(end)
    assert commit.goes_on == (plan.prefix == ())
    return commit.goes_on and (plan.prompt, plan.window.start) == ("", round(1.2 * S))


@pytest.mark.parametrize(("end", "anew"), [(2.2, False), (2.3, True)])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_text_that_ends_long_before_its_window_is_followed_by_a_window_after_it(
    end: float, anew: bool, is_last: bool
) -> None:
    play = Play(tide(reopen_s=1.2))
    play.round(1.4, word("one", 0.2, 0.5), word("two", 0.6, 1.0), last_frame=50)
    assert opened_anew(play.round(end, is_last=is_last), play, 3) == anew
    assert watch(play.plan(3)).last_frame == (-200 if anew else 50)


@pytest.mark.parametrize(
    ("reopen_s", "guess", "halt"),
    [(0.0, (), None), (1.2, (word("two", 0.6, 1.0),), None), (1.2, (), Halt("frontier", 1, 9))],
)
def test_a_text_that_was_cut_short_or_whose_guess_waits_goes_on(
    reopen_s: float, guess: tuple[TokenWord, ...], halt: Halt | None
) -> None:
    play = Play(tide(reopen_s=reopen_s))
    play.round(1.2, word("one", 0.2, 0.5, 11))
    assert not play.round(3, *guess, firm=0, halt=halt).goes_on
    assert play.plan(4).prefix == (11,)


def attended(text: str, start: float, end: float, at: float) -> TokenWord:
    return replace(word(text, start, end), attended=round(at * S))


@pytest.mark.parametrize(("reopen_s", "loop_guard"), [(1.2, True), (0.0, True), (1.2, False)])
@pytest.mark.parametrize("is_last", [False, True])
def test_what_loops_after_the_words_in_front_of_it_is_heard_without_them(
    reopen_s: float, loop_guard: bool, is_last: bool
) -> None:
    """tiny.en went on with "no" after eleven of them, where somebody said "I said no" (issue "faults")."""
    play = Play(tide(reopen_s=reopen_s, loop_guard=loop_guard))
    play.round(2, attended("no", 0.2, 0.5, 0.4), attended("no", 0.8, 1.2, 1.0))
    loop = attended("no", 2.2, 2.3, 2.2), attended("no", 2.3, 2.4, 2.4)
    commit = play.round(2.4, *loop, stop="guard", is_last=is_last)
    anew = reopen_s > 0 and loop_guard
    assert commit.goes_on == anew
    assert texts(commit.confirmed) == ([] if anew else ["no", "no"])
    if anew:
        assert play.plan(2.8).prefix == ()
        # Nothing is in front of it any more: the same loop is what is heard.
        assert texts(play.round(2.8, *loop, stop="guard").confirmed) == ["no", "no"]


def test_a_loop_right_after_the_words_in_front_of_it_waits_for_more_audio() -> None:
    play = Play(tide(reopen_s=1.2))
    play.round(2, attended("no", 0.2, 0.5, 0.4), attended("no", 1.4, 1.8, 1.7))
    assert not play.round(2.4, attended("no", 1.8, 2.2, 2.0), stop="guard").goes_on
    assert play.plan(2.8).prefix != ()


def test_in_the_last_round_such_a_loop_takes_no_word_with_it() -> None:
    """No audio follows to wait for, and too little is left to be heard by itself."""
    play = Play(tide(reopen_s=1.2))
    play.round(2, attended("I", 0.2, 0.5, 0.4), attended("said", 1.4, 1.8, 1.7))
    assert texts(play.round(2.4, attended("yes", 1.9, 2.1, 2.0), firm=0).hypothesis) == ["yes"]
    no_no = attended("no", 2.2, 2.3, 2.25), attended("no", 2.3, 2.5, 2.4)
    commit = play.round(2.6, attended("yes", 1.9, 2.1, 2.0), *no_no, stop="guard", is_last=True)
    assert not commit.goes_on
    assert texts(commit.confirmed) == ["yes", "no", "no"]


def test_the_next_window_begins_where_the_last_word_was_attended_to_and_not_where_it_is_said_to_end() -> None:
    """Word times make the last word of a text last until the end of the audio."""
    play = Play(tide(reopen_s=1.2))
    play.round(4, attended("one", 0.2, 3.9, 0.8))
    assert play.round(5).goes_on
    assert play.plan(6).window.start == S


def test_the_next_window_does_not_begin_within_a_long_word_that_attended_to_its_beginning() -> None:
    """base's "circumstances" is one token; its second half was heard as the same word once more, in a reading."""
    play = Play(tide(reopen_s=1.2))
    play.round(2.8, attended("circumstances", 0.84, 1.96, 1.02))
    assert not play.round(3).goes_on, "that is a second after its end, and two after what it attended to"
    assert play.round(3.3).goes_on
    assert 1.8 * S <= play.plan(4).window.start <= 1.96 * S


def test_the_next_window_never_begins_in_front_of_the_last_word() -> None:
    """Where its last piece attended to what was said before it; else that would be heard and confirmed again."""
    play = Play(tide(reopen_s=1.2))
    play.round(4, attended("one", 0.2, 0.5, 0.4), attended("two", 1.0, 1.6, 0.1))
    assert play.round(5).goes_on
    assert play.plan(6).window.start == pytest.approx(1.2 * S, abs=320)


def test_a_window_that_begins_anew_is_not_cut_short_for_its_length() -> None:
    play = Play(tide(reopen_s=1.2, window_s=3.0))
    play.round(2, attended("one", 0.2, 0.8, 0.8))
    assert play.round(12).goes_on
    assert play.plan(13).window.start == S


def test_a_window_without_speech_is_nothing_to_begin_anew_for() -> None:
    play = Play(tide(reopen_s=1.2))
    play.round(2, word("one", 0.2, 0.8))
    plan = play.plan(4)
    silence = HeardWords(frames=len(plan.window) // 320, no_speech_prob=0.95)
    assert not play.policy.apply(play.state, RoundResult(plan, silence)).goes_on


def test_only_once_after_the_words_that_were_forced() -> None:
    """A model that says the same of any silence would be asked again and again."""
    play = Play(tide(reopen_s=0.5))
    play.round(1, word("one", 0.2, 0.8))
    assert play.round(9, is_last=True).goes_on
    assert not play.round(9, word("you", 1.1, 1.4), is_last=True).goes_on


def test_where_nothing_was_said_there_is_nothing_to_begin_after() -> None:
    play = Play(tide(reopen_s=1.2))
    assert not play.round(3).goes_on
    assert play.plan(4).window.start == 0
