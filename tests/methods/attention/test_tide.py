"""The rules of `tide`, one by one, on results that are written down."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from attention_ramps import asked, scene
from policy_rounds import S, check_unheard_audio_goes, hearing, texts, watch, word, word_after_word
from tide_play import BY_PROBABILITY, FRAMES, Play, tide
from whispertide.decoding.draft import Reference
from whispertide.decoding.guards import Frontier, Halt
from whispertide.decoding.token_words import TokenWord
from whispertide.errors import OptionError
from whispertide.methods.attention.backward_shift import BackwardShift
from whispertide.methods.attention.delay import LATEST_S, SOONEST_S, Patience
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.methods.attention.steadiness import read_curve
from whispertide.methods.attention.tide import Tide
from whispertide.streaming.round import Commit
from whispertide.streaming.searches import Beam, Greedy, Search, Verified
from whispertide.types import Word

DIMS = SimpleNamespace(n_text_layer=1, n_text_head=2)


def test_words_after_the_frontier_are_a_guess_that_can_be_verified() -> None:
    play = Play(tide(lookahead_tokens=9), search=Verified(beam=1))
    words = (word("one", 0.2, 0.5, 11), word("two", 0.6, 1.0, 12), word("three", 1.1, 1.4, 13))
    commit = play.round(1.5, *words, firm=1, halt=Halt("frontier", 1, 12), last_frame=40)
    assert (texts(commit.confirmed), texts(commit.hypothesis)) == (["one"], ["two", "three"])
    plan = play.plan(2)
    assert plan.reference == Reference.exactly((12, 13))
    unverified = Play(tide(lookahead_tokens=9))
    assert unverified.plan(1).reference is None
    unverified.round(1.5, *words, firm=1)
    assert unverified.plan(2).reference is None
    assert Play(tide(), search=Verified(beam=1)).plan(1).reference is None


@pytest.mark.parametrize("search", [Beam(), Verified(beam=2)])
def test_several_hypotheses_have_no_guess_and_nothing_to_verify(search: Search) -> None:
    play = Play(tide(lookahead_tokens=9), search=search)
    assert watch(play.plan(1)).lookahead_tokens == 0
    play.round(1.5, word("one", 0.2, 0.5, 11), word("two", 0.6, 1.0, 12), firm=1)
    assert texts(word.word for word in play.state.guess) == ["two"]
    assert play.plan(2).reference is None
    play.search = Greedy()
    assert watch(play.plan(2)).lookahead_tokens == 9


def test_a_short_window_keeps_a_few_words_in_front_of_what_is_new() -> None:
    play = Play(tide(window_s=4.0, carry=2))
    for second in range(1, 6):
        play.round(second, word(f"w{second}", second - 0.9, second - 0.6, second))
    assert play.plan(6).prefix == (4, 5)
    assert play.state.start == pytest.approx(3.0 * S, abs=320)


def test_silence_is_let_go_of() -> None:
    play = Play(tide(window_s=4.0, margin_s=0.2))
    for second in range(1, 30):
        play.round(second)
        assert second * S - play.state.start <= 4 * S


def test_audio_in_which_nothing_was_heard_yet_stays_for_a_while() -> None:
    """The margin, and a second more."""
    play = Play(tide(window_s=1.0, margin_s=0.2))
    for second in range(1, 5):
        play.round(second)
    assert play.state.start == 4 * S - 3_200 - S


@pytest.mark.parametrize(("end", "start"), [(7.1, 2.4), (7.3, 3.3)])
def test_a_cut_in_a_pause_keeps_away_from_the_word_before_it(end: float, start: float) -> None:
    """By a fifth of a second, or else the word stays, too."""
    play = Play(tide(window_s=4.0, margin_s=0.2))
    play.round(3.5, word("no", 0.5, 0.9), word("one", 2.5, 3.0))
    play.round(end)
    assert play.state.start == pytest.approx(start * S, abs=320)
    assert play.state.context == (" no one" if start > 3 else " no")


@pytest.mark.parametrize(("context", "prompt"), [(12 * " so i", ""), (12 * " so I" + " do.", 12 * " so I" + " do.")])
def test_a_context_without_sentences_is_not_given(context: str, prompt: str) -> None:
    """Whisper would go on like it: dictation in small letters and without marks until the turn ends."""
    policy = tide()
    state = replace(policy.start(0), context=context)
    assert policy.plan(state, S, search=Greedy(), round_id=0, is_last=False).prompt == prompt


def test_as_many_words_as_are_carried_are_enough_to_cut_in_front_of() -> None:
    play = Play(tide(window_s=4.0, carry=2, margin_s=0.5))
    play.round(6, word("one", 5.0, 5.3), word("two", 5.5, 5.8))
    assert play.state.start == round(4.5 * S)  # what lies within the margin and a second stays in any case


def test_audio_of_an_unconfirmed_word_stays() -> None:
    play = Play(tide(window_s=2.0, hard_cap_s=20.0))
    for second in range(2, 10):
        play.round(second, word("slow", 1.0, 1.5), firm=0)
        assert play.state.start <= 1.0 * S


def test_a_full_window_confirms_the_older_part_of_the_guess() -> None:
    play = Play(tide(window_s=2.0, hard_cap_s=8.0))
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
    play = Play(tide(window_s=2.0, hard_cap_s=8.0, **settings))
    loop = [word("you", 0.2 + n * 0.3, 0.4 + n * 0.3) for n in range(20)]
    play.round(3, *loop[:8], firm=0)
    return play, play.round(7.5, *loop, word("know", 7.0, 7.3), firm=0)


def test_what_a_full_window_confirms_has_no_loops() -> None:
    assert len(full(loop_guard=False)[1].confirmed) > 6
    assert len(full()[1].confirmed) == 6  # so many may have been said


def test_what_a_full_window_confirms_is_no_longer_shown_as_a_guess() -> None:
    play, commit = full(loop_guard=False, min_shown_probability=0.01)
    assert commit.confirmed
    assert all(guess.start >= commit.confirmed[-1].start for guess in commit.hypothesis)
    assert play.state.shown == commit.hypothesis


def test_what_one_round_alone_has_failed_to_hear_stays() -> None:
    """A shift backward leaves the rest of a window unheard, which is long where audio came late or all at once."""
    play = Play(tide(window_s=5))
    halt = Halt("backward-shift", 2, 7)
    play.round(20, word("one", 0.2, 0.5), word("two", 0.6, 1.0), halt=halt)
    assert play.plan(20.4).window.start <= 1.2 * S
    play.round(20.4, halt=halt)  # nor does the next: a second of it goes, and then another
    assert play.plan(20.8).window.start == pytest.approx(2.2 * S, abs=960)
    play.round(20.8, halt=halt)
    assert play.plan(21.2).window.start == pytest.approx(3.2 * S, abs=960)


@pytest.mark.parametrize("stop", ["guard", "length", "end_of_text"])
def test_silence_is_let_go_of_whatever_ended_its_text(stop: Any) -> None:
    play = Play(tide(window_s=5, no_speech=0.9))
    play.apply(play.plan(12), HeardWords((), 0, None, None, stop=stop, no_speech_prob=0.95))
    assert play.state.start >= 7 * S - 320


def test_what_a_text_that_is_too_long_does_not_reach_stays() -> None:
    play = Play(tide(window_s=5))
    plan = play.plan(20)
    play.apply(plan, HeardWords((word("one", 0.2, 0.5),), 1, None, None, len(plan.window) // 320, stop="length"))
    assert play.plan(20.4).window.start <= 0.7 * S


def test_a_short_window_leaves_an_eighth_of_the_longest_free_however_short_the_steps_are() -> None:
    play = Play(tide(window_s=2.0, hard_cap_s=8.0))
    held = word("slow", 0.5, 0.7), word("slower", 3.0, 3.3)
    for quarter in range(4, 60):
        play.round(quarter / 4, *(item for item in held if item.start >= play.state.start), firm=0)
        assert quarter / 4 * S - play.state.start <= 7 * S


def test_late_rounds_are_cheaper_in_declared_steps() -> None:
    play = Play(tide(window_s=6.0, lookahead_tokens=9, rescue_logprob=-1.0, overload_s=1.0))
    levels = []
    end = 0.0
    for load in (0.0, 0.3, 0.6, 1.1, 2.1, 0.3):
        end += 3.0
        plan = play.plan(end, load=load)
        assert watch(plan).lookahead_tokens == (0 if load > 1 else 9)
        assert hearing(plan).rescue == (None if load > 0.5 else -1.0)
        words = [word("a", end - 0.8, end - 0.5, 1), word("b", end - 0.4, end - 0.1, 2)]
        levels.append(play.round(end, *words, load=load).level)
    assert levels == [0, 0, 1, 2, 3, 0]
    assert [tide(overload_s=1.0).level(round(load * S)) for load in (0.5, 0.51, 1.0, 2.0)] == [0, 1, 1, 2]
    assert tide(overload_s=0.0).level(60 * S) == 0


def test_a_very_late_round_leaves_one_word_in_the_window() -> None:
    play = Play(tide(window_s=9.0, overload_s=1.0))
    for end in (1.0, 1.5, 2.0):
        play.round(end, word("a", end - 0.4, end - 0.1))
    assert len(play.state.words) == 3
    play.round(4.5, word("b", 4.0, 4.2), load=2.5)
    assert len(play.state.words) == 1


def test_the_last_round_hears_no_guess() -> None:
    """All that it hears is confirmed."""
    play = Play(tide(margin_s=0.24, margin_last_s=0.04, backward_s=0.06, lookahead_tokens=9, attention_floor=0.2))
    assert watch(play.plan(1)) == Frontier(
        margin=12, rewind=200, last_frame=-200, lookahead_tokens=9, back=3, floor=0.2
    )
    last = Frontier(margin=2, rewind=200, last_frame=-200, back=3, floor=0.2)
    assert watch(play.plan(1, is_last=True)) == last


@pytest.mark.parametrize("is_last", [False, True])
def test_words_said_again_end_a_round_the_last_one_too(is_last: bool) -> None:
    """Three words attend further and further on, then the decoder says the second one again."""
    plan = Play(tide(margin_s=0.24, margin_last_s=0.04, backward_s=0.06)).plan(3, is_last=is_last)
    model: Any = SimpleNamespace(alignment_heads=((0, 0), (0, 1)), dims=DIMS)
    guard = watch(plan).guard(scene(FRAMES), model)
    assert asked(guard, [1, 2, 3, 2], [0, 20, 50, 80, 50], FRAMES) == 3
    assert guard.halt == Halt("backward-shift", 3, 2)


def test_what_shifts_backward_in_the_last_round_is_heard_again() -> None:
    """What is dropped there is lost, and a guard may err."""

    def again(policy: Tide, *, is_last: bool) -> object:
        plan = Play(policy).plan(1, is_last=is_last)
        assert isinstance(plan.hearing, SinglePass)
        return plan.hearing.again

    # There only long jumps are believed, and of punctuation none.
    last = Frontier(margin=4, rewind=200, last_frame=-200, back=200, words_only=True)
    assert again(tide(backward_s=0.06), is_last=True) == (last,)
    assert again(tide(backward_s=0.06), is_last=False) is None
    assert again(tide(), is_last=True) is None  # nothing watches for it


def test_with_the_guard_for_short_windows_every_round_is_heard_again() -> None:
    policy = tide(backward_s=0.06, shift_guard=True)
    for is_last in (False, True):
        listen = Play(policy).plan(1, is_last=is_last).hearing
        assert isinstance(listen, SinglePass)
        assert listen.watch[1:] == (BackwardShift(),)
        last = {"back": 200, "words_only": True}
        assert listen.again == (replace(listen.watch[0], **(last if is_last else {})),)  # type: ignore[type-var]


def heard_with(text: str, start: float, end: float, probability: float) -> TokenWord:
    return TokenWord(Word(f" {text}", round(start * S), round(end * S), probability), (1,), attended=round(end * S))


def test_the_rule_decides_and_not_the_frontier() -> None:
    """Both words lie so near the end that the frontier would hold them."""
    policy = tide(settle_s=2.0, max_revision_rate=0.1, rule=BY_PROBABILITY)
    sure, unsure = heard_with("one", 0.2, 0.6, 0.99), heard_with("game", 0.7, 1.0, 0.5)
    commit = Play(policy).round(1.0, sure, unsure, firm=0)
    assert texts(commit.confirmed) == ["one"]
    assert texts(commit.hypothesis) == ["game"]
    assert texts(Play(tide()).round(1.0, sure, unsure, firm=0).confirmed) == []


def test_the_delay_decides_how_long_a_word_waits() -> None:
    likely = heard_with("one", 0.2, 0.6, 0.95)
    soon, late = (tide(rule=BY_PROBABILITY, delay_s=delay) for delay in (SOONEST_S, LATEST_S))
    assert texts(Play(soon).round(1.0, likely, firm=0).confirmed) == ["one"]
    assert texts(Play(late).round(1.0, likely, firm=0).confirmed) == []
    assert soon.patience == read_curve("general").patience(SOONEST_S)
    assert tide(rule="base", delay_s=1.0).patience == read_curve("base").patience(1.0)
    assert tide(max_revision_rate=0.1, settle_s=2.0).patience == Patience(0.1, 2.0)


def test_a_word_that_is_known_to_go_on_waits_whatever_the_rule_says() -> None:
    policy = tide(max_revision_rate=0.1, rule=BY_PROBABILITY)
    words = (heard_with("one", 0.2, 0.6, 0.99), heard_with("work", 0.7, 1.0, 0.99))
    assert texts(Play(policy).round(1.0, *words, ended=False).confirmed) == ["one"]
    assert texts(Play(policy).round(1.0, *words).confirmed) == ["one", "work"]


def test_a_calm_guess_changes_what_is_shown_and_not_what_is_confirmed() -> None:
    loud = tide(rule=BY_PROBABILITY, max_revision_rate=0.0)
    calm = replace(loud, min_shown_probability=0.7)
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


def test_where_in_the_stream_it_is_said_does_not_matter() -> None:
    found = [word_after_word(Play(tide(window_s=3.0, hard_cap_s=9.0), at * S), at) for at in (0, 1024)]
    assert found[0] == found[1]


@pytest.mark.parametrize("step", [0.4, 1.0, 1.2, 2.0, 5.0])
def test_unheard_audio_goes_little_by_little_however_long_the_steps_are(step: float) -> None:
    lengths = check_unheard_audio_goes(Play(tide(hard_cap_s=20)), step, 20)
    assert lengths[-1] <= 7.1 or step > 2, "what comes in goes"


def test_what_the_policy_says_of_listening_is_in_its_plans() -> None:
    policy = tide(
        margin_s=0.1, margin_last_s=0.02, rewind_s=0.0, backward_s=0.1, attention_floor=0.2, hard_cap_s=11.0,
        context_tokens=0, lookahead_tokens=3, loop_guard=False, silence_s=0.3, short_s=0.7, no_speech=0.3,
        max_tokens=33, static_prompt=False, word_times="attended", rescue_logprob=-0.7, rescue_beam=3,
        shift_guard=True,
    )  # fmt: skip
    rule = Frontier(margin=5, rewind=None, last_frame=0, lookahead_tokens=3, back=5, floor=0.2)
    assert Play(policy).plan(1).hearing == SinglePass(
        silence=4_800, short=11_200, no_speech=0.3, loop_guard=False, max_tokens=33, context_tokens=0,
        static_prompt=False, times="attended", rescue=-0.7, rescue_beam=3, watch=(rule, BackwardShift()),
        again=(rule,),
    )  # fmt: skip
    assert Play(policy).policy.limit(policy.start(0)) == 11 * S
    assert Play(tide()).plan(1).hearing == SinglePass(
        no_speech=0.9, watch=(Frontier(margin=25, rewind=200, last_frame=-200),)
    )


def test_windows_usually_get_as_long_as_is_asked_for() -> None:
    assert tide(window_s=3.0, hard_cap_s=12.0).usual_s == 3.0
    with pytest.raises(OptionError, match="window_s between 1 and 6; got 7"):
        tide(window_s=7.0, hard_cap_s=6.0)
