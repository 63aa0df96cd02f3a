"""What is tuned, from what was measured. No test judges speed."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whispertide.lab import bearing, tune
from whispertide.lab.bearing import ENOUGH, Tried, Window
from whispertide.lab.tune import Rounds, Tuning, changes, choose_pace, choose_step, thread_counts
from whispertide.lab.tune_page import html, text
from whispertide.options import EngineOptions
from whispertide.streaming.calibration import Pace, machine_of
from whispertide.streaming.framing import BARE, PAD30, Buckets, Framing, Zeros

OPTIONS = EngineOptions(threads=2)


def counted(framing: Framing, seconds: float, **counts: int) -> Tried:
    found = Tried(framing, windows=ENOUGH, words=40, ends=4, alone=4, seconds=[seconds])
    for name, count in counts.items():
        setattr(found, name, count)
    return found


def tuning(**about: Any) -> Tuning:
    tried = (counted(PAD30, 0.5), counted(BARE, 0.1, changed=9), counted(Zeros(), 0.1, changed=1))
    settings: dict[str, Any] = {"chosen": tried[2], "pace": Pace(2, 0.4), "options": OPTIONS}
    return Tuning("m", tried, **(settings | about))


def test_what_is_kept_says_what_was_found() -> None:
    kept = tuning().calibration()
    assert kept.changes == {"framing": "zeros", "zeros_s": 1.0, "shift_guard": True}
    assert kept.why == "`whispertide tune` found 2.5% of the words different from padded windows, 5 times as fast"
    assert list(kept.pace.values()) == [Pace(2, 0.4)]
    assert kept.report["chosen"] == "zeros"
    assert [each["borne"] for each in kept.report["framings"]] == [True, False, True]
    short = tuning(short=True, pace=None).calibration()
    assert (short.short, short.pace) == (True, {})
    assert short.why.startswith("the short form of `whispertide tune` found")


def test_the_pace_is_that_of_whoever_names_no_threads() -> None:
    assert list(tuning(options=EngineOptions()).calibration().pace) == [machine_of(EngineOptions())]


def test_where_too_little_was_heard_the_careful_framing_stays() -> None:
    found = tuning(chosen=None)
    assert found.calibration().changes == {}
    assert "heard too little" in found.sentence
    assert "careful framing" in html(found)


def test_where_nothing_shorter_is_borne_windows_are_padded() -> None:
    found = tuning(chosen=tuning().tried[0])
    assert found.calibration().changes == {"framing": "pad30"}
    assert "nothing shorter" in found.why


@pytest.mark.parametrize(
    ("framing", "expected"),
    [
        (PAD30, {"framing": "pad30"}),
        (BARE, {"framing": "bare", "shift_guard": True}),
        (Buckets(), {"framing": "buckets", "shift_guard": True}),
    ],
)
def test_what_is_not_padded_as_in_training_is_guarded(framing: Framing, expected: dict[str, Any]) -> None:
    assert changes(framing) == expected


def test_threads() -> None:
    assert thread_counts(1, 1) == [1]
    assert thread_counts(6, 4) == [1, 2, 4, 6]
    assert thread_counts(32, 4) == [1, 2, 4, 8]
    assert choose_pace([Rounds(1, 0.30, 0.3), Rounds(2, 0.21, 0.3), Rounds(4, 0.20, 0.3)]) == Pace(2, 0.3)
    assert choose_pace([Rounds(1, 0.5, 0.5), Rounds(2, 0.3, 0.3)]) == Pace(2, 0.4)


def test_nothing_is_said_of_a_busy_machine() -> None:
    assert choose_pace([Rounds(1, 0.30, 0.31), Rounds(2, 0.2, 0.41)]) is None
    assert choose_pace([]) is None
    assert "the machine was busy" in text(tuning(pace=None, rounds=(Rounds(1, 0.2, 0.5),)))


def test_the_step_leaves_room() -> None:
    assert [choose_step(seconds) for seconds in (0.0, 0.24, 0.25, 0.9, 99)] == [0.3, 0.3, 0.4, 1.5, 3.0]


def test_a_report_has_a_table_and_a_plot() -> None:
    found = tuning(rounds=(Rounds(1, 0.3, 0.3), Rounds(2, 0.2, 0.2)))
    shown = text(found)
    assert "* 1 s of padding" in shown
    assert "* 2" in shown
    page = html(found)
    assert "data:image/png" in page
    assert "tide uses 1 s of padding with m from now on" in page


@pytest.mark.parametrize(("short", "framings"), [(True, 3), (False, 4)])
def test_the_short_form_ends_early(monkeypatch: pytest.MonkeyPatch, short: bool, framings: int) -> None:
    """Each look at the clock takes a second."""
    now = iter(range(10_000))
    model: Any = SimpleNamespace(name="m", options=OPTIONS, view=lambda options: model)
    window = Window(np.zeros(16_000, np.float32), whole=False)
    heard = bearing.Text(("a", "b", "c"), 0, False, 0.1)
    monkeypatch.setattr("time.perf_counter", lambda: float(next(now)))
    monkeypatch.setattr(bearing, "has_word", lambda model: False)
    monkeypatch.setattr(bearing, "cut", lambda audio: [window] * 40)
    monkeypatch.setattr(bearing, "open_executors", lambda model, framings: dict.fromkeys(framings))
    monkeypatch.setattr(bearing, "single_words", lambda *_: [])
    monkeypatch.setattr(bearing, "hear", lambda *_: heard)
    found = tune.tune(model, [window.audio], short=short)
    assert len(found.tried) == framings
    assert found.tried[0].windows == (15 if short else 40)
    assert (found.pace is None) is short
    assert found.chosen is found.tried[0]  # all are equal here
