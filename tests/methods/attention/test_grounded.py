"""NPUsper's carry-over, one rule at a time, on results that are written down."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from policy_rounds import Rounds, S, texts, word
from whispertide.decoding.guards import Halt
from whispertide.decoding.token_words import TokenWord
from whispertide.errors import OptionError
from whispertide.methods.attention.backward_shift import BackwardShift
from whispertide.methods.attention.grounded import Grounded, GroundedState
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.recipes.catalogue import get_recipe
from whispertide.streaming.round import Commit, RoundResult
from whispertide.streaming.searches import Greedy

SHIFT = Halt("backward-shift", 0, 7)


class Play(Rounds[GroundedState]):
    policy: Grounded

    def __init__(self, **settings: Any) -> None:
        super().__init__(Grounded(**settings))

    def round(
        self, end: float, *words: TokenWord, halt: Halt | None = None, is_last: bool = False, retried: bool = False
    ) -> Commit:
        plan = self.plan(end, is_last=is_last)
        heard = HeardWords(words, len(words), halt, None, len(plan.window) // 320, retried=retried)
        return self.apply(plan, heard)


THREE = (word("one", 0.2, 0.5, 11), word("two", 0.6, 1.0, 12), word("three", 1.3, 1.8, 13))


def test_the_paper_confirms_everything_and_carries_the_last_word() -> None:
    play = Play(way=1)
    commit = play.round(2, *THREE)
    assert (texts(commit.confirmed), commit.hypothesis) == (["one", "two", "three"], ())
    plan = play.plan(4)
    assert (plan.id, plan.prefix) == (1, (13,))
    assert plan.window.start == pytest.approx(1.1 * S, abs=320)  # 0.2 s before it


@pytest.mark.parametrize(("step_s", "carried_s"), [(1.0, 2.0), (2.0, 4.0), (4.0, 8.0), (10.0, 15.0)])
def test_no_more_is_carried_than_may_be(step_s: float, carried_s: float) -> None:
    policy = get_recipe("npusper").replace(carry_most_s=carried_s).policy
    state = policy.start(0)
    for number in range(1, 9):
        end = round(number * step_s * S)
        plan = policy.plan(state, min(end, policy.limit(state)), search=Greedy(), round_id=number, is_last=False)
        policy.apply(state, RoundResult(plan, HeardWords((), 0, None, None, len(plan.window) // 320)))
        assert min(plan.window.end, carried_s * S) - 320 <= plan.window.end - state.start <= carried_s * S + 320


@pytest.mark.parametrize("way", [2, 3])
def test_the_code_keeps_the_last_word_as_a_guess_and_carries_the_one_before(way: int) -> None:
    play = Play(way=way)
    commit = play.round(2, *THREE)
    assert (texts(commit.confirmed), texts(commit.hypothesis)) == (["one", "two"], ["three"])
    plan = play.plan(4)
    assert plan.prefix == (12,)
    assert plan.window.start == pytest.approx(0.4 * S, abs=320)


def test_the_guess_is_confirmed_when_heard_again_or_replaced() -> None:
    for heard in ("three", "tree"):
        play = Play(way=2)
        play.round(2, *THREE)
        commit = play.round(4, word(heard, 1.3, 1.8, 13), word("four", 3.0, 3.4, 14))
        assert (texts(commit.confirmed), texts(commit.hypothesis)) == ([heard], ["four"])


def test_one_word_alone_is_speculative() -> None:
    play = Play(way=2)
    commit = play.round(2, word("one", 1.2, 1.6, 11))
    assert (commit.confirmed, texts(commit.hypothesis)) == ((), ["one"])
    plan = play.plan(4)
    assert (plan.window.start, plan.prefix) == (0, ())  # the same audio again
    commit = play.round(4, word("won", 1.2, 1.6, 11), word("two", 3.0, 3.4, 12))
    assert (texts(commit.confirmed), texts(commit.hypothesis)) == (["won"], ["two"])


def test_one_word_that_is_long_over_is_carried_by_the_paper_alone() -> None:
    """What may be carried is four seconds, and it ended more than two ago."""
    for way, confirmed in ((1, ["one"]), (2, []), (3, [])):
        early = Play(way=way).round(3, word("one", 0.4, 1.1, 11))
        assert (texts(early.confirmed), texts(early.hypothesis)) == ([], ["one"])
        play = Play(way=way)
        commit = play.round(3, word("one", 0.4, 0.9, 11))
        assert (texts(commit.confirmed), texts(commit.hypothesis)) == (confirmed, [] if confirmed else ["one"])
        assert play.plan(4).prefix == ((11,) if confirmed else ())


def test_loops_are_cut_down_unless_that_is_switched_off() -> None:
    loop = [word("you", 1 + i * 0.05, 1.04 + i * 0.05) for i in range(8)]
    for guarded, count in ((True, 1), (False, 8)):
        assert len(Play(loop_guard=guarded).round(2, *loop, is_last=True).confirmed) == count


def test_words_whose_times_cannot_be_trusted_are_speculative() -> None:
    play = Play(way=2)
    play.round(2, *THREE)
    prefix = play.plan(4).prefix
    crowded = (word("a", 0.41, 0.42), word("b", 0.43, 0.44), word("c", 0.45, 0.46))
    commit = play.round(4, *crowded)
    assert (commit.confirmed, texts(commit.hypothesis)) == ((), ["a", "b", "c"])
    assert play.plan(6).prefix == prefix  # the old one


@pytest.mark.parametrize(("last", "trusted"), [(0.9, False), (1.15, False), (1.2, True), (1.3, True)])
def test_words_count_that_reach_three_tenths_of_the_window(last: float, trusted: bool) -> None:
    """Of these four seconds, 1.2."""
    commit = Play(way=2).round(4, word("one", 0.1, 0.4), word("two", 0.5, last))
    assert texts(commit.confirmed) == (["one"] if trusted else [])


def test_nothing_heard_carries_everything_up_to_a_limit() -> None:
    play = Play(way=2, carry_most_s=4.0)
    play.round(2)
    assert play.state.start == 0
    for end in (6, 8, 10):
        play.round(end)
        assert play.state.start == (end - 4) * S


def test_a_guess_whose_audio_goes_is_confirmed() -> None:
    play = Play(way=2, carry_most_s=4.0)
    play.round(2, *THREE)
    confirmed = [text for end in (4, 6, 8) for text in texts(play.round(end).confirmed)]
    assert confirmed == ["three"]
    assert play.plan(9).prefix == ()


def test_a_carried_word_that_would_be_cut_is_left_out_whole() -> None:
    play = Play(way=1, carry_most_s=4.0)
    play.round(2, *THREE)
    play.round(5.5)  # four seconds of audio would begin in the middle of "three"
    plan = play.plan(6)
    assert plan.prefix == ()
    assert plan.window.start == pytest.approx(1.8 * S, abs=320)


def test_a_carried_word_may_lose_a_tenth_of_a_second() -> None:
    play = Play(way=1, carry_most_s=4.0)
    play.round(2, *THREE)
    play.round(5.35)
    assert play.plan(6).prefix == (13,)


def test_the_audio_of_a_word_confirmed_because_it_would_be_cut_goes_whole() -> None:
    play = Play(way=2, carry_most_s=4.0)
    play.round(2, *THREE)
    assert texts(play.round(5.5).confirmed) == ["three"]  # four seconds begin at 1.5
    assert play.state.start == round(1.8 * S)


def test_a_guess_that_loses_a_tenth_of_a_second_stays_one() -> None:
    play = Play(way=2, carry_most_s=4.0)
    play.round(2, *THREE)
    commit = play.round(5.35)
    assert (texts(commit.confirmed), texts(commit.hypothesis)) == ([], ["three"])
    assert play.state.start == pytest.approx(1.35 * S, abs=320)


def later(words: Iterable[TokenWord], seconds: float) -> tuple[TokenWord, ...]:
    return tuple(word(item.word.text.strip(), item.start / S + seconds, item.end / S + seconds) for item in words)


@pytest.mark.parametrize("way", [1, 2, 3])
def test_where_in_the_stream_it_is_said_does_not_matter(way: int) -> None:
    alone, crowd = [word("four", 2.6, 3.0)], [word("five", 4.1, 4.1), word("six", 4.1, 4.1)]
    script: list[tuple[float, Sequence[TokenWord]]] = [
        (2, THREE), (3.5, alone), (4.5, crowd), (5.5, ()), (9, ()), (10, later(THREE, 8.0)),
    ]  # fmt: skip
    found = []
    for seconds in (0, 1024):
        play = Play(way=way, carry_most_s=4.0, hard_cap_s=9.0)
        play.state = play.policy.start(seconds * S)
        commits = [(play.round(seconds + end, *later(words, seconds)), play.state.start) for end, words in script]
        found.append([
            (texts(commit.confirmed), texts(commit.hypothesis), start - seconds * S) for commit, start in commits
        ])  # fmt: skip
    assert found[0] == found[1]


def test_a_round_too_short_to_be_heard_moves_nothing() -> None:
    play = Play(way=2, carry_most_s=1.0)
    commit = play.policy.apply(play.state, RoundResult(play.plan(3)))
    assert (commit.confirmed, play.state.start) == ((), 0)


def test_words_all_in_one_place_are_speculative() -> None:
    heap = [word(text, 1.5, 1.5) for text in ("a", "b")]
    assert Play(way=2).round(2, *heap).confirmed == ()


def test_the_near_end_stop_is_off_in_the_last_round() -> None:
    play = Play(near_end_s=0.6, shift_guard=True)
    for is_last, near_end in ((False, 30), (True, None)):
        plan = play.plan(2, is_last=is_last)
        assert isinstance(plan.hearing, SinglePass)
        assert plan.hearing.watch == (BackwardShift(near_end=near_end),)


def test_the_last_round_confirms_everything() -> None:
    play = Play(way=2)
    play.round(2, *THREE)
    commit = play.round(3, word("three", 1.3, 1.8, 13), is_last=True)
    assert (texts(commit.confirmed), commit.hypothesis) == (["three"], ())
    assert texts(Play().round(2, word("one", 0.1, 0.3), is_last=True).confirmed) == ["one"]


def test_what_the_last_round_does_not_hear_again_is_not_lost() -> None:
    play = Play(way=2)
    play.round(2, *THREE)
    assert texts(play.round(2.2, is_last=True).confirmed) == ["three"]


def test_a_second_halt_in_the_same_place_asks_for_a_padded_decode() -> None:
    play = Play(way=3)
    play.round(2, halt=SHIFT)
    plan = play.plan(4)
    assert isinstance(plan.hearing, SinglePass)
    assert plan.hearing.retry == SHIFT
    for way in (1, 2):
        play = Play(way=way)
        play.round(2, halt=SHIFT)
        plan = play.plan(4)
        assert isinstance(plan.hearing, SinglePass)
        assert plan.hearing.retry is None


@pytest.mark.parametrize("way", [1, 2])
def test_what_one_round_alone_has_failed_to_hear_is_carried_over(way: int) -> None:
    """Where much audio came at once, a shift backward leaves more of it unheard than is carried over as a rule."""
    play = Play(way=way)
    play.round(12, *THREE, halt=SHIFT)
    assert play.plan(14).window.start <= 1.3 * S
    play.round(14, halt=SHIFT)
    assert play.plan(16).window.start == pytest.approx(10 * S, abs=320)


def test_after_progress_the_place_is_another() -> None:
    play = Play(way=3)
    play.round(2, *THREE, halt=SHIFT)
    plan = play.plan(4)
    assert plan.window.start > 0
    assert isinstance(plan.hearing, SinglePass)
    assert plan.hearing.retry is None


def test_a_padded_decode_repeats_no_words_and_starts_anew() -> None:
    play = Play(way=3)
    play.round(2, *THREE)
    again = (word("Two,", 0.6, 1.0, 12), word("three", 1.3, 1.8, 13), word("four", 2.2, 2.6, 14))
    commit = play.round(4, *again, halt=SHIFT, retried=True)
    assert (texts(commit.confirmed), texts(commit.hypothesis)) == (["three"], ["four"])
    assert play.state.halt is None


def test_at_most_two_words_of_a_padded_decode_are_taken_for_repeated_ones() -> None:
    """Its window begins shortly before the carried word."""
    new = word("four", 2.2, 2.6, 14), word("five", 3.0, 3.4, 15)
    for again, repeated in (((), 0), (THREE[2:], 1), (THREE[1:], 2), (THREE, 0)):
        play = Play(way=1)
        play.round(2, *THREE)
        commit = play.round(4, *again, *new, retried=True)
        assert texts(commit.confirmed) == texts(item.word for item in (*again[repeated:], *new))


def test_a_window_that_would_leave_no_room_is_let_go_of() -> None:
    """Words are heard, but none that moves the window: then what it may carry is what stays of it."""
    play = Play(way=2, carry_most_s=4.0, hard_cap_s=10.0)
    crowded = [word(text, 0.1, 0.2) for text in ("a", "b")]
    for end in (4, 6):
        commit = play.round(end, *crowded)
        assert (texts(commit.hypothesis), play.state.start) == (["a", "b"], 0)
    commit = play.round(7, *crowded)
    assert (texts(commit.confirmed), commit.hypothesis, play.state.start) == (["a", "b"], (), 3 * S)


def test_audio_that_says_nothing_makes_room_however_much_may_be_carried() -> None:
    play = Play(carry_most_s=10.0, hard_cap_s=10.0)
    for end in range(2, 11, 2):
        play.round(end)
    assert play.policy.limit(play.state) > 11 * S


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(OptionError, match="way between 1 and 3; got 4"):
        Grounded(way=4)
    with pytest.raises(OptionError, match="carry_most_s between 1 and 6; got 7"):
        Grounded(carry_most_s=7.0, hard_cap_s=6.0)
    with pytest.raises(OptionError, match="same_token=0, which is never, or at least 2; got 1"):
        Grounded(same_token=1)


def test_what_the_policy_says_of_listening_is_in_its_plans() -> None:
    play = Play(
        way=1, carry_back_s=0.1, carry_most_s=3.0, near_end_s=0.0, shift_guard=False, shift_median=5, shift_average=4,
        shift_row="fed", shift_from_s=0.3, finish_word=True, real_end=False, same_token=7, hard_cap_s=9.0,
        loop_guard=False, least_s=0.5, silence_s=0.3, no_speech=0.3, max_tokens=33, context_tokens=0,
        static_prompt=False, word_times="attended", heads_first=True,
    )  # fmt: skip
    watch = BackwardShift(detect=False, median=5, average=4, row="fed", search_from=15, finish_word=True)
    assert play.plan(1).hearing == SinglePass(
        least=8_000, silence=4_800, no_speech=0.3, loop_guard=False, max_tokens=33, context_tokens=0,
        static_prompt=False, times="attended", heads_first=True, real_end=False, same_token=7, watch=(watch,),
    )  # fmt: skip
    assert play.policy.most == 3 * S
    assert play.policy.limit(play.state) == 9 * S
