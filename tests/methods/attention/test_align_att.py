"""AlignAtt's rules, one by one, on results that are written down."""

from typing import Any

import pytest

from each_row import each_row
from policy_rounds import Attended, S, check_unheard_audio_goes, hearing, texts, watch, word, word_after_word
from whispertide.decoding.guards import Frontier, Halt
from whispertide.errors import OptionError
from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.forced_window import ForcedWindow
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.streaming.round import RoundResult

Play = Attended[ForcedWindow]


def test_a_round_is_watched_by_the_frontier_and_the_last_one_by_a_narrower_one() -> None:
    play = Play(AlignAtt(margin_s=0.5, margin_last_s=0.08, rewind_s=4.0))
    assert watch(play.plan(1)) == Frontier(margin=25, rewind=200, last_frame=-200)
    play.rounds = 7
    assert play.plan(1).id == 7
    assert watch(play.plan(1, is_last=True)) == Frontier(margin=4, rewind=None, last_frame=-200)


def test_confirmed_words_are_forced_and_the_attention_is_remembered() -> None:
    play = Play(AlignAtt(truncate="none"))
    commit = play.round(2, word("one", 0.2, 0.5, 11), word("two", 0.6, 1.0, 12), last_frame=50)
    assert texts(commit.confirmed) == ["one", "two"]
    plan = play.plan(3)
    assert plan.prefix == (11, 12)
    assert watch(plan).last_frame == 50


def test_the_last_word_is_held_back() -> None:
    words = (word("one", 0.2, 0.5), word("two", 0.6, 1.0))
    assert texts(Play(AlignAtt(truncate="last-word")).round(2, *words).confirmed) == ["one"]
    assert texts(Play(AlignAtt(truncate="none")).round(2, *words).confirmed) == ["one", "two"]


@pytest.mark.parametrize(("fires", "confirmed"), [(True, 2), (False, 1), (None, 1)])
def test_the_detector_decides_where_it_is_asked(fires: bool | None, confirmed: int) -> None:
    play = Play(AlignAtt(truncate="detector"))
    plan = play.plan(2)
    assert hearing(plan).detect_end
    assert len(play.round(2, word("one", 0.2, 0.5), word("two", 0.6, 1.0), ended=fires).confirmed) == confirmed


def test_a_word_known_to_go_on_is_held_back_in_any_case() -> None:
    commit = Play(AlignAtt(truncate="none")).round(2, word("one", 0.2, 0.5), word("hallu", 0.6, 1.0), ended=False)
    assert texts(commit.confirmed) == ["one"]


def test_a_rewind_voids_the_round_and_the_memory_of_attention() -> None:
    play = Play(AlignAtt(truncate="none", rewind_s=4.0))
    play.round(2, word("one", 0.2, 0.5), last_frame=60)
    commit = play.round(3, halt=Halt("rewind", 0, 5))
    assert commit.confirmed == ()
    plan = play.plan(4)
    assert watch(plan).last_frame == -200
    assert plan.prefix == (1,)  # what is confirmed stays


def test_the_last_round_confirms_everything() -> None:
    play = Play(AlignAtt())
    words = (word("one", 0.2, 0.5), word("two", 1.6, 1.98))
    commit = play.round(2, *words, firm=1, is_last=True, ended=False)
    assert (texts(commit.confirmed), commit.hypothesis) == (["one", "two"], ())


def test_a_last_round_too_short_to_be_heard_confirms_the_guess() -> None:
    play = Play(AlignAtt())
    play.round(2, word("one", 1.2, 1.5))
    plan = play.plan(2.001, is_last=True)
    commit = play.policy.apply(play.state, RoundResult(plan))
    assert texts(commit.confirmed) == ["one"]


def test_the_oldest_rounds_leave_the_window_and_their_words_become_context() -> None:
    play = Play(AlignAtt(truncate="none", hard_cap_s=8.0))
    for second in range(1, 12):
        play.round(second, word(f"w{second}", second - 0.9, second - 0.6, second), last_frame=None)
    assert 4 * S <= 11 * S - play.state.start <= 8 * S
    plan = play.plan(12)
    assert plan.window.start == play.state.start
    first = plan.prefix[0]
    assert plan.prefix == tuple(range(first, 12))
    assert plan.prompt.split() == [f"w{n}" for n in range(1, first)]
    assert play.plan(12).window.start % 320 == 0


@pytest.mark.parametrize(
    ("step", "starts"), [(1.5, [0, 0, 0, 0, 1.5, 3, 4.5, 6]), (1, [0, 0, 0, 0, 0, 0, 0, 2, 2, 4, 4, 6, 6])]
)
def test_a_window_of_segments_leaves_room_for_a_step_and_for_two_where_it_is_full(
    step: float, starts: list[float]
) -> None:
    play, found = Play(AlignAtt(truncate="none", hard_cap_s=8.0)), []
    for number in range(1, len(starts) + 1):
        end = number * step
        play.round(end, word(f"w{number}", end - 0.9, end - 0.6, number))
        found.append(play.state.start / S)
    assert found == starts


