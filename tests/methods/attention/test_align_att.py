"""AlignAtt's rules, one by one, on results that are written down."""

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from attention_ramps import asked, scene
from policy_rounds import Rounds, S, texts, word
from whispertide.decoding.draft import Reference
from whispertide.decoding.guards import Frontier, Halt
from whispertide.decoding.search import StopReason
from whispertide.decoding.token_words import TokenWord
from whispertide.errors import OptionError
from whispertide.methods.attention.align_att import AlignAtt, AlignAttState
from whispertide.methods.attention.backward_shift import BackwardShift
from whispertide.methods.attention.delay import LATEST_S, SOONEST_S, Patience, patience
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.methods.attention.steadiness import FEATURES, Rule
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Beam, Greedy, Search, Verified
from whispertide.types import Word

FRAMES = 150
DIMS = SimpleNamespace(n_text_layer=1, n_text_head=2)


class Play(Rounds[AlignAttState]):
    def round(
        self,
        end: float,
        *words: TokenWord,
        firm: int | None = None,
        halt: Halt | None = None,
        last_frame: int | None = None,
        is_last: bool = False,
        ended: bool | None = None,
        load: float = 0.0,
        stop: StopReason = "end_of_text",
    ) -> Commit:
        plan = self.plan(end, is_last=is_last, load=load)
        frames = len(plan.window) // 320
        heard = HeardWords(words, len(words) if firm is None else firm, halt, last_frame, frames, ended, stop=stop)
        return self.apply(plan, heard)


def hearing(plan: RoundPlan) -> SinglePass:
    assert isinstance(plan.hearing, SinglePass)
    return plan.hearing


def watch(plan: RoundPlan) -> Frontier:
    (found,) = hearing(plan).watch
    assert isinstance(found, Frontier)
    return found


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
    assert isinstance(plan.hearing, SinglePass)
    assert plan.hearing.detect_end
    assert len(play.round(2, word("one", 0.2, 0.5), word("two", 0.6, 1.0), ended=fires).confirmed) == confirmed


def test_a_word_known_to_go_on_is_held_back_in_any_case() -> None:
    commit = Play(AlignAtt(truncate="none")).round(2, word("one", 0.2, 0.5), word("hallu", 0.6, 1.0), ended=False)
    assert texts(commit.confirmed) == ["one"]


def test_words_after_the_frontier_are_a_guess_that_can_be_verified() -> None:
    play = Play(AlignAtt(truncate="none", beyond=9), search=Verified(beam=1))
    words = (word("one", 0.2, 0.5, 11), word("two", 0.6, 1.0, 12), word("three", 1.1, 1.4, 13))
    commit = play.round(1.5, *words, firm=1, halt=Halt("frontier", 1, 12), last_frame=40)
    assert (texts(commit.confirmed), texts(commit.hypothesis)) == (["one"], ["two", "three"])
    plan = play.plan(2)
    assert plan.reference == Reference.exactly((12, 13))
    unverified = Play(AlignAtt(truncate="none", beyond=9))
    assert unverified.plan(1).reference is None
    unverified.round(1.5, *words, firm=1)
    assert unverified.plan(2).reference is None
    assert Play(AlignAtt(), search=Verified(beam=1)).plan(1).reference is None


@pytest.mark.parametrize("search", [Beam(), Verified(beam=2)])
def test_several_hypotheses_have_no_guess_and_nothing_to_verify(search: Search) -> None:
    play = Play(AlignAtt(truncate="none", beyond=9), search=search)
    assert watch(play.plan(1)).beyond == 0
    play.round(1.5, word("one", 0.2, 0.5, 11), word("two", 0.6, 1.0, 12), firm=1)
    assert texts(word.word for word in play.state.guess) == ["two"]
    assert play.plan(2).reference is None
    play.search = Greedy()
    assert watch(play.plan(2)).beyond == 9


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


def test_a_short_window_keeps_a_few_words_in_front_of_what_is_new() -> None:
    play = Play(AlignAtt(truncate="none", memory="words", window_s=4.0, carry=2))
    for second in range(1, 6):
        play.round(second, word(f"w{second}", second - 0.9, second - 0.6, second))
    assert play.plan(6).prefix == (4, 5)
    assert play.state.start == pytest.approx(3.0 * S, abs=320)


