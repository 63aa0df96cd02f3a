"""Which framings suit, with executors that say what they are told. No test judges speed or a real checkpoint."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from each_row import each_row
from whispertide.decoding.guards import Halt
from whispertide.decoding.token_words import TokenWord
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import RECIPES
from whispertide.streaming.framing import BARE, PAD30, Buckets, Framing, Zeros
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.tuning import framing_choice
from whispertide.tuning.framing_choice import (
    ENOUGH,
    MOST,
    FramingResult,
    Window,
    choose_framing,
    cut_windows,
    differences,
    guard_changes,
    measure,
    plain_words,
    spread_out,
    transcribe_window,
)
from whispertide.types import SAMPLE_RATE, FloatArray, Word

ZEROS = Zeros()
WINDOW = Window(np.zeros(4 * SAMPLE_RATE, np.float32), whole=True)
SAID = "we walk home then"


class Says:
    """Half a second for each word, the first at once."""

    def __init__(
        self, text: str, stop: Any = "end_of_text", *, retried: bool = False, halted_at: int | None = None
    ) -> None:
        self.text, self.stop, self.retried, self.halted_at = text, stop, retried, halted_at
        self.plans: list[RoundPlan] = []

    def run(self, plan: RoundPlan, samples: FloatArray, options: DecodeOptions, **_: Any) -> RoundResult[HeardWords]:
        self.plans.append(plan)
        half = SAMPLE_RATE // 2
        words = tuple(
            TokenWord(Word(f" {text}", half * number, half * (number + 1)), (number,))
            for number, text in enumerate(self.text.split())
        )
        assert isinstance(plan.hearing, SinglePass)
        halt = None
        if self.halted_at is not None and plan.hearing.watch:
            words, halt = words[: self.halted_at], Halt("backward-shift", self.halted_at, 0)
        return RoundResult(plan, HeardWords(words, len(words), halt, stop=self.stop, retried=self.retried))


def tried(
    texts: dict[Framing, str], windows: Sequence[Window] | None = None, stop: Any = "end_of_text"
) -> list[FramingResult]:
    executors: Any = {
        framing: Says(text, "end_of_text" if framing == PAD30 else stop) for framing, text in texts.items()
    }
    return measure(executors, windows or [WINDOW] * ENOUGH)


def test_equal_texts_suit() -> None:
    padded, bare = tried({PAD30: SAID, BARE: "We walk, home. Then"})
    assert (bare.windows, bare.words, bare.ends) == (ENOUGH, 4 * ENOUGH, ENOUGH)
    assert set(bare.rates().values()) == {0.0}
    assert bare.suits
    assert padded.suits


@pytest.mark.parametrize(
    ("text", "stop", "rate"),
    [
        ("we walk roam then", "end_of_text", "changed"),
        ("we walk home then and so on", "end_of_text", "invented"),
        ("we walk home", "end_of_text", "ends_missing"),
        (SAID, "length", "run_aways"),
    ],
)
def test_what_differs_is_counted_and_does_not_suit(text: str, stop: Any, rate: str) -> None:
    bare = tried({PAD30: SAID, BARE: text}, stop=stop)[1]
    assert bare.rates()[rate] > MOST[rate]
    assert not bare.suits


def test_a_single_word_is_to_stay_one() -> None:
    alone = Window(np.zeros(SAMPLE_RATE, np.float32), whole=True, alone=True)
    windows = [WINDOW] * ENOUGH + [alone] * 4
    bare = tried({PAD30: SAID, BARE: SAID}, windows)[1]
    assert (bare.alone, bare.alone_added, bare.ends, bare.suits) == (4, 0, ENOUGH, True)
    bare.alone_added = 5
    assert not bare.suits
    assert tried({PAD30: "a", BARE: "a and so on"}, [alone] * 4)[1].alone_added == 12
    other = tried({PAD30: SAID, BARE: "we walk roam then"}, [alone] * 4)[1]
    assert (other.alone_added, other.changed) == (0, 0)  # cut out of speech it is misheard in any framing


def test_what_is_near_the_end_of_a_window_that_is_cut_off_is_loose() -> None:
    """Words end every half second, the window after three of them."""
    window = Window(np.zeros(3 * SAMPLE_RATE // 2, np.float32), whole=False)
    bare = tried({PAD30: "we walk", BARE: "we run and and"}, [window] * ENOUGH)[1]
    assert (bare.words, bare.changed, bare.invented, bare.loose) == (ENOUGH, 0, 0, 2 * ENOUGH)


def test_the_first_of_what_suits_and_is_quick_and_about_as_good_is_chosen() -> None:
    found = tried({PAD30: SAID, ZEROS: SAID, BARE: SAID})
    padded, zeros, bare = found
    for each, seconds in zip(found, (1.0, 0.12, 0.10), strict=True):
        each.seconds = [seconds]
    assert choose_framing(found) is zeros
    zeros.loose = 1  # of 48 words: says nothing
    assert choose_framing(found) is zeros
    zeros.loose = 2
    assert choose_framing(found) is bare
    zeros.loose, zeros.seconds = 0, [0.2]  # too slow to compete
    assert choose_framing(found) is bare
    zeros.run_aways = bare.run_aways = 1
    assert choose_framing(found) is padded
    zeros.run_aways = bare.run_aways = 0
    padded.seconds = [0.1]
    assert choose_framing(found) is padded


def test_how_a_checkpoint_is_heard_untuned_stays_where_it_suits() -> None:
    found = tried({PAD30: SAID, ZEROS: SAID, BARE: SAID})
    padded, zeros, bare = found
    padded.seconds = [1.0]
    bare.loose = 9  # near the ends of windows, which decides only between others
    assert choose_framing(found) is zeros
    assert choose_framing(found, BARE) is bare
    assert choose_framing(found, Buckets()) is zeros  # which was not tried
    bare.run_aways = 1
    assert choose_framing(found, BARE) is zeros


def test_too_little_says_nothing() -> None:
    assert choose_framing(tried({PAD30: SAID, BARE: SAID}, [WINDOW] * (ENOUGH - 1))) is None
    assert choose_framing(tried({PAD30: "we", BARE: "we"})) is None
    assert choose_framing([]) is None
    assert not tried({PAD30: SAID, BARE: SAID}, [WINDOW])[1].suits


def test_it_can_be_ended_early() -> None:
    answers = iter([False] * 5 + [True])  # one for the window that does not count, two for each other
    done: list[tuple[int, int]] = []
    executors: Any = {PAD30: Says(SAID)}
    found = measure(executors, [WINDOW] * 9, until=lambda: next(answers), progress=lambda *at: done.append(at))
    assert (found[0].windows, done) == (2, [(1, 9), (2, 9)])


def test_a_window_that_was_not_heard_in_all_framings_does_not_count() -> None:
    for asked, windows, heard in ((0, 0, 0), (1, 0, 1), (3, 0, 3), (4, 0, 4), (5, 1, 4), (7, 1, 6)):
        answers = iter([False] * asked + [True] * 9)
        executors: Any = {PAD30: Says(SAID), BARE: Says(SAID)}
        found = measure(executors, [WINDOW] * 9, until=lambda answers=answers: next(answers))  # type: ignore[misc]
        assert [each.windows for each in found] == [windows] * 2
        assert sum(len(executor.plans) for executor in executors.values()) == heard


@each_row("whole", [True, False])
@each_row("framing", [PAD30, BARE, ZEROS])
def test_windows_are_heard_as_tide_hears_them_in_that_framing(framing: Framing, whole: bool) -> None:
    """The plan is that of a session which was tuned to the framing, but for what ends a text that does not end."""
    executor: Any = Says(SAID)
    window = replace(WINDOW, whole=whole)
    assert transcribe_window(executor, framing, window, DecodeOptions()).words == tuple(SAID.split())
    policy = RECIPES["tide"].replace(**guard_changes(framing), max_tokens=40).policy
    search = RECIPES["tide"].search
    assert executor.plans == [policy.plan(policy.start(0), 4 * SAMPLE_RATE, search=search, round_id=0, is_last=whole)]
    assert len(executor.plans[0].hearing.watch) == (1 if framing == PAD30 else 2)  # the guard of shifts


def test_where_a_guard_ends_the_padded_text_the_others_are_judged_by_what_it_would_have_said() -> None:
    executors: Any = {PAD30: Says(SAID, halted_at=2), BARE: Says(SAID)}
    padded, bare = measure(executors, [WINDOW] * ENOUGH)
    assert (padded.words, padded.changed, padded.invented) == (4 * ENOUGH, 2 * ENOUGH, 0)
    assert (bare.words, bare.changed, bare.invented) == (4 * ENOUGH, 0, 0)
    unwatched = executors[PAD30].plans[-1].hearing
    assert (unwatched.watch, unwatched.max_tokens, unwatched.silence) == ((), 40, SAMPLE_RATE)


def test_what_a_guard_had_heard_twice_is_counted() -> None:
    texts: Any = {PAD30: Says(SAID), BARE: Says(SAID, retried=True)}
    padded, bare = measure(texts, [WINDOW] * ENOUGH)
    assert (padded.twice, bare.twice, bare.suits) == (0, ENOUGH, True)


class Gate:
    """Speech from 1 to 5 s, and from 6.5 to 7 s; from 8 s on, without end."""

    def feed(self, samples: FloatArray) -> list[Any]:
        from whispertide.audio.vad import SpeechStarted, SpeechStopped

        spans = ((1.0, 5.0), (6.5, 7.0), (8.0, 20.0))
        return [
            kind(round(at * SAMPLE_RATE), decided_at=0)
            for span in spans
            for kind, at in zip((SpeechStarted, SpeechStopped), span, strict=True)
        ]

    def finish(self) -> list[Any]:
        return []


def test_windows_begin_in_pauses_and_end_in_speech_and_in_pauses() -> None:
    gate: Any = Gate()
    audio = np.arange(20 * SAMPLE_RATE, dtype=np.float32)
    found = [
        (window.audio[0] / SAMPLE_RATE, len(window.audio) / SAMPLE_RATE, window.whole)
        for window in cut_windows(audio, gate)
    ]
    assert found == [
        (1, 4, True), (1, 1, False), (1, 2, False),
        (6.5, 0.5, True),
        (8, 1, False), (8, 2, False), (8, 3.5, False), (8, 5, False),
    ]  # fmt: skip


@each_row("count", range(1, 40))
def test_any_order_has_them_all(count: int) -> None:
    numbers: Any = list(range(count))
    assert set(spread_out(numbers)) == set(numbers)


def test_single_words_are_cut_out_with_pauses_around_them() -> None:
    executor: Any = Says("a b c")
    found = framing_choice.single_words(executor, [WINDOW, Window(WINDOW.audio, whole=False)], 9)
    assert [window.alone for window in found] == [True, True]  # the first has no sound before it
    assert [len(window.audio) / SAMPLE_RATE for window in found] == [1.6, 1.6]
    assert len(framing_choice.single_words(executor, [WINDOW], 1)) == 1
    assert framing_choice.single_words(executor, [WINDOW], 9, lambda: True) == []


def test_differences() -> None:
    assert differences(["a", "b"], ["a", "b"]) == (0, 0)
    assert differences(["a", "b"], ["a", "c", "d"]) == (1, 1)
    assert differences(["a", "b"], []) == (2, 0)
    assert plain_words(" It's  Fine, (really)!") == ["it's", "fine", "really"]


def test_a_word_keeps_its_vowel_signs_and_is_a_letter_where_no_spaces_part_words() -> None:
    """A whole sentence was one word: a letter that differed made all of it differ."""
    assert plain_words("नमस्ते, दुनिया") == ["नमस्ते", "दुनिया"]
    assert plain_words("今天 AI 天气。") == ["今", "天", "ai", "天", "气"]
    assert differences(plain_words("今天天气很好"), plain_words("今天天汽很好")) == (1, 0)
