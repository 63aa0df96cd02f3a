"""Every rule of LocalAgreement by scripted hypotheses."""

import pytest

from oracle import speech
from scripted_agreement import WALK, Script, feed, loop, many, segment, texts
from whispertide.errors import OptionError
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.agreement.whole_window import HeardSegments, WholeWindow
from whispertide.streaming.repetition import normalise
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.types import SAMPLE_RATE, Span, Word

S = SAMPLE_RATE


# --- agreement ------------------------------------------------------------------------------------------------------


def test_a_prefix_is_confirmed_when_it_is_heard_the_second_time() -> None:
    script = Script()
    first = script.hear(1.7, WALK)
    assert (texts(first.confirmed), texts(first.hypothesis)) == ("", "We walk home")
    second = script.hear(2.5, (*WALK[:2], *speech(("hole", 1.2, 1.6), ("now", 1.7, 2.2))))
    assert (texts(second.confirmed), texts(second.hypothesis)) == ("We walk", "hole now")
    third = script.hear(3.5, (*WALK[:2], *speech(("hole", 1.2, 1.6), ("then", 1.7, 2.2))))
    assert (texts(third.confirmed), texts(third.hypothesis)) == ("hole", "then")


def test_an_unlikely_word_near_the_end_is_not_confirmed_by_agreement_alone() -> None:
    script = Script(LocalAgreement(least_probability=0.5, settle_s=1.0))
    sure, unlikely = speech(("We", 0.5, 0.8))[0], Word(" wall", round(0.8 * S), round(1.2 * S), probability=0.4)
    script.hear(1.3, (sure, unlikely))
    assert texts(script.hear(1.4, (sure, unlikely)).confirmed) == "We"
    assert texts(script.hear(2.1, (sure, unlikely)).confirmed) == ""
    assert texts(script.hear(2.3, (sure, unlikely)).confirmed) == "wall"
    script = Script(LocalAgreement(least_probability=0.5, settle_s=1.0))
    script.hear(1.3, (unlikely,))
    assert texts(script.hear(1.4, (unlikely,), is_last=True).confirmed) == "wall"


@pytest.mark.parametrize(("before", "now", "confirmed"), [(0.4, 0.6, "wall"), (0.6, 0.4, "")])
def test_the_probability_of_the_new_copy_counts(before: float, now: float, confirmed: str) -> None:
    script = Script(LocalAgreement(least_probability=0.5, settle_s=1.0))
    heard = [Word(" wall", round(0.8 * S), round(1.2 * S), probability=each) for each in (before, now)]
    script.hear(1.3, (heard[0],))
    assert texts(script.hear(1.4, (heard[1],)).confirmed) == confirmed


def test_the_new_copy_counts() -> None:
    script = Script()
    script.hear(1.7, speech(("we", 0.4, 0.7)))
    assert script.hear(2.5, speech(("We,", 0.5, 0.8))).confirmed == speech(("We,", 0.5, 0.8))
    assert script.state.last_time == round(0.8 * S)


@pytest.mark.parametrize(
    ("a", "b"), [("the", "The,"), ("don't", "Dont"), ("naïve", "NAÏVE."), ("2", "２"), ("Straße", "STRASSE")]
)
def test_case_width_and_punctuation_do_not_count(a: str, b: str) -> None:
    script = Script()
    script.hear(1.0, speech((a, 0.5, 0.8)))
    assert texts(script.hear(2.0, speech((b, 0.5, 0.8))).confirmed) == b
    exact = Script(LocalAgreement(compare="exact"))
    exact.hear(1.0, speech((a, 0.5, 0.8)))
    assert exact.hear(2.0, speech((b, 0.5, 0.8))).confirmed == ()


def test_marks_that_make_another_letter_count() -> None:
    assert normalise("हिन्दी") == "हिन्दी"
    assert normalise("é") == normalise("e\u0301") != normalise("e")