@pytest.mark.parametrize("memory", ["segments", "words"])
@pytest.mark.parametrize("truncate", ["none", "last-word"])
def test_where_in_the_stream_it_is_said_does_not_matter(memory: Any, truncate: Any) -> None:
    found = []
    for at in (0, 1024):
        play = Play(AlignAtt(memory=memory, truncate=truncate, window_s=3.0, hard_cap_s=9.0), at * S)
        states = []
        for number in range(1, 20):
            end = at + 0.8 * number
            commit = play.round(end, word(f"w{number}", end - 0.6, end - 0.2 - 0.02 * number), last_frame=20)
            states.append((texts(commit.confirmed), play.state.start - at * S, watch(play.plan(end + 1)).last_frame))
        found.append(states)
    assert found[0] == found[1]


def test_silence_is_let_go_of() -> None:
    play = Play(AlignAtt(memory="words", window_s=4.0, margin_s=0.2))
    for second in range(1, 30):
        play.round(second)
        assert second * S - play.state.start <= 4 * S


def test_audio_in_which_nothing_was_heard_yet_stays_for_a_while() -> None:
    """The margin, and a second more."""
    play = Play(AlignAtt(memory="words", window_s=1.0, margin_s=0.2))
    for second in range(1, 5):
        play.round(second)
    assert play.state.start == 4 * S - 3_200 - S


@pytest.mark.parametrize(("end", "start"), [(7.1, 2.4), (7.3, 3.3)])
def test_a_cut_in_a_pause_keeps_away_from_the_word_before_it(end: float, start: float) -> None:
    """By a fifth of a second, or else the word stays, too."""
    play = Play(AlignAtt(truncate="none", memory="words", window_s=4.0, margin_s=0.2))
    play.round(3.5, word("no", 0.5, 0.9), word("one", 2.5, 3.0))
    play.round(end)
    assert play.state.start == pytest.approx(start * S, abs=320)
    assert play.state.context == (" no one" if start > 3 else " no")


def test_as_many_words_as_are_carried_are_enough_to_cut_in_front_of() -> None:
    play = Play(AlignAtt(truncate="none", memory="words", window_s=4.0, carry=2, margin_s=0.5))
    play.round(6, word("one", 5.0, 5.3), word("two", 5.5, 5.8))
    assert play.state.start == round(4.5 * S)  # what lies within the margin and a second stays in any case


def test_audio_of_an_unconfirmed_word_stays() -> None:
    play = Play(AlignAtt(memory="words", window_s=2.0, hard_cap_s=20.0))
    for second in range(2, 10):
        play.round(second, word("slow", 1.0, 1.5))
        assert play.state.start <= 1.0 * S


def test_a_full_window_confirms_the_older_part_of_the_guess() -> None:
    play = Play(AlignAtt(memory="words", window_s=2.0, hard_cap_s=8.0))
    confirmed: list[str] = []
    for second in range(2, 14):
        words = [word(f"w{n}", n, n + 0.4, n) for n in range(1, second) if n * S >= play.state.start]
        known = set(confirmed)
        fresh = [item for item in words if item.word.text.strip() not in known]
        confirmed += texts(play.round(second, *fresh, firm=0).confirmed)
    assert confirmed == [f"w{n}" for n in range(1, len(confirmed) + 1)]
    assert len(confirmed) >= 4
    inside = [item.word.text for item in play.state.words]
    assert (play.state.context + "".join(inside)).split() == confirmed


def full(**settings: Any) -> tuple[Play, Commit]:
    """A window of eight seconds that is full of words which nothing has confirmed, a loop among them."""
    play = Play(AlignAtt(memory="words", window_s=2.0, hard_cap_s=8.0, **settings))
    loop = [word("you", 0.2 + n * 0.3, 0.4 + n * 0.3) for n in range(20)]
    play.round(3, *loop[:8], firm=0)
    return play, play.round(7.5, *loop, word("know", 7.0, 7.3), firm=0)


def test_what_a_full_window_confirms_has_no_loops() -> None:
    assert len(full(loop_guard=False)[1].confirmed) > 6
    assert len(full()[1].confirmed) == 6  # so many may have been said


