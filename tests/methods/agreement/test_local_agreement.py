"""Every rule of LocalAgreement by scripted hypotheses."""

from dataclasses import dataclass, field, replace

import pytest

from each_row import each_row
from oracle import speech
from whispertide.decoding.draft import Reference
from whispertide.errors import OptionError
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.agreement.whole_window import HeardSegment, HeardSegments, WholeWindow
from whispertide.streaming.repetition import normalise
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Beam, Greedy, Pruned, Search, Verified
from whispertide.streaming.trimming import MARGIN
from whispertide.types import SAMPLE_RATE, Span, Word

S = SAMPLE_RATE
WALK = speech(("We", 0.5, 0.8), ("walk", 0.8, 1.2), ("home", 1.2, 1.6))


def segment(words: tuple[Word, ...], no_speech_prob: float = 0.0, end: int | None = None) -> HeardSegment:
    start = words[0].start if words else 0
    return HeardSegment(Span(start, max(start, end or (words[-1].end if words else 0))), words, no_speech_prob)


@dataclass
class Script:
    """Feeds a policy one scripted result after the other."""

    policy: LocalAgreement = field(default_factory=LocalAgreement)
    search: Search = field(default_factory=Beam)
    at: int = 0
    rounds: int = 0
    plan: RoundPlan | None = None

    def __post_init__(self) -> None:
        self.state = self.policy.start(self.at)

    def planned(self, end: float, *, round_id: int = 99, is_last: bool = False) -> RoundPlan:
        at = round(end * S)
        return self.policy.plan(self.state, at, search=self.search, round_id=round_id, is_last=is_last)

    def hear(self, end: float, *segments: HeardSegment | tuple[Word, ...], is_last: bool = False) -> Commit:
        self.plan = self.planned(end, round_id=self.rounds, is_last=is_last)
        self.rounds += 1
        heard = tuple(item if isinstance(item, HeardSegment) else segment(item) for item in segments)
        return self.policy.apply(self.state, RoundResult(self.plan, HeardSegments(heard)))


def texts(words: tuple[Word, ...]) -> str:
    return "".join(word.text for word in words).strip()


def many(count: int, start: float = 0.0, length: float = 0.5, text: str = "w") -> tuple[Word, ...]:
    """`count` different words without pauses."""
    return speech(*((f"{text}{i}", start + i * length, start + (i + 1) * length) for i in range(count)))


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


@each_row(("a", "b"), [("the", "The,"), ("don't", "Dont"), ("naïve", "NAÏVE."), ("2", "２"), ("Straße", "STRASSE")])
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


# --- trimming -------------------------------------------------------------------------------------------------------


def feed(
    script: Script, words: tuple[Word, ...], *, per_segment: int = 4, upto: int | None = None, step: float = 1.0
) -> None:
    """Rounds every `step` seconds in which all that was said in the window is heard."""
    end = step
    while end <= (upto or words[-1].end) / S:
        start = script.state.start
        heard = [w for w in words if start <= w.start and w.end <= end * S]
        script.hear(end, *(tuple(heard[i : i + per_segment]) for i in range(0, len(heard), per_segment)))
        end += step


def test_a_long_window_is_cut_at_a_confirmed_segment_end() -> None:
    script = Script()
    feed(script, many(30))
    assert script.state.start == 0  # 15 s are not too long
    words = many(32)
    script.hear(16, words[:10], words[10:24], words[24:])
    assert script.state.start == 12 * S


def test_the_cut_is_a_whole_frame_and_not_after_the_segment() -> None:
    script = Script()
    words = many(32, start=0.01)
    feed(script, words[:30])
    script.hear(16.5, words[:24], words[24:])
    assert script.state.start % 320 == 0
    assert 0 <= words[23].end - script.state.start < 320


def test_nothing_is_cut_without_a_second_segment_or_a_confirmed_word() -> None:
    script = Script()
    feed(script, many(40), per_segment=100)
    assert script.state.start == 0
    script = Script()
    for i in range(20):
        script.hear(i + 1.0, many(4, text=f"x{i}"), many(2 * i, start=2, text=f"y{i}"))
    assert script.state.start == 0


def test_a_cut_never_reaches_unconfirmed_words_nor_the_last_confirmed_one() -> None:
    script = Script()
    words = many(20)
    script.hear(10, words)
    script.hear(11, words[:12], words[12:])
    assert script.state.confirmed[-1].word == words[19]
    script.hear(16, words, many(10, start=10))
    # The segment ends with the confirmed words: the last of them stays in the window.
    assert script.state.start <= words[19].start - MARGIN
    assert script.state.start > words[18].start


