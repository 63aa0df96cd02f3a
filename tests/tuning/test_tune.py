"""What is tuned, from what was measured. No test judges speed."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from made_up_streams import made_up
from whispertide.checkpoint.attachments import BUNDLED
from whispertide.methods.attention.steadiness import Rule, read_rule
from whispertide.options import EngineOptions
from whispertide.recipes.calibration import Pace, machine_of
from whispertide.recipes.catalogue import get_recipe
from whispertide.streaming.framing import BARE, PAD30, Buckets, Framing, Merged, Zeros
from whispertide.tuning import framing_choice, tune
from whispertide.tuning.framing_choice import ENOUGH, FramingResult, Window, guard_changes
from whispertide.tuning.steadiness import at_pace
from whispertide.tuning.tune import (
    Refit,
    Rounds,
    Tuning,
    choose_pace,
    choose_step,
    parts_to_replay,
    processor_share,
    refit_rule,
    thread_counts,
    usual_rule,
)
from whispertide.tuning.tune_page import html, text

OPTIONS = EngineOptions(threads=2)
UNKNOWN = SimpleNamespace(tensors_hash="")  # a checkpoint that the package knows nothing of
BETTER = Refit(words=900, error=0.040, shipped=0.045, rule="1:2")


def counted(framing: Framing, seconds: float, **counts: int) -> FramingResult:
    found = FramingResult(framing, windows=ENOUGH, words=40, ends=4, alone=4, seconds=[seconds])
    for name, count in counts.items():
        setattr(found, name, count)
    return found


def tuning(**about: Any) -> Tuning:
    tried = (counted(PAD30, 0.5), counted(BARE, 0.1, changed=9), counted(Zeros(), 0.1, changed=1))
    settings: dict[str, Any] = {"chosen": tried[2], "pace": Pace(2, 0.4), "options": OPTIONS}
    return Tuning("m", tried, **(settings | about))


def test_what_is_kept_says_what_was_found() -> None:
    kept = tuning().calibration()
    assert kept.changes == {"framing": "zeros", "zeros_s": 1.0, "shift_guard": True, "short_s": 2.5}
    assert kept.why == "`whispertide tune` found 2.5% of the words different from padded windows, 5 times as fast"
    close = tuning(chosen=counted(Zeros(), 0.39)).why
    assert close.endswith(", 1.3 times as fast")
    assert list(kept.pace.values()) == [Pace(2, 0.4)]
    assert kept.report["chosen"] == "zeros"
    assert [each["suits"] for each in kept.report["framings"]] == [True, False, True]
    short = tuning(short=True, pace=None).calibration()
    assert (short.short, short.pace) == (True, {})
    assert short.why.startswith("the short form of `whispertide tune` found")


def test_the_pace_is_that_of_whoever_names_no_threads() -> None:
    assert list(tuning(options=EngineOptions()).calibration().pace) == [machine_of(EngineOptions())]


def test_where_too_little_was_heard_all_stays_as_it_was() -> None:
    found = tuning(chosen=None)
    assert found.calibration().changes == {}
    assert "had too little speech" in found.sentence
    assert "as it was" in html(found)


def test_figures_of_no_windows_are_not_shown() -> None:
    found = tuning()
    assert "30 s of padding" in text(found)
    nothing = tuple(replace(each, windows=0) for each in found.tried)
    assert "30 s of padding" not in text(replace(found, tried=nothing, chosen=None))


def test_where_nothing_shorter_suits_windows_are_padded() -> None:
    found = tuning(chosen=tuning().tried[0])
    assert found.calibration().changes == {"framing": "pad30"}
    assert "nothing shorter" in found.why


@pytest.mark.parametrize(
    ("framing", "expected"),
    [
        (PAD30, {"framing": "pad30"}),
        (BARE, {"framing": "bare", "shift_guard": True, "short_s": 2.5}),
        (Buckets(), {"framing": "buckets", "shift_guard": True, "short_s": 2.5}),
    ],
)
def test_what_is_not_padded_as_in_training_is_guarded(framing: Framing, expected: dict[str, Any]) -> None:
    assert guard_changes(framing) == expected


def test_threads() -> None:
    assert thread_counts(1, 1) == [1]
    assert thread_counts(6, 4) == [1, 2, 4, 6]
    assert thread_counts(32, 4) == [1, 2, 4, 8]
    assert choose_pace([Rounds(1, 0.30, 0.3), Rounds(2, 0.21, 0.3), Rounds(4, 0.20, 0.3)]) == Pace(2, 0.3)
    assert choose_pace([Rounds(1, 0.5, 0.5), Rounds(2, 0.3, 0.3)]) == Pace(2, 0.4)


def test_the_share_of_a_processor_that_a_thread_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, spent = iter([0.0, 0.1, 0.2, 0.4]), iter([5.0, 5.1])
    faked = SimpleNamespace(perf_counter=lambda: next(clock), thread_time=lambda: next(spent))
    monkeypatch.setattr(tune, "time", faked)
    assert processor_share() == pytest.approx(0.25)


def test_nothing_is_said_of_a_busy_machine() -> None:
    assert choose_pace([Rounds(1, 0.30, 0.31), Rounds(2, 0.2, 0.41)]) is None
    assert choose_pace([Rounds(1, 0.30, 0.31, share=0.5), Rounds(2, 0.2, 0.21)]) is None  # slow all the time
    assert choose_pace([Rounds(1, 0.30, 0.31, share=0.9)]) is not None
    assert choose_pace([]) is None
    assert "threads, not used: the machine was busy\n" in text(tuning(pace=None, rounds=(Rounds(1, 0.2, 0.5),)))


def test_the_step_leaves_room() -> None:
    assert [choose_step(seconds) for seconds in (0.0, 0.24, 0.25, 0.9, 99)] == [0.3, 0.3, 0.4, 1.5, 3.0]


@pytest.mark.slow
def test_a_report_has_a_table_and_a_plot() -> None:
    found = tuning(rounds=(Rounds(1, 0.3, 0.3), Rounds(2, 0.2, 0.2)))
    shown = text(found)
    assert "* 1 s of padding" in shown
    assert "* 2" in shown
    page = html(found)
    assert "data:image/png" in page
    assert "tide uses 1 s of padding with m from now on" in page


@pytest.mark.parametrize(("short", "framings"), [(True, 3), (False, 5)])
@pytest.mark.parametrize("knows_short", [False, True])
def test_the_short_form_ends_early(
    monkeypatch: pytest.MonkeyPatch, short: bool, framings: int, knows_short: bool
) -> None:
    """Each look at the clock takes a quarter of a second, and each hearing is preceded by one."""
    now = iter(range(10_000))
    model: Any = SimpleNamespace(
        name="m",
        options=OPTIONS,
        knows_short=knows_short,
        short_merged=0,
        view=lambda options: model,
        checkpoint=UNKNOWN,
    )
    window = Window(np.zeros(16_000, np.float32), whole=False)
    heard = framing_choice.WindowText(("a", "b", "c"), 0, False, 0.1)
    monkeypatch.setattr("time.perf_counter", lambda: next(now) / 4)
    monkeypatch.setattr(framing_choice, "has_word", lambda model: False)
    monkeypatch.setattr(framing_choice, "cut_windows", lambda audio: [window] * 40)
    monkeypatch.setattr(framing_choice, "open_executors", lambda model, framings: dict.fromkeys(framings))
    monkeypatch.setattr(framing_choice, "single_words", lambda *_: [])
    monkeypatch.setattr(framing_choice, "transcribe_window", lambda *_: heard)
    monkeypatch.setattr(framing_choice, "speech_s", lambda audio: 300.0)
    monkeypatch.setattr(tune, "measure_threads", lambda *_: (Rounds(1, 0.1, 0.1),))
    monkeypatch.setattr(tune, "refit_rule", lambda *_: BETTER)
    found = tune.tune(model, [window.audio], short=short)
    assert len(found.tried) == framings
    assert (ENOUGH < found.tried[0].windows < 40) if short else (found.tried[0].windows == 40)
    assert (found.pace is None) is short
    assert (found.refit is None) is short
    # All are equal here: then what is nearest to the checkpoint's training is chosen.
    assert found.chosen is found.tried[-1 if knows_short else 0]


class Clock:
    """Goes on only where somebody computes."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("hearing_s", [0.01, 0.5, 2.0, 4.5, 9.0])