def test_what_a_full_window_confirms_is_no_longer_shown_as_a_guess() -> None:
    play, commit = full(loop_guard=False, calm=0.01)
    assert commit.confirmed
    assert all(guess.start >= commit.confirmed[-1].start for guess in commit.hypothesis)
    assert play.state.shown == commit.hypothesis


def test_what_one_round_alone_has_failed_to_hear_stays() -> None:
    """A shift backward leaves the rest of a window unheard, which is long where audio came late or all at once."""
    play = Play(AlignAtt(truncate="none", memory="words", window_s=5))
    halt = Halt("backward-shift", 2, 7)
    play.round(20, word("one", 0.2, 0.5), word("two", 0.6, 1.0), halt=halt)
    assert play.plan(20.4).window.start <= 1.2 * S
    play.round(20.4, halt=halt)  # nor does the next: a second of it goes, and then another
    assert play.plan(20.8).window.start == pytest.approx(2.2 * S, abs=960)
    play.round(20.8, halt=halt)
    assert play.plan(21.2).window.start == pytest.approx(3.2 * S, abs=960)


@pytest.mark.parametrize("step", [0.4, 1.0, 1.2, 2.0, 5.0])
@pytest.mark.parametrize("memory", ["words", "segments"])
def test_unheard_audio_goes_little_by_little_however_long_the_steps_are(memory: Any, step: float) -> None:
    """Rounds that a guard ends before the first word, again and again."""
    play = Play(AlignAtt(truncate="none", memory=memory, window_s=5, hard_cap_s=20))
    starts, lengths = [0], []
    for number in range(1, 60):
        plan = play.plan(min(number * step, play.policy.limit(play.state) / S))
        lengths.append(len(plan.window) / S)
        play.apply(plan, HeardWords((), 0, None, None, stop="guard"))
        starts.append(play.state.start)
    assert max(lengths) <= 20 + 0.1
    steps = [(after - before) / S for before, after in itertools.pairwise(starts)]
    assert max(steps) <= 2.5 + 0.1  # the room that the next round needs
    assert lengths[-1] <= 7.1 or memory == "segments" or step > 2, "what comes in goes"


@pytest.mark.parametrize("stop", ["guard", "length", "end_of_text"])
def test_silence_is_let_go_of_whatever_ended_its_text(stop: Any) -> None:
    play = Play(AlignAtt(truncate="none", memory="words", window_s=5, no_speech=0.9))
    play.apply(play.plan(12), HeardWords((), 0, None, None, stop=stop, no_speech_prob=0.95))
    assert play.state.start >= 7 * S - 320