def test_sentences_are_cut_when_something_was_confirmed() -> None:
    script = Script(LocalAgreement(trim="sentence", trim_s=8.0))
    words = list(many(30))
    for i in (5, 11):
        words[i] = Word(words[i].text + ".", words[i].start, words[i].end)
    script.hear(7, tuple(words[:14]))
    script.hear(7.5, tuple(words[:14]))
    assert script.state.start == 0
    script.hear(9, (*words[:14], *many(2, start=7, text="new")))  # confirms nothing
    assert script.state.start == 0
    script.hear(9.5, (*words[:14], *many(1, start=7, text="new")))
    assert script.state.start == 6 * S  # after the second sentence; the third has begun


# --- the hard cap ---------------------------------------------------------------------------------------------------


def test_a_window_in_which_nothing_agrees_is_confirmed_at_the_cap() -> None:
    script = Script()
    for end in range(1, 28):
        commit = script.hear(end, many(2 * end, text=f"r{end}x"))
        assert commit.confirmed == ()
    assert script.policy.limit(script.state) == 28 * S
    words = many(56, text="last")
    commit = script.hear(28, words)
    # All but the last quarter, which may still change; none is lost and none is cut off.
    assert commit.confirmed == words[:42]
    assert commit.hypothesis == words[42:]
    assert commit.keep_from == script.state.start <= words[41].start
    assert script.policy.limit(script.state) > 28 * S
    after = script.hear(29, words[41:])
    assert after.confirmed == words[42:]


def test_the_cap_prefers_a_cut_at_what_is_confirmed() -> None:
    script = Script()
    words = many(20)
    script.hear(10, words)
    script.hear(11, words)
    commit = script.hear(28, (*words, *many(20, start=18, text="new")))
    assert commit.confirmed == ()
    assert words[18].start < script.state.start <= words[19].start


def test_a_full_window_that_a_segments_end_makes_room_in_is_cut_no_further() -> None:
    script = Script(LocalAgreement(trim_s=28.0, hard_cap_s=28.0))  # an eighth of it is room enough: 3.5 s
    first, second = many(7), many(20, start=4.0, text="v")
    for end in (27, 28):
        script.hear(end, segment(first, end=round(3.5 * S)), segment(second))
    assert script.state.start == round(3.5 * S)
    assert len(script.state.confirmed) == 27
    assert script.state.earlier == ((),)


def test_what_turns_out_to_be_a_loop_is_not_trusted_any_more() -> None:
    script = Script()
    for end in (2.0, 3.0):
        script.hear(end, speech(("oh", 0.2, 0.5), ("no", 0.6, 0.9), ("no", 1.0, 1.3)))
    assert [kept.trusted for kept in script.state.confirmed] == [True, True, True]
    script.hear(4.0, speech(("oh", 0.2, 0.5), *(("no", at, at + 0.3) for at in (0.6, 1.0, 2.0, 2.4))))
    assert [kept.trusted for kept in script.state.confirmed] == [True, False, False]


@each_row(("chars", "prompt"), [(0, ""), (1, "w6"), (3, "w6"), (4, "w5 w6"), (6, "w5 w6"), (7, "w4 w5 w6")])
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


# --- loops ----------------------------------------------------------------------------------------------------------


