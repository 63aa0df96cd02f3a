"""How long a run will take, by a clock that the tests turn."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from each_row import each_row
from evaluation_cells import SPEC, make_cell, make_trace, results_in
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation.estimate import SAMPLE_S, estimate, in_words
from whispertide_lab.evaluation.runner import Job
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.speech.utterance import Recordings, RefWord, Utterance


def recordings(*lengths: float) -> Recordings:
    """Of so many seconds; nobody speaks in the first."""

    def utterance(number: int, length: float) -> Utterance:
        words = (RefWord("word"),) if number else ()
        return Utterance(f"talk/{number}", words, length, lambda: np.zeros(int(length * SAMPLE_RATE), np.float32))

    return Recordings("mine", "0123456789ab", tuple(map(utterance, count(), lengths)))


class Runner:
    """Jobs, and results in a folder."""

    def __init__(self, folder: Path, *jobs: Job) -> None:
        self.results = results_in(folder)
        self.all = jobs

    def jobs(self, request: object) -> tuple[Job, ...]:
        return self.all


class Machine:
    """Computes at so many times real time; `heard` is what it was given."""

    def __init__(self, speed: float = 4.0) -> None:
        self.time = 0.0
        self.heard: list[Utterance] = []
        self.speed = speed

    def recogniser(self) -> Callable[[Utterance], Trace]:
        def recognise(utterance: Utterance) -> Trace:
            assert len(utterance.audio()) == round(utterance.seconds * SAMPLE_RATE)
            self.heard.append(utterance)
            self.time += utterance.seconds / self.speed
            return make_trace(utterance.id)

        return recognise


def measured(folder: Path, machine: Machine, corpus: Recordings, **changes: Any) -> tuple[Runner, Any]:
    runner = Runner(folder, Job(replace(SPEC, **changes), corpus, machine.recogniser))
    requests: Any = [None]
    fake: Any = runner
    return runner, lambda: estimate(fake, requests, now=lambda: machine.time)


def test_a_sample_of_the_first_recording_with_words_tells(tmp_path: Path) -> None:
    machine = Machine()
    _, judge = measured(tmp_path, machine, recordings(60, 1200, 540))
    found = judge()
    assert (found.seconds, found.audio_s, found.cells) == (450.0, 1800.0, 1)
    (sample,) = machine.heard
    assert (sample.seconds, sample.id) == (SAMPLE_S, "sample of talk/1")
    assert str(found) == "about 8 minutes on this machine: 1 cell with 30 minutes of audio in all"


def test_a_short_run_has_a_short_sample(tmp_path: Path) -> None:
    machine = Machine()
    _, judge = measured(tmp_path, machine, recordings(2, 300))
    judge()
    assert [sample.seconds for sample in machine.heard] == [pytest.approx(302 / 30)]


def test_offline_costs_by_the_window(tmp_path: Path) -> None:
    machine = Machine()
    _, judge = measured(tmp_path, machine, recordings(10, 10, 70), recogniser="offline")
    assert judge().seconds == pytest.approx((1 + 1 + 3) * 5 / 4)


def test_what_is_measured_in_part_tells_the_rest(tmp_path: Path) -> None:
    machine = Machine()
    runner, judge = measured(tmp_path, machine, recordings(10, 100, 200))
    runner.results.save_trace(SPEC, replace(make_trace("talk/1"), wall_s=50.0))
    found = judge()
    assert (found.seconds, found.audio_s) == (105.0, 210.0)
    assert machine.heard == []


def test_what_is_measured_takes_no_time(tmp_path: Path) -> None:
    machine = Machine()
    runner, judge = measured(tmp_path, machine, recordings(10, 100))
    make_cell(runner.results, utterances=2)
    assert (judge().cells, machine.heard) == (0, [])


def test_real_time_takes_as_long_as_the_audio(tmp_path: Path) -> None:
    machine = Machine()
    _, judge = measured(tmp_path, machine, recordings(10, 100), clock="live", recogniser="peer:x")
    assert (judge().seconds, machine.heard) == (110.0, [])


def test_nobody_can_judge_other_programs(tmp_path: Path) -> None:
    _, judge = measured(tmp_path, Machine(), recordings(10, 100), recogniser="peer:x")
    found = judge()
    assert (found.cells, found.unknown) == (0, 1)
    assert str(found) == "1 cell of other programs, whose time is not estimated"


@each_row(
    ("seconds", "said"), [(0.2, "1 s"), (99.4, "99 s"), (100, "2 minutes"), (720, "12 minutes"), (9000, "2.5 hours")]
)
def test_times_are_said_as_a_person_does(seconds: float, said: str) -> None:
    assert in_words(seconds) == said