def test_three_rounds_agree_where_three_must() -> None:
    script = Script(LocalAgreement(agreement=3))
    assert script.hear(1.7, WALK[:2]).confirmed == ()
    assert script.hear(2.7, WALK).confirmed == ()
    assert texts(script.hear(3.7, WALK).confirmed) == "We walk"
    assert texts(script.hear(4.7, WALK).confirmed) == "home"


def test_confirmed_words_are_not_confirmed_again() -> None:
    script = Script()
    for end in (1.7, 2.7):
        script.hear(end, WALK)
    for end in (3.7, 4.7, 5.7):
        assert script.hear(end, WALK) == Commit((), (), 0)


@pytest.mark.parametrize("boundary", ["align", "time"])
def test_a_boundary_that_is_repeated_is_removed(boundary: str) -> None:
    script = Script(LocalAgreement(boundary=boundary))  # type: ignore[arg-type]
    script.hear(1.7, WALK)
    script.hear(2.7, WALK)
    # "walk home" comes again, its times just after the confirmed end.
    late = speech(("walk", 1.55, 1.7), ("home", 1.7, 1.9), ("now", 1.9, 2.3))
    assert texts(script.hear(3.7, late).hypothesis) == "now"


def test_a_word_said_twice_is_confirmed_twice() -> None:
    no = speech(("No,", 0.5, 0.8), ("no,", 0.9, 1.2), ("no!", 1.3, 1.6))
    script = Script()
    script.hear(0.9, no[:1])
    assert texts(script.hear(1.3, no[:2]).confirmed) == "No,"
    assert texts(script.hear(1.7, no).confirmed) == "no,"
    assert texts(script.hear(2.7, no).confirmed) == "no!"


def test_segments_that_are_probably_silence_are_dropped() -> None:
    script = Script()
    words = script.hear(2.0, segment(WALK[:1], 0.9), segment(WALK[1:], 0.91)).hypothesis
    assert texts(words) == "We"
    assert texts(script.hear(2.5, segment(WALK[:1], float("nan"))).confirmed) == "We"


def test_words_without_text_are_ignored() -> None:
    assert Script().hear(1.0, (Word(" ", 0, 10), Word("", 10, 20))).hypothesis == ()


# --- the last round -------------------------------------------------------------------------------------------------


def test_the_last_round_confirms_everything() -> None:
    script = Script()
    script.hear(1.7, WALK)
    last = script.hear(2.6, (*WALK, *speech(("alone.", 1.9, 2.4))), is_last=True)
    assert (texts(last.confirmed), last.hypothesis) == ("We walk home alone.", ())


def test_the_last_round_confirms_no_word_twice() -> None:
    script = Script()
    script.hear(1.7, WALK)
    script.hear(2.0, WALK)
    assert script.hear(2.2, WALK, is_last=True).confirmed == ()


def test_a_new_utterance_starts_from_nothing() -> None:
    script = Script(at=1000)
    assert (script.state.start, script.state.last_time) == (960, 1000)
    assert script.policy.prompt(script.state) == ""
    script.hear(2.0, WALK)
    assert script.plan is not None
    assert script.plan.window == Span(960, 2 * S)


@pytest.mark.parametrize(
    ("chars", "prompt"), [(0, ""), (1, "w6"), (3, "w6"), (4, "w5 w6"), (6, "w5 w6"), (7, "w4 w5 w6")]
)
def test_the_prompt_is_as_long_as_is_asked_for_and_no_longer(chars: int, prompt: str) -> None:
    script = Script(LocalAgreement(prompt_chars=chars))
    for end in (7, 8):
        script.hear(end, many(7))
    script.state.start = 7 * S
    assert script.policy.prompt(script.state) == prompt  # a word is two characters and a space


def test_silence_without_end_is_let_go() -> None:
    script = Script()
    for end in range(1, 29):
        script.hear(end)
    assert script.state.start == 21 * S


@pytest.mark.parametrize("word", [(0.0, 28.0), (0.1, 0.3), (27.0, 28.0), (3.4, 28.0)])
def test_the_cap_makes_room_whatever_is_heard(word: tuple[float, float]) -> None:
    script = Script()
    commit = script.hear(28, speech(("aaah", *word)))
    assert script.state.start >= 3.4 * S
    assert commit.confirmed or script.state.start <= word[0] * S