def test_what_a_text_that_is_too_long_does_not_reach_stays() -> None:
    play = Play(AlignAtt(truncate="none", memory="words", window_s=5))
    plan = play.plan(20)
    play.apply(plan, HeardWords((word("one", 0.2, 0.5),), 1, None, None, len(plan.window) // 320, stop="length"))
    assert play.plan(20.4).window.start <= 0.7 * S


def test_loops_are_cut_down() -> None:
    play = Play(AlignAtt(truncate="none"))
    loop = [word("you", 1 + i * 0.02, 1.02 + i * 0.02, 5) for i in range(12)]
    assert len(play.round(2, *loop).confirmed) == 1
    assert len(Play(AlignAtt(truncate="none", loop_guard=False)).round(2, *loop).confirmed) == 12


def test_a_loop_is_followed_over_rounds() -> None:
    play = Play(AlignAtt(truncate="none"))
    assert len(play.round(3, *(word("you", i * 0.4, i * 0.4 + 0.3) for i in range(6))).confirmed) == 6
    assert play.round(4, *(word("you", i * 0.4, i * 0.4 + 0.3) for i in (6, 7))).confirmed == ()


def test_a_short_window_leaves_an_eighth_of_the_longest_free_however_short_the_steps_are() -> None:
    play = Play(AlignAtt(memory="words", window_s=2.0, hard_cap_s=8.0))
    held = word("slow", 0.5, 0.7), word("slower", 3.0, 3.3)
    for quarter in range(4, 60):
        play.round(quarter / 4, *(item for item in held if item.start >= play.state.start), firm=0)
        assert quarter / 4 * S - play.state.start <= 7 * S


def test_late_rounds_are_cheaper_in_declared_steps() -> None:
    play = Play(AlignAtt(truncate="none", memory="words", window_s=6.0, beyond=9, rescue_logprob=-1.0, shed_s=1.0))
    levels = []
    end = 0.0
    for load in (0.0, 0.3, 0.6, 1.1, 2.1, 0.3):
        end += 3.0
        plan = play.plan(end, load=load)
        assert watch(plan).beyond == (0 if load > 1 else 9)
        assert hearing(plan).rescue == (None if load > 0.5 else -1.0)
        words = [word("a", end - 0.8, end - 0.5, 1), word("b", end - 0.4, end - 0.1, 2)]
        levels.append(play.round(end, *words, load=load).level)
    assert levels == [0, 0, 1, 2, 3, 0]
    assert [AlignAtt(shed_s=1.0).level(round(load * S)) for load in (0.5, 0.51, 1.0, 2.0)] == [0, 1, 1, 2]
    assert AlignAtt(shed_s=0.0).level(60 * S) == 0


def test_a_very_late_round_leaves_one_word_in_the_window() -> None:
    play = Play(AlignAtt(truncate="none", memory="words", window_s=9.0, shed_s=1.0))
    for end in (1.0, 1.5, 2.0):
        play.round(end, word("a", end - 0.4, end - 0.1))
    assert len(play.state.words) == 3
    play.round(4.5, word("b", 4.0, 4.2), load=2.5)
    assert len(play.state.words) == 1


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
    play = Play(AlignAtt(truncate="none", reopen_s=1.2))
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
    play = Play(AlignAtt(truncate="none", reopen_s=reopen_s))
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
    play = Play(AlignAtt(truncate="none", reopen_s=reopen_s, loop_guard=loop_guard))
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
    play = Play(AlignAtt(truncate="none", reopen_s=1.2))
    play.round(2, attended("no", 0.2, 0.5, 0.4), attended("no", 1.4, 1.8, 1.7))
    assert not play.round(2.4, attended("no", 1.8, 2.2, 2.0), stop="guard").goes_on
    assert play.plan(2.8).prefix != ()


def test_the_next_window_begins_where_the_last_word_was_attended_to_and_not_where_it_is_said_to_end() -> None:
    """Word times make the last word of a text last until the end of the audio."""
    play = Play(AlignAtt(truncate="none", reopen_s=1.2))
    play.round(4, attended("one", 0.2, 3.9, 0.8))
    assert play.round(5).goes_on
    assert play.plan(6).window.start == S


def test_the_next_window_never_begins_in_front_of_the_last_word() -> None:
    """Where its last piece attended to what was said before it; else that would be heard and confirmed again."""
    play = Play(AlignAtt(truncate="none", reopen_s=1.2))
    play.round(4, attended("one", 0.2, 0.5, 0.4), attended("two", 1.0, 1.6, 0.1))
    assert play.round(5).goes_on
    assert play.plan(6).window.start == pytest.approx(1.2 * S, abs=320)


def test_a_window_that_begins_anew_is_not_cut_short_for_its_length() -> None:
    play = Play(AlignAtt(truncate="none", reopen_s=1.2, memory="words", window_s=3.0))
    play.round(2, attended("one", 0.2, 0.8, 0.8))
    assert play.round(12).goes_on
    assert play.plan(13).window.start == S


def test_a_window_without_speech_is_nothing_to_begin_anew_for() -> None:
    play = Play(AlignAtt(truncate="none", reopen_s=1.2))
    play.round(2, word("one", 0.2, 0.8))
    plan = play.plan(4)
    silence = HeardWords(frames=len(plan.window) // 320, no_speech_prob=0.95)
    assert not play.policy.apply(play.state, RoundResult(plan, silence)).goes_on


def test_only_once_after_the_words_that_were_forced() -> None:
    """A model that says the same of any silence would be asked again and again."""
    play = Play(AlignAtt(truncate="none", reopen_s=0.5))
    play.round(1, word("one", 0.2, 0.8))
    assert play.round(9, is_last=True).goes_on
    assert not play.round(9, word("you", 1.1, 1.4), is_last=True).goes_on


def test_where_nothing_was_said_there_is_nothing_to_begin_after() -> None:
    play = Play(AlignAtt(reopen_s=1.2))
    assert not play.round(3).goes_on
    assert play.plan(4).window.start == 0


def test_the_last_round_hears_no_guess() -> None:
    """All that it hears is confirmed."""
    play = Play(AlignAtt(margin_s=0.24, margin_last_s=0.04, backward_s=0.06, beyond=9, attention_floor=0.2))
    assert watch(play.plan(1)) == Frontier(margin=12, rewind=200, last_frame=-200, beyond=9, back=3, floor=0.2)
    last = Frontier(margin=2, rewind=200, last_frame=-200, back=3, floor=0.2)
    assert watch(play.plan(1, is_last=True)) == last


@pytest.mark.parametrize("is_last", [False, True])
def test_words_said_again_end_a_round_the_last_one_too(is_last: bool) -> None:
    """Three words attend further and further on, then the decoder says the second one again."""
    plan = Play(AlignAtt(margin_s=0.24, margin_last_s=0.04, backward_s=0.06)).plan(3, is_last=is_last)
    model: Any = SimpleNamespace(alignment_heads=((0, 0), (0, 1)), dims=DIMS)
    guard = watch(plan).guard(scene(FRAMES), model)
    assert asked(guard, [1, 2, 3, 2], [0, 20, 50, 80, 50], FRAMES) == 3
    assert guard.halt == Halt("backward-shift", 3, 2)


def test_what_shifts_backward_in_the_last_round_is_heard_again() -> None:
    """What is dropped there is lost, and a guard may err."""

    def again(policy: AlignAtt, *, is_last: bool) -> object:
        plan = Play(policy).plan(1, is_last=is_last)
        assert isinstance(plan.hearing, SinglePass)
        return plan.hearing.again

    # There only long jumps are believed, and of punctuation none.
    last = Frontier(margin=4, rewind=200, last_frame=-200, back=200, words_only=True)
    assert again(AlignAtt(backward_s=0.06), is_last=True) == (last,)
    assert again(AlignAtt(backward_s=0.06), is_last=False) is None
    assert again(AlignAtt(), is_last=True) is None  # nothing watches for it


def test_with_the_guard_for_short_windows_every_round_is_heard_again() -> None:
    policy = AlignAtt(backward_s=0.06, shift_guard=True)
    for is_last in (False, True):
        listen = Play(policy).plan(1, is_last=is_last).hearing
        assert isinstance(listen, SinglePass)
        assert listen.watch[1:] == (BackwardShift(),)
        last = {"back": 200, "words_only": True}
        assert listen.again == (replace(listen.watch[0], **(last if is_last else {})),)  # type: ignore[type-var]


def test_what_the_policy_says_of_listening_is_in_its_plans() -> None:
    policy = AlignAtt(
        margin_s=0.1, margin_last_s=0.02, rewind_s=0.0, backward_s=0.1, attention_floor=0.2, truncate="detector",
        hard_cap_s=11.0, context_tokens=0, beyond=3, loop_guard=False, least_s=0.5, silence_s=0.3, must_speak=True,
        no_speech=0.3, max_tokens=33, static_prompt=False, word_times="attended", heads_first=True,
        rescue_logprob=-0.7, rescue_beam=3,
        shift_guard=True, shift_median=5, shift_average=4, shift_row="fed", shift_from_s=0.3,
    )  # fmt: skip
    rule = Frontier(margin=5, rewind=None, last_frame=0, beyond=3, back=5, floor=0.2)
    assert Play(policy).plan(1).hearing == SinglePass(
        least=8_000, silence=4_800, must_speak=True, no_speech=0.3, loop_guard=False, max_tokens=33,
        context_tokens=0, static_prompt=False, times="attended", heads_first=True, rescue=-0.7, rescue_beam=3,
        watch=(rule, BackwardShift(median=5, average=4, row="fed", search_from=15)), again=(rule,), detect_end=True,
    )  # fmt: skip
    assert Play(policy).policy.limit(policy.start(0)) == 11 * S
    assert Play(AlignAtt()).plan(1).hearing == SinglePass(
        no_speech=0.9, watch=(Frontier(margin=25, rewind=200, last_frame=-200),)
    )


@pytest.mark.parametrize(("memory", "usual"), [("segments", 12.0), ("words", 3.0)])
def test_how_long_windows_usually_get(memory: Any, usual: float) -> None:
    assert AlignAtt(memory=memory, window_s=3.0, hard_cap_s=12.0).usual_s == usual


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(OptionError, match="truncate"):
        AlignAtt(truncate="sometimes")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="memory"):
        AlignAtt(memory="none")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="window_s between 1 and 6; got 7"):
        AlignAtt(window_s=7.0, hard_cap_s=6.0)


# --- a rule that learned ------------------------------------------------------------------------------------------


def heard_with(text: str, start: float, end: float, probability: float) -> TokenWord:
    return TokenWord(Word(f" {text}", round(start * S), round(end * S), probability), (1,), attended=round(end * S))


BY_PROBABILITY = Rule(tuple(10.0 if name == "probability" else 0.0 for name in FEATURES)).text()


def test_with_steadiness_the_rule_decides_and_not_the_thresholds() -> None:
    """Both words lie so near the end, and before the frontier's mark, that the thresholds would hold them."""
    policy = AlignAtt(truncate="last-word", settle_s=2.0, steadiness=0.1, rule=BY_PROBABILITY)
    sure, unsure = heard_with("one", 0.2, 0.6, 0.99), heard_with("game", 0.7, 1.0, 0.5)
    commit = Play(policy).round(1.0, sure, unsure, firm=0)
    assert texts(commit.confirmed) == ["one"]
    assert texts(commit.hypothesis) == ["game"]
    assert texts(Play(replace(policy, steadiness=0.0)).round(1.0, sure, unsure, firm=0).confirmed) == []


def test_the_delay_decides_how_long_a_word_waits() -> None:
    likely = heard_with("one", 0.2, 0.6, 0.95)
    soon, late = (AlignAtt(rule=BY_PROBABILITY, delay_s=delay) for delay in (SOONEST_S, LATEST_S))
    assert texts(Play(soon).round(1.0, likely, firm=0).confirmed) == ["one"]
    assert texts(Play(late).round(1.0, likely, firm=0).confirmed) == []
    assert soon.patience == patience(SOONEST_S)
    assert AlignAtt(steadiness=0.1, settle_s=2.0).patience == Patience(0.1, 2.0)


def test_a_word_that_is_known_to_go_on_waits_whatever_the_rule_says() -> None:
    policy = AlignAtt(steadiness=0.1, rule=BY_PROBABILITY)
    words = (heard_with("one", 0.2, 0.6, 0.99), heard_with("work", 0.7, 1.0, 0.99))
    assert texts(Play(policy).round(1.0, *words, ended=False).confirmed) == ["one"]
    assert texts(Play(policy).round(1.0, *words).confirmed) == ["one", "work"]


def test_a_calm_guess_changes_what_is_shown_and_not_what_is_confirmed() -> None:
    loud, calm = AlignAtt(rule=BY_PROBABILITY), AlignAtt(calm=0.7, rule=BY_PROBABILITY)
    rounds = [
        (1.0, [heard_with("a", 0.2, 0.4, 0.9), heard_with("large", 0.5, 0.9, 0.3)]),
        (1.3, [heard_with("a", 0.2, 0.4, 0.9), heard_with("game", 0.5, 0.9, 0.9)]),
        (1.6, [heard_with("a", 0.2, 0.4, 0.9), heard_with("bird", 0.5, 0.9, 0.4)]),
    ]
    plays = [Play(loud), Play(calm)]
    seen = []
    for end, words in rounds:
        plain, quiet = (play.round(end, *words, firm=0) for play in plays)
        assert plain.confirmed == quiet.confirmed
        seen.append((texts(plain.hypothesis), texts(quiet.hypothesis)))
    assert seen == [(["a", "large"], ["a"]), (["a", "game"], ["a", "game"]), (["a", "bird"], ["a", "game"])]
    last = [play.round(2.0, heard_with("bird", 0.5, 0.9, 0.4), is_last=True) for play in plays]
    assert last[0] == last[1]
    assert last[1].hypothesis == ()
