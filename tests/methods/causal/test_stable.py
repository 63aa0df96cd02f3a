"""WhisperRT's policy, one rule at a time, on results that are written down."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from policy_rounds import Rounds, S, texts, word
from whispertide.decoding.token_words import TokenWord
from whispertide.methods.causal.stable import Stable, StableState
from whispertide.methods.causal.stable_beam import HeardStream, StableBeam
from whispertide.methods.causal.stable_search import Scored
from whispertide.streaming.round import Commit, RoundPlan
from whispertide.types import Word, to_samples


def scored(*words: TokenWord) -> Scored:
    tokens = tuple(token for item in words for token in item.tokens)
    return Scored(tokens, (-0.5,) * len(tokens))


def heard(*words: TokenWord, others: Sequence[Scored] = ()) -> HeardStream:
    return HeardStream(words, (scored(*words), *others))


class Play(Rounds[StableState]):
    def __init__(self, **changes: Any) -> None:
        super().__init__(Stable(**changes))

    def hearing(self, end: float) -> StableBeam:
        hearing = self.plan(end).hearing
        assert isinstance(hearing, StableBeam)
        return hearing

    def take(self, end: float, result: HeardStream | None, *, is_last: bool = False) -> Commit:
        return self.apply(self.plan(end, is_last=is_last), result)

    def round(self, end: float, *words: TokenWord, is_last: bool = False) -> tuple[list[str], list[str]]:
        commit = self.take(end, heard(*words), is_last=is_last)
        return texts(commit.confirmed), texts(commit.hypothesis)


ONE, TWO, THREE = word("one", 0.2, 0.5, 11), word("two", 0.6, 1.0, 12, 13), word("three", 1.3, 1.8, 14)


# --- which words ------------------------------------------------------------------------------------------------------


def test_a_word_is_confirmed_after_confirm_s_and_not_before() -> None:
    play = Play(confirm_s=0.3)
    assert play.round(0.6, ONE) == ([], ["one"])
    assert play.round(0.8, ONE) == ([], ["one"])
    assert play.round(0.9, ONE) == (["one"], [])


def test_an_improbable_word_waits_with_all_after_it_until_it_lies_before_the_last_settle_s() -> None:
    play = Play(confirm_s=0.1, least_probability=0.7, settle_s=0.8)
    one, two = (
        replace(ONE, word=replace(ONE.word, probability=0.7)),
        replace(TWO, word=replace(TWO.word, probability=0.6)),
    )
    assert play.round(1.2, one, two, THREE) == ([], ["one", "two", "three"])
    assert play.round(1.7, one, two, THREE) == (["one"], ["two", "three"])
    assert play.round(1.8, two, THREE) == (["two", "three"], [])


def test_without_waiting_all_is_confirmed_at_once() -> None:
    assert Play(confirm_s=0.0).round(1.0, ONE, TWO) == (["one", "two"], [])


def test_what_is_confirmed_is_the_forced_prefix_of_the_next_round() -> None:
    play = Play(confirm_s=0.3)
    play.round(1.0, ONE, TWO)
    assert (play.plan(1.1).prefix, play.hearing(1.1).earlier) == ((), (scored(ONE, TWO),))
    play.round(1.3, ONE, TWO, THREE)
    assert (play.plan(1.4).prefix, play.hearing(1.4).earlier) == ((11, 12, 13), (scored(THREE),))


def test_a_blank_is_no_word_and_stays_in_front_of_what_follows() -> None:
    """Whisper writes one where nobody speaks."""
    blank = word("", 0.1, 0.2, 220)
    play = Play(confirm_s=0.3)
    assert play.round(0.6, blank, ONE) == ([], ["one"])
    assert play.round(0.9, blank, ONE) == (["one"], [])
    assert play.plan(1.0).prefix == (220, 11)
    assert Play().round(1.0, blank, is_last=True) == ([], [])


def test_each_word_has_its_own_age() -> None:
    play = Play(confirm_s=0.3)
    assert play.round(0.6, ONE) == ([], ["one"])
    assert play.round(0.8, ONE, TWO) == ([], ["one", "two"])
    assert play.round(1.0, ONE, TWO) == (["one"], ["two"])
    assert play.round(1.1, TWO, THREE) == (["two"], ["three"])


def test_a_token_that_changes_starts_its_age_anew_and_that_of_all_after_it() -> None:
    play = Play(confirm_s=0.3)
    play.round(1.0, ONE, TWO)
    too = word("too", 0.6, 1.0, 12, 99)  # its second token is another
    assert play.round(1.2, ONE, too) == ([], ["one", "too"])
    assert play.round(1.3, ONE, too) == (["one"], ["too"])
    assert play.round(1.4, too) == ([], ["too"])
    assert play.round(1.5, too) == (["too"], [])
    play = Play(confirm_s=0.3)
    play.round(1.0, ONE, TWO)
    won = word("won", 0.2, 0.5, 98)
    assert play.round(1.3, won, TWO) == ([], ["won", "two"])
    assert play.round(1.6, won, TWO) == (["won", "two"], [])


def test_a_word_that_went_and_came_back_is_new() -> None:
    play = Play(confirm_s=0.3)
    play.round(0.6, ONE)
    play.round(0.8)
    assert play.round(0.9, ONE) == ([], ["one"])
    assert play.round(1.2, ONE) == (["one"], [])


def test_the_last_round_confirms_everything() -> None:
    play = Play()
    play.round(1.0, ONE)
    assert play.round(1.1, ONE, TWO, THREE, is_last=True) == (["one", "two", "three"], [])


def test_the_last_round_may_say_all_that_the_audio_can_hold() -> None:
    """Where much of it came at once there has been no round before, and none follows."""

    def most(play: Play, end: float, *, is_last: bool = True) -> int:
        hearing = play.plan(end, is_last=is_last).hearing
        assert isinstance(hearing, StableBeam)
        return hearing.most_tokens

    play = Play(most_tokens=28)
    assert most(play, 11.0) == 132
    assert most(play, 11.0, is_last=False) == 28  # others follow
    play.round(10.0, ONE, word("ten", 9.5, 10.0, 15))
    assert most(play, 11.0) == 28


def test_a_round_that_heard_nothing_leaves_what_was_there() -> None:
    play = Play(confirm_s=0.3)
    assert play.take(0.1, None).confirmed == ()
    assert play.hearing(0.2).earlier == ()
    play.round(1.0, ONE)
    commit = play.take(1.1, None)
    assert (texts(commit.confirmed), texts(commit.hypothesis)) == ([], ["one"])
    assert play.hearing(1.2).earlier == (scored(ONE),)
    commit = play.take(1.2, None, is_last=True)
    assert (texts(commit.confirmed), texts(commit.hypothesis)) == (["one"], [])
    assert Play().take(0.001, None, is_last=True) == Commit((), (), 0)


def test_hypotheses_that_contradict_what_was_confirmed_go() -> None:
    play = Play(confirm_s=0.3)
    same, other, shorter = Scored((11, 77), (-1.0, -2.0)), Scored((98, 12), (-1.0, -1.0)), Scored((), ())
    play.take(1.0, heard(ONE, TWO, others=(same, other, shorter)))
    assert len(play.hearing(1.1).earlier) == 4
    play.take(1.2, heard(ONE, THREE, others=(same, other, shorter)))
    play.take(1.3, heard(ONE, THREE, others=(same, other, shorter)))
    assert play.plan(1.4).prefix == (11,)
    assert play.hearing(1.4).earlier == (scored(THREE), Scored((77,), (-2.0,)))


@pytest.mark.parametrize(("guarded", "count"), [(True, 1), (False, 8)])
def test_loops_are_cut_unless_that_is_switched_off(guarded: bool, count: int) -> None:
    loop = [word("you", 1 + i * 0.05, 1.04 + i * 0.05, 30) for i in range(8)]
    confirmed, _ = Play(loop_guard=guarded).round(2, *loop, is_last=True)
    assert confirmed == ["you"] * count


def test_a_loop_is_cut_that_begins_in_what_is_confirmed() -> None:
    loop = [word("you", 1 + i * 0.05, 1.04 + i * 0.05, 30) for i in range(8)]
    play = Play(confirm_s=0.0)
    assert play.round(2, *loop[:1]) == (["you"], [])
    assert play.round(2.1, *loop[1:]) == ([], [])


# --- which audio ------------------------------------------------------------------------------------------------------


def test_a_full_stream_begins_again_with_the_last_confirmed_words() -> None:
    play = Play(stream_s=6.0, confirm_s=0.0, carry=2)
    play.round(3.9, *(word(f"w{n}", 0.5 * n, 0.5 * n + 0.4, n) for n in range(7)))
    commit = play.take(4.1, heard(word("w7", 3.5, 3.9, 7)))
    assert texts(commit.confirmed) == ["w7"]
    plan = play.plan(4.2)
    assert plan.prefix == (6, 7)  # "w6" begins at 3.0
    assert plan.window.start == commit.keep_from == round(2.9 * S)
    assert play.hearing(4.2).earlier == (scored(),)
    assert play.policy.limit(play.state) == plan.window.start + 6 * S


def test_a_full_stream_in_which_nothing_is_certain_is_confirmed_in_part() -> None:
    play = Play(stream_s=6.0, confirm_s=5.0)
    words = [word(f"w{n}", 0.5 * n, 0.5 * n + 0.4, n) for n in range(8)]
    confirmed, guess = play.round(4.1, *words)
    plan = play.plan(4.2)
    assert plan.window.start >= 2 * S  # there is room
    after = [texts([item.word])[0] for item in words if item.start >= plan.window.start]
    carried = [f"w{token}" for token in plan.prefix]
    assert after == [*carried, *guess]
    assert [*confirmed, *guess] == texts(item.word for item in words)  # nothing is lost or said twice


@pytest.mark.parametrize(("carry", "begins", "prefix"), [(2, 1.5, (2,)), (0, 2.5, ())])
def test_a_full_stream_does_not_begin_within_a_confirmed_word(
    carry: int, begins: float, prefix: tuple[int, ...]
) -> None:
    """Which was heard once more, and confirmed twice."""
    play = Play(stream_s=4.0, confirm_s=0.0, stuck_s=0.0, carry=carry)
    play.round(1.9, word("one", 0.6, 1.0, 1))
    assert play.round(2.8, word("two", 1.6, 2.5, 2)) == (["two"], [])
    # A quarter of the window before its end is 2.1 s.
    assert (play.plan(2.9).window.start, play.plan(2.9).prefix) == (begins * S, prefix)


def test_a_full_stream_keeps_what_is_guessed_after_the_words_that_it_begins_with() -> None:
    play = Play(stream_s=6.0, confirm_s=0.3, carry=2)
    play.round(3.8, *(word(f"w{n}", 0.5 * n, 0.5 * n + 0.4, n) for n in range(7)))
    stop = word(".", 3.6, 3.6, 70)
    assert play.round(4.1, *(word(f"w{n}", 0.5 * n, 0.5 * n + 0.4, n) for n in range(7)), stop)[1] == ["."]
    assert play.state.start == round(2.4 * S)
    assert (play.plan(4.2).prefix, play.hearing(4.2).earlier) == ((5, 6), (scored(stop),))
    assert play.round(4.4, stop) == (["."], [])


def test_a_full_stream_that_heard_nothing_makes_room() -> None:
    play = Play(stream_s=4.0)
    for tenth in range(1, 200):
        end = tenth / 10
        assert round(end * S) <= play.policy.limit(play.state)
        assert play.take(end, None).keep_from == play.state.start <= round(end * S)
        assert play.state.start % 320 == 0


def test_blocks_go_by_the_first_round_of_each_stream() -> None:
    play = Play(stream_s=6.0)
    assert play.hearing(1.13).first_round == 1.13 * S
    play.round(1.13)
    assert play.hearing(1.5).first_round == 1.13 * S  # a plan that is dropped changes nothing
    for number in range(1, 9):
        play.round(1.13 + number * 0.5, *(word(f"w{n}", n, n + 0.5, n) for n in range(number)))
        if play.state.start:
            break
    assert play.hearing(6.2).first_round == 6.2 * S - play.state.start > 0


def test_a_stream_that_says_nothing_any_more_begins_anew_with_its_last_words() -> None:
    play = Play(confirm_s=0.0, stuck_s=2.0)
    assert play.round(2.0, ONE, TWO) == (["one", "two"], [])
    assert play.round(2.9) == ([], [])
    assert (play.state.start, play.plan(2.9).prefix) == (0, (11, 12, 13))
    assert play.round(3.1) == ([], [])
    assert (play.state.start, play.plan(3.2).prefix) == (round(0.1 * S), (11, 12, 13)), "neither is said again"
    assert play.hearing(3.2).earlier == ()


def test_where_the_last_words_do_not_help_a_stream_begins_with_what_is_newest() -> None:
    play = Play(confirm_s=0.0, stuck_s=2.0)
    play.round(2.0, ONE, TWO)
    play.round(3.1)
    assert play.round(5.0) == ([], [])
    assert play.state.start == round(0.1 * S), "what began last has not had its time yet"
    for end in (5.2, 7.3, 9.4):
        assert play.round(end) == ([], [])
        assert (play.state.start, play.plan(end).prefix) == (round((end - 2) * S) // 320 * 320, ())
    assert play.round(10.0, word("four", 8.9, 9.3, 15)) == (["four"], [])
    assert play.round(11.5) == ([], [])
    assert play.plan(11.5).prefix == (15,)


def test_a_stream_is_never_begun_anew_where_that_is_switched_off() -> None:
    patient = Play(confirm_s=0.0, stuck_s=0.0)
    patient.round(2.0, ONE)
    patient.round(9.0)
    assert patient.state.start == 0


class Speaker:
    """Hears every word that has ended in the stream, but for the forced ones; the newest of them wrong at first, if it
    is `unsure`.
    """

    def __init__(self, words: Sequence[TokenWord], *, unsure: bool) -> None:
        self.words = words
        self.unsure = unsure

    def hear(self, plan: RoundPlan) -> HeardStream:
        there = [each for each in self.words if each.start >= plan.window.start and each.end <= plan.window.end]
        forced = [each for each in there if each.tokens[0] in plan.prefix]
        assert [each.tokens[0] for each in forced] == list(plan.prefix)
        assert forced == there[: len(forced)]
        fresh = there[len(forced) :]
        if self.unsure and fresh and plan.window.end - fresh[-1].end < 0.2 * S and not plan.is_last:
            fresh[-1] = TokenWord(fresh[-1].word, (90_000 + plan.window.end,))
        return heard(*fresh)


@pytest.mark.slow
@each_row("confirm_s", [0.0, 0.3, 5.0])
@each_row("carry", [0, 1, 2, 6])
def test_from_stream_to_stream_nothing_is_lost_or_said_twice(confirm_s: float, carry: int) -> None:
    words = [word(f"w{n}", 0.4 * n + 0.2, 0.4 * n + 0.5, n) for n in range(120)]
    speaker, play = Speaker(words, unsure=confirm_s > 0), Play(confirm_s=confirm_s, stream_s=8.0, carry=carry)
    said: list[str] = []
    starts = {0}
    for tenth in range(3, 490, 2):
        plan = play.plan(tenth / 10)
        assert plan.window.end <= play.policy.limit(play.state)
        said += texts(play.take(tenth / 10, speaker.hear(plan)).confirmed)
        starts.add(play.state.start)
    said += texts(play.take(49.0, speaker.hear(play.plan(49.0, is_last=True)), is_last=True).confirmed)
    assert said == texts(each.word for each in words)
    assert len(starts) >= 6


@st.composite
def streams(draw: st.DrawFn) -> list[list[int] | None]:
    """Tokens that rounds hear after what is confirmed; None: nothing."""
    return draw(st.lists(st.one_of(st.none(), st.lists(st.integers(1, 3), max_size=6)), min_size=1, max_size=40))


@quick(50)
@given(rounds=streams(), confirm_s=st.sampled_from([0.0, 0.2, 0.5]), cap_s=st.sampled_from([4.0, 28.0]))
def test_whatever_rounds_hear_what_is_confirmed_stays(
    rounds: list[list[int] | None], confirm_s: float, cap_s: float
) -> None:
    """Commits are appended, the guess is what follows, and the next round is told just that."""
    play, text, step = Play(confirm_s=confirm_s, stream_s=cap_s, loop_guard=False), [], 0.2
    for number, tokens in enumerate(rounds, start=1):
        end, is_last, begin = number * step, number == len(rounds), play.state.start
        width = max(round((end * S - begin) / 8), 1)
        words = [
            TokenWord(Word(f" {token}", begin + place * width, begin + (place + 1) * width), (token,))
            for place, token in enumerate(tokens or ())
        ]
        before, guess = play.plan(end).prefix, [each.tokens[0] for each in play.state.guess]
        commit = play.take(end, None if tokens is None else heard(*words), is_last=is_last)
        confirmed = [int(each) for each in texts(commit.confirmed)]
        text += confirmed
        found = guess if tokens is None else tokens
        begun_again = play.state.start > begin
        if not begun_again:
            assert [*confirmed, *(int(each) for each in texts(commit.hypothesis))] == found
            assert play.plan(end).prefix == (*before, *confirmed)
        prefix = play.plan(end).prefix
        assert list(prefix) == text[len(text) - len(prefix) :]
        assert confirmed == found[: len(confirmed)]
        assert len(play.state.found_at) == sum(len(each.tokens) for each in play.state.hypotheses[:1])
        assert play.state.start <= commit.keep_from + 320 <= to_samples(end) + 320
    assert play.state.guess == ()