# --- the prompt -----------------------------------------------------------------------------------------------------


def talked(policy: LocalAgreement | None = None) -> Script:
    """40 s of talk, all of it confirmed."""
    script = Script(policy or LocalAgreement())
    feed(script, many(80, text="word"))
    return script


def test_the_prompt_is_what_was_said_before_the_window() -> None:
    script = talked()
    before = [w.text for w in many(80, text="word") if w.end <= script.state.start + 320]
    prompt = script.policy.prompt(script.state)
    assert prompt.split() == [text.strip() for text in before][-len(prompt.split()) :]
    in_window = [kept.word.text.strip() for kept in script.state.confirmed if kept.word.end > script.state.start + 320]
    assert in_window
    assert not set(in_window) & set(prompt.split())


def test_the_prompt_has_whole_words_and_just_enough_of_them() -> None:
    prompt = talked().policy.prompt(talked().state)
    assert 200 <= len(prompt) + 1 < 200 + len(" word70") + 1
    assert Script().policy.prompt(Script().state) == ""
    assert talked(LocalAgreement(prompt_chars=0)).policy.prompt(talked().state) == ""


def test_the_plan_carries_prompt_window_and_purpose() -> None:
    script = talked()
    plan = script.planned(41, round_id=7, is_last=True)
    assert plan == RoundPlan(
        7, Span(script.state.start, 41 * S), WholeWindow(), prompt=script.policy.prompt(script.state), is_last=True
    )


def test_a_loop_is_cut_down_before_it_is_confirmed_and_never_becomes_prompt() -> None:
    script = Script(LocalAgreement(trim_s=6.0))
    talk = many(6)
    confirmed: list[Word] = []
    for end in range(4, 27):
        start = script.state.start
        heard = [w for w in (*talk, *loop(3, 22)) if w.start >= start and w.end <= end * S]
        assert "thank" not in script.policy.prompt(script.state)
        confirmed += script.hear(end, *((word,) for word in heard)).confirmed
    assert texts(tuple(confirmed)).count("thank you") == 4
    assert texts(tuple(confirmed)).startswith("w0 w1 w2 w3 w4 w5 thank you")


def test_without_the_guard_loops_are_confirmed() -> None:
    script = Script(LocalAgreement(loop_guard=False))
    script.hear(12, loop(0, 10))
    assert texts(script.hear(13, loop(0, 10)).confirmed).count("thank you") == 10


# --- state ----------------------------------------------------------------------------------------------------------


def test_a_copy_of_the_state_is_independent() -> None:
    script = talked()
    copy = script.state.copy()
    assert copy == script.state
    script.hear(41, many(3, start=40, text="x"))
    script.hear(42, many(3, start=40, text="x"))
    assert copy != script.state


def test_planning_leaves_the_state_alone() -> None:
    script = talked()
    copy = script.state.copy()
    script.planned(41, is_last=True)
    assert copy == script.state


@pytest.mark.slow
def test_the_state_stays_small() -> None:
    script = Script()
    feed(script, many(2000), step=5.0)
    assert len(script.state.confirmed) < 200


def test_a_late_result_of_an_older_window_adds_nothing_twice() -> None:
    script = Script(LocalAgreement(trim_s=6.0))
    words = many(30)
    script.hear(8, words[:16])
    plan = script.planned(9, round_id=9)
    script.hear(8.5, words[:8], words[8:17])  # cuts the window while `plan` is in flight
    assert script.state.start > plan.window.start
    commit = script.policy.apply(script.state, RoundResult(plan, HeardSegments((segment(words[:18]),))))
    assert texts(commit.confirmed) == "w16"
    assert texts(commit.hypothesis) == "w17"


@pytest.mark.parametrize("name", ["compare", "boundary", "trim"])
def test_unknown_choices_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"expected {name} to be one of"):
        LocalAgreement(**{name: "maybe"})  # type: ignore[arg-type]