def test_segments_fill_the_window_before_the_oldest_goes() -> None:
    play, longest = Play(AlignAtt(truncate="none", hard_cap_s=30.0)), 0
    for number in range(1, 60):
        end = 1.2 * number + 0.1
        play.round(end, word(f"w{number}", end - 0.9, end - 0.6, number))
        window = play.plan(end + 1.2).window
        assert len(window) <= 30 * S
        longest = max(longest, len(window))
    assert longest > 28.8 * S


def test_a_full_window_makes_ever_more_room_until_late_rounds_catch_up() -> None:
    play, arrived = Play(AlignAtt(truncate="none", hard_cap_s=30.0)), 0.0
    late = []
    for number in range(1, 60):
        arrived += 1.2 if number < 25 else 3.0  # from here on rounds take longer
        end = min(arrived * S, play.policy.limit(play.state)) / S
        play.round(end, word(f"w{number}", end - 0.9, end - 0.6, number))
        late.append(arrived - end)
    assert max(late) < 4
    assert late[-10:] == [0] * 10


def test_context_can_be_left_out() -> None:
    """Simul-Whisper throws text away with its audio."""
    play = Play(AlignAtt(truncate="none", hard_cap_s=8.0, context_tokens=0))
    for second in range(1, 12):
        play.round(second, word(f"w{second}", second - 0.9, second - 0.6, second))
    assert play.plan(12).prompt == ""


def test_remembered_attention_moves_with_the_window() -> None:
    play = Play(AlignAtt(truncate="none", hard_cap_s=8.0))
    for second in range(1, 11):
        frame = (second * S - play.state.start) // 320 - 30  # 0.6 s before the window's end
        play.round(second, word(f"w{second}", second - 0.9, second - 0.6, second), last_frame=frame)
    assert play.state.start > 0
    assert watch(play.plan(11)).last_frame == (10 * S - play.state.start) // 320 - 30


def test_loops_are_cut_down() -> None:
    play = Play(AlignAtt(truncate="none"))
    loop = [word("you", 1 + i * 0.02, 1.02 + i * 0.02, 5) for i in range(12)]
    assert len(play.round(2, *loop).confirmed) == 1
    assert len(Play(AlignAtt(truncate="none", loop_guard=False)).round(2, *loop).confirmed) == 12


def test_a_loop_is_followed_over_rounds() -> None:
    play = Play(AlignAtt(truncate="none"))
    assert len(play.round(3, *(word("you", i * 0.4, i * 0.4 + 0.3) for i in range(6))).confirmed) == 6
    assert play.round(4, *(word("you", i * 0.4, i * 0.4 + 0.3) for i in (6, 7))).confirmed == ()


@pytest.mark.parametrize("truncate", ["none", "last-word"])
def test_where_in_the_stream_it_is_said_does_not_matter(truncate: Any) -> None:
    found = [word_after_word(Play(AlignAtt(truncate=truncate, hard_cap_s=9.0), at * S), at) for at in (0, 1024)]
    assert found[0] == found[1]


@each_row("step", [0.4, 1.0, 1.2, 2.0, 5.0])
def test_unheard_audio_goes_little_by_little_however_long_the_steps_are(step: float) -> None:
    check_unheard_audio_goes(Play(AlignAtt(truncate="none", hard_cap_s=20)), step, 20)


def test_what_the_policy_says_of_listening_is_in_its_plans() -> None:
    policy = AlignAtt(
        margin_s=0.1, margin_last_s=0.02, rewind_s=0.0, truncate="detector", hard_cap_s=11.0, context_tokens=0,
        loop_guard=False, must_speak=True, no_speech=0.3, max_tokens=33, static_prompt=False, word_times="attended",
    )  # fmt: skip
    assert Play(policy).plan(1).hearing == SinglePass(
        must_speak=True, no_speech=0.3, loop_guard=False, max_tokens=33, context_tokens=0, static_prompt=False,
        times="attended", watch=(Frontier(margin=5, rewind=None, last_frame=0),), detect_end=True,
    )  # fmt: skip
    assert Play(policy).policy.limit(policy.start(0)) == 11 * S
    assert policy.usual_s == 11.0
    assert Play(AlignAtt()).plan(1).hearing == SinglePass(
        no_speech=0.9, watch=(Frontier(margin=25, rewind=200, last_frame=-200),)
    )


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(OptionError, match="truncate"):
        AlignAtt(truncate="sometimes")  # type: ignore[arg-type]