@pytest.mark.parametrize("opening_s", [0.0, 3.0])
def test_the_short_form_takes_no_more_than_it_says(
    monkeypatch: pytest.MonkeyPatch, hearing_s: float, opening_s: float
) -> None:
    """However large the checkpoint is: windows that open the graphs and single words count, too."""
    clock, window = Clock(), Window(np.zeros(16_000, np.float32), whole=True)
    monkeypatch.setattr("time.perf_counter", clock)

    def computing(seconds: float, result: Any) -> Any:
        def compute(*_: Any) -> Any:
            clock.now += seconds
            return result

        return compute

    framings = dict.fromkeys((PAD30, Zeros(), BARE))
    monkeypatch.setattr(framing_choice, "cut_windows", lambda audio: [window] * 40)
    monkeypatch.setattr(framing_choice, "open_executors", computing(opening_s, framings))
    monkeypatch.setattr(framing_choice, "_run", computing(hearing_s, None))
    model: Any = SimpleNamespace(name="m", options=OPTIONS, knows_short=False, short_merged=0, checkpoint=UNKNOWN)
    found = tune.tune(model, [window.audio], short=True)
    assert clock.now <= tune.SHORT_S
    assert len({each.windows for each in found.tried}) == 1
    assert (found.tried[0].windows > 0) is (hearing_s < 3)


