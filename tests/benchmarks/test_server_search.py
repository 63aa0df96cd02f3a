"""How `benchmarks/server.py` looks for the number of sessions; nothing is started and nothing is timed."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmark_scripts import benchmark
from whispertide.types import SAMPLE_RATE, FloatArray, Word


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with benchmark("server") as module:
        yield module


def row(sessions: int, p95_s: float | None, **other: Any) -> dict[str, Any]:
    return {"sessions": sessions, "p95_s": p95_s, "complete": sessions, "problems": [], "matched": 0.98, **other}


@pytest.mark.parametrize(
    ("holds", "first", "found"), [(64, 8, 64), (16, 8, 16), (21, 8, 20), (5, 8, 5), (1, 8, 1), (3, 4, 3), (2, 1, 2)]
)
def test_the_number_is_found_to_a_quarter(script: ModuleType, holds: int, first: int, found: int) -> None:
    asked: list[tuple[int, float]] = []

    def measure(sessions: int, limit_s: float) -> dict[str, Any]:
        asked.append((sessions, limit_s))
        return row(sessions, 0.5 if sessions <= holds else 9.0)

    good, limit_s, rows = script.search(measure, 1.5, first, 64)
    assert (good, limit_s) == (found, 1.5)
    assert [one["sessions"] for one in rows] == [sessions for sessions, _ in asked]
    assert len({sessions for sessions, _ in asked}) == len(asked) <= 8, "none is measured twice"
    assert asked[0] == (1, float("inf")), "one alone is never cut off: it is what the others are compared with"


@pytest.mark.parametrize("count", range(1, 130))
def test_no_more_than_a_twentieth_of_the_words_is_later_than_p95(script: ModuleType, count: int) -> None:
    latencies = [float(number) for number in range(count)]
    assert sum(latency > script.p95(latencies) for latency in latencies) <= script.LATE * count


def test_where_one_alone_is_late_the_limit_is_its_own(script: ModuleType) -> None:
    good, limit_s, _ = script.search(lambda sessions, _: row(sessions, 2.0 * sessions), 1.5, 8, 64)
    assert (good, limit_s) == (2, 4.0)


@pytest.mark.parametrize("failed", [{"p95_s": None}, {"complete": 0}, {"problems": ["the model is gone"]}])
def test_what_fails_alone_is_not_tried_with_more(script: ModuleType, failed: dict[str, Any]) -> None:
    asked: list[int] = []

    def measure(sessions: int, _: float) -> dict[str, Any]:
        asked.append(sessions)
        return {**row(sessions, 0.5), **failed}

    assert script.search(measure, 1.5, 8, 64)[0] == 0
    assert asked == [1]


def test_few_words_in_time_are_not_enough(script: ModuleType) -> None:
    """A server that drops what it has no time for is early with the rest."""

    def measure(sessions: int, _: float) -> dict[str, Any]:
        return row(sessions, 0.5, matched=0.98 if sessions == 1 else 0.94 if sessions <= 8 else 0.92)

    assert script.search(measure, 1.5, 8, 64)[0] == 8, "0.94 is more than 0.95 of 0.98, and 0.92 is less"


def test_a_run_is_given_up_once_it_cannot_pass(script: ModuleType) -> None:
    talk = script.Talk(None, tuple((f"w{number}", float(number)) for number in range(100)))

    def heard(late: int) -> Any:
        words = [(f"w{number}", number + (9.0 if number < late else 0.5)) for number in range(20)]
        return script.Session(talk, script.Heard(words))

    assert not script.hopeless([heard(5), heard(5)], 1.5)
    assert script.hopeless([heard(0), heard(11)], 1.5)
    assert not script.hopeless([heard(20)], float("inf"))
    assert script.hopeless([script.Session(talk, script.Heard(problem="refused"))], 1.5)


def test_each_session_says_other_recordings(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each is compared with the words of its own."""
    clips = [np.full(SAMPLE_RATE * length, length, np.float32) for length in (1, 2, 3)]

    def transcribe(clip: FloatArray) -> Any:
        return SimpleNamespace(words=[Word(f"w{clip[0]:g}", 0, len(clip) // 2, 1.0)])

    loaded = SimpleNamespace(transcribe=transcribe)
    monkeypatch.setattr("whispertide.api.load", lambda model, precision: loaded)
    talks = script.make_talks("m", "int8", 6.0, clips, 5)
    assert [talk.words for talk in talks] == [
        (("w1", 0.5), ("w2", 3.0), ("w3", 6.5)),
        (("w2", 1.0), ("w3", 4.5)),
        (("w3", 1.5), ("w1", 4.5)),
    ], "around and around, a second apart, until the talk is long enough"
    assert [len(talk.samples) // SAMPLE_RATE for talk in talks] == [9, 7, 6]


def test_what_was_noted_is_not_measured_again(script: ModuleType, tmp_path: Path) -> None:
    notes = script.Notes(tmp_path / "new" / "notes.jsonl")
    assert notes.row("a", lambda: row(1, 0.5)) == row(1, 0.5)
    again = script.Notes(tmp_path / "new" / "notes.jsonl")
    assert again.row("a", lambda: pytest.fail("measured twice")) == row(1, 0.5)
    assert again.row("b", lambda: row(2, 0.7)) == row(2, 0.7)