def loop(start: float, copies: int) -> tuple[Word, ...]:
    return speech(
        *(
            (text, start + i + j / 2, start + i + j / 2 + 0.5)
            for i in range(copies)
            for j, text in enumerate(("thank", "you"))
        )
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


# --- what the next round is likely to hear ----------------------------------------------------------------------------

FOLLOWED = Pruned(align="first", recover=False)


def reference(script: Script, end: float) -> Reference | None:
    return script.planned(end).reference


def test_the_next_round_is_told_what_the_last_one_heard() -> None:
    script = Script(search=FOLLOWED)
    assert reference(script, 1.0) is None  # nothing was heard yet
    script.hear(1.7, WALK)
    assert reference(script, 2.5) == Reference((), 0, WALK, align="first", recover=False)
    newer = (*WALK[:2], *speech(("hole", 1.2, 1.6), ("now", 1.7, 2.2)))
    script.hear(2.5, newer)
    told = reference(script, 3.5)
    assert told is not None
    assert told.words == newer


def test_the_next_round_is_told_what_was_heard_even_if_something_else_was_confirmed() -> None:
    script = Script(search=FOLLOWED)
    script.hear(1.7, WALK)
    script.hear(2.0, WALK)
    otherwise = (*WALK[:1], *speech(("quite", WALK[1].start / S, WALK[1].end / S)), *WALK[2:])
    script.hear(2.5, otherwise)
    assert [kept.word for kept in script.state.confirmed][:2] == list(WALK[:2])
    told = reference(script, 3.0)
    assert told is not None
    assert told.words == otherwise


def test_as_published_the_next_round_is_told_what_was_shown() -> None:
    """Confirmed words as they were confirmed, then the newest guess (WhisperFlow)."""
    script = Script(search=replace(FOLLOWED, follows="shown"))
    script.hear(1.7, WALK)
    script.hear(2.0, WALK)
    confirmed = [kept.word for kept in script.state.confirmed]
    assert confirmed
    otherwise = (*speech(("quite", WALK[0].start / S, WALK[0].end / S)), *WALK[1:], *speech(("now", 2.0, 2.3)))
    script.hear(2.5, otherwise)
    told = reference(script, 3.0)
    assert told is not None
    kept = [kept.word for kept in script.state.confirmed]
    assert told.words == (*kept, *script.state.earlier[-1])
    assert told.words[0] == confirmed[0] != otherwise[0]
    assert told.words[-1] == otherwise[-1]
    assert (told.start, told.tokens, told.align, told.recover) == (script.state.start, (), "first", False)


def test_as_published_the_last_confirmed_word_is_always_told() -> None:
    script = Script(search=replace(FOLLOWED, follows="shown"))
    script.hear(1.7, WALK)
    script.hear(2.0, WALK)
    last = script.state.confirmed[-1].word
    script.state.start = 3 * S
    script.state.earlier = ()
    told = reference(script, 4.0)
    assert told is not None
    assert told.words == (last,)


def test_how_to_follow_is_what_the_search_says_now() -> None:
    script = Script(search=Beam())
    script.hear(1.7, WALK)
    assert reference(script, 2.0) is None
    following = {Pruned(align="time"): Reference(align="time"), Verified(): Reference(block=True)}
    for search, how in following.items():
        script.search = search
        told = reference(script, 2.0)
        assert told is not None
        assert told == replace(how, words=WALK)
    script.search = Greedy()
    assert reference(script, 2.0) is None


def test_silence_does_not_forget_what_was_heard() -> None:
    script = Script(search=FOLLOWED)
    script.hear(1.7, WALK)
    script.hear(2.5)
    told = reference(script, 3.0)
    assert told is not None
    assert told.words == WALK


def test_what_breaks_off_is_left_to_the_next_round_if_there_is_one() -> None:
    for policy, expected in ((LocalAgreement(), True), (LocalAgreement(reread=False), False)):
        assert Script(policy).planned(1).hearing == WholeWindow(reread=expected)
        assert Script(policy).planned(1, is_last=True).hearing == WholeWindow()


def test_without_a_search_that_follows_nothing_is_told() -> None:
    script = Script()
    script.hear(1.7, WALK)
    assert reference(script, 2.7) is None


def test_words_before_the_window_are_not_told() -> None:
    script = Script(LocalAgreement(trim_s=4.0), Pruned())
    words = many(12)
    parts = segment(words[:6], end=3 * S), segment(words[6:10], end=5 * S), segment(words[10:], end=6 * S)
    script.hear(6.2, *parts)
    script.hear(6.4, *parts)
    assert 0 < script.state.start <= words[-1].start
    told = reference(script, 7.0)
    assert told is not None
    assert told.words == tuple(word for word in words if word.start + word.end > 2 * script.state.start)
    script.state.start = 7 * S
    assert reference(script, 8.0) is None


def test_a_loop_is_not_told() -> None:
    script = Script(search=FOLLOWED)
    loop = speech(*(("no", i * 0.3, i * 0.3 + 0.3) for i in range(12)))
    script.hear(4.0, loop)
    script.hear(5.0, loop)
    assert script.state.confirmed
    assert any(not kept.trusted for kept in script.state.confirmed)
    told = reference(script, 6.0)
    words = told.words if told is not None else ()
    assert len(words) < len(script.state.confirmed)