# --- the commit rule ----------------------------------------------------------------------------------------------


def test_a_rule_is_kept_only_where_it_predicts_better() -> None:
    assert tuning(refit=BETTER).calibration().changes["rule"] == "1:2"
    assert "rule" not in tuning(refit=replace(BETTER, error=0.044)).calibration().changes
    assert "rule" not in tuning().calibration().changes


def test_a_rule_that_was_fitted_before_stays_where_none_is_fitted_now() -> None:
    before = tuning(refit=BETTER).calibration()
    assert tuning().calibration(before).changes == before.changes
    worse = tuning(refit=replace(BETTER, error=0.046))
    assert "rule" not in worse.calibration(before).changes  # measured anew
    assert "rule" not in tuning(chosen=tuning().tried[0]).calibration(before).changes  # of another framing


def test_the_rule_that_comes_with_a_checkpoint_stays_where_no_better_one_is_fitted() -> None:
    usual = {"rule": "base", "max_revision_rate": 0.1}
    for refit in (None, replace(BETTER, differ=1000)):
        assert replace(tuning(refit=refit), usual=usual).calibration().confirming == usual
    assert replace(tuning(refit=BETTER), usual=usual).calibration().confirming == {"rule": BETTER.rule}


def test_a_shipped_rule_is_one_of_a_checkpoint_in_its_framing() -> None:
    tensors = json.loads((BUNDLED / "base" / "calibration.json").read_text(encoding="utf-8"))["tensors_hash"]
    base: Any = SimpleNamespace(checkpoint=SimpleNamespace(tensors_hash=tensors))
    other: Any = SimpleNamespace(checkpoint=UNKNOWN)
    assert usual_rule(base, Merged())["rule"] == "base"
    assert usual_rule(base, BARE) == usual_rule(other, Merged()) == {}


@pytest.mark.slow
def test_the_report_says_what_became_of_the_rule() -> None:
    assert "0.0400, with the shipped rule 0.0450; 0 confirmed words of streams" in text(tuning(refit=BETTER))
    assert "the shipped one stays" in html(tuning(refit=replace(BETTER, error=0.046)))
    assert "needs 5 minutes of speech" in text(tuning())
    assert "confirming words" not in text(tuning(short=True))
    assert tuning(refit=BETTER).calibration().report["rule"]["used"] is True


def test_where_speech_was_enough_it_is_not_said_to_have_been_too_little() -> None:
    """Rounds of a slow step hear few words in it."""
    said = text(tuning(speech_s=420.0))
    assert "too few words" in said
    assert "minutes of speech" not in said


def refitted(
    monkeypatch: pytest.MonkeyPatch, true: Rule, *, parts: int, words: int = 200, fitted_says: str = ""
) -> Refit | None:
    """Streams of which the words stay by a known rule; each part of ten seconds has so many of them."""
    monkeypatch.setattr(tune, "record_stream", lambda _, __, part, voice: made_up(words, voice, int(part[0]), true))
    monkeypatch.setattr(tune, "replay_stream", lambda _, recipe, __: fitted_says if recipe.policy.rule else "")
    return refit_rule(
        SimpleNamespace(options=OPTIONS),  # type: ignore[arg-type]
        Zeros(),
        [np.full(160_000, number, np.float32) for number in range(parts)],
        lambda *_: None,
    )


@pytest.mark.slow
def test_the_rule_of_a_checkpoint_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    unsure = Rule((-3.0, *read_rule("").weights[1:]))
    found = refitted(monkeypatch, unsure, parts=12)
    assert found is not None
    assert found.is_better
    assert found.words == 2400
    here, there = read_rule(found.rule).weights, read_rule("").weights
    assert abs(here[0] - unsure.weights[0]) < abs(there[0] - unsure.weights[0])


def test_the_shipped_rule_stays_where_it_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    found = refitted(monkeypatch, read_rule(""), parts=12)
    assert found is not None
    assert not found.is_better


@pytest.mark.slow
def test_a_rule_with_which_streams_make_more_errors_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it predicts better."""
    found = refitted(monkeypatch, Rule((-3.0, *read_rule("").weights[1:])), parts=12, fitted_says="made up")
    assert found is not None
    assert (found.differ, found.shipped_differ, found.is_better) == (24, 0, False)
    assert "24 confirmed words of streams differ, with the shipped rule 0 (not better" in found.sentence


@pytest.mark.parametrize("count", range(3, 61))
def test_streams_are_replayed_at_every_pace_that_they_were_recorded_at(count: int) -> None:
    """Of 41 to 60 parts every third was replayed: all at the usual pace."""
    numbers = parts_to_replay(count)
    usual = get_recipe("tide")
    paces = {at_pace(usual, number).schedule.step_s for number in range(count)}
    assert {at_pace(usual, number).schedule.step_s for number in numbers} == paces
    assert len(numbers) <= 20


def test_few_words_are_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refitted(monkeypatch, read_rule(""), parts=6, words=90) is None


@pytest.mark.parametrize(
    ("speech_s", "slowest_s", "fitted", "said"),
    [
        (299, 0.2, False, "needs 5 minutes of speech, and there were 4.9"),
        (98, 0.2, False, "needs 5 minutes of speech, and there were 1.6"),
        (300, 0.2, True, "(used)"),
        (300, 0.5, False, "the machine was busy"),
    ],
)
def test_no_rule_comes_of_little_speech_or_of_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, speech_s: float, slowest_s: float, fitted: bool, said: str
) -> None:
    window = Window(np.zeros(16_000, np.float32), whole=False)
    monkeypatch.setattr(framing_choice, "has_word", lambda model: False)
    monkeypatch.setattr(framing_choice, "cut_windows", lambda audio: [window] * 40)
    monkeypatch.setattr(framing_choice, "open_executors", lambda model, framings: dict.fromkeys(framings))
    monkeypatch.setattr(framing_choice, "single_words", lambda *_: [])
    monkeypatch.setattr(
        framing_choice, "transcribe_window", lambda *_: framing_choice.WindowText(("a", "b", "c"), 0, False, 0.1)
    )
    monkeypatch.setattr(framing_choice, "speech_s", lambda audio: speech_s)
    monkeypatch.setattr(tune, "measure_threads", lambda *_: (Rounds(1, 0.2, slowest_s),))
    monkeypatch.setattr(tune, "refit_rule", lambda *_: BETTER)
    model: Any = SimpleNamespace(name="m", options=OPTIONS, knows_short=False, short_merged=0, checkpoint=UNKNOWN)
    found = tune.tune(model, [window.audio])
    assert (found.refit is not None) is fitted
    assert said in text(found)
