import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import Run
from unheard_windows import without_short_windows
from whispertide.api import load
from whispertide.audio import mic
from whispertide.cli import doctor as command
from whispertide.cli.doctor import Diagnosis, Machine, look_at_machine
from whispertide.errors import AudioDeviceError
from whispertide.model.whisper import WhisperModel
from whispertide.options import EngineOptions
from whispertide.recipes.calibration import Calibration, Pace, machine_of, remember
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.short_windows import Framed, as_tuned
from whispertide.tuning import live_estimate
from whispertide.tuning import parity as parity_checks
from whispertide.tuning import speed as speed_of
from whispertide.tuning.live_estimate import LiveEstimate
from whispertide.tuning.parity import EXACT, QUANTISED, Parity
from whispertide.tuning.speed import Speed

MACHINE = Machine("Linux x86_64", "3.11.7", 1, ["cpu"], {"whispertide": "0.1.0"}, [], "none found")
SPEED = Speed("nano.en", "int8", "cpu", 2, 0.06, 0.006, 0.002, 0.003, 0.004, 1.1)
WHY = "bare windows, because this checkpoint was trained on short windows"
FRAMED = Framed(as_tuned(get_recipe("tide")), WHY)
LIVE = [
    LiveEstimate("nano.en", "whisper-streaming", 0.2, 1.0, 0.2, 0.25, measured=True),
    LiveEstimate("base", "tide", 0.6, 0.4, 1.5, 0.75, measured=False, tune_helps=True),
    LiveEstimate("distil-small.en", "whisper-streaming", 89.24, 12.5, 458.7, 111.55, measured=False, adapted=False),
]
GOOD = Parity("int8 engine", "own fp32", 0.5, 0.1, 0.98, QUANTISED)
BAD = Parity("own fp32", "transformers", 0.5, 0.1, 0.98, EXACT)


def found(monkeypatch: pytest.MonkeyPatch, *parity: Parity, speed: Speed = SPEED) -> None:
    monkeypatch.setattr(command, "diagnose", lambda *_: Diagnosis(MACHINE, speed, FRAMED, LIVE, list(parity)))


def test_the_tables_fit_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, GOOD)
    result = run("doctor")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "…" not in result.stdout
    table = [line.split() for line in lines]
    assert ["nano.en", "*", "whisper-streaming", "0.20", "s", "1", "s", "20%", "yes", "0.25", "s"] in table
    assert ["89.2", "s", "12.5", "s", "45870%", "no", "adapter", "111.5", "s"] in [line[2:] for line in table]
    assert any(line.endswith("  live  shortest") for line in lines)
    assert "Linux x86_64, 1 core, Python 3.11.7" in result.stdout
    assert "80%" in result.stdout  # the rule is stated
    assert "busy" not in result.stdout
    assert f"framing of tide\n{WHY}\n" in result.stdout


def test_the_step_that_a_verdict_goes_by_is_named_and_where_tune_takes_a_longer_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch)
    out = run("doctor").stdout
    assert ["base", "tide", "0.60", "s", "0.4", "s", "150%", "no", "0.75", "s"] in [
        line.split() for line in out.splitlines()
    ]
    told = "`whispertide tune MODEL` would choose a longer step for tide, with which it runs live with base."
    assert told in " ".join(out.split())
    data = json.loads(run("doctor", "--json").stdout)
    assert [(item["step_s"], item["tune_helps"]) for item in data["live"]] == [(1.0, False), (0.4, True), (12.5, False)]
    monkeypatch.setattr(command, "diagnose", lambda *_: Diagnosis(MACHINE, SPEED, FRAMED, LIVE[:1]))
    assert "would choose a longer step" not in " ".join(run("doctor").stdout.split())


def test_the_model_may_be_an_option(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def diagnose(name: str, *_: object) -> Diagnosis:
        asked.append(name)
        return Diagnosis(MACHINE, SPEED, FRAMED, LIVE)

    monkeypatch.setattr(command, "diagnose", diagnose)
    for arguments in (["-m", "tiny"], ["tiny"], []):
        assert run("doctor", *arguments).exit_code == 0
    assert asked == ["tiny", "tiny", "nano.en"]
    both = run("doctor", "tiny", "-m", "base")
    assert (both.exit_code, "expected one model; got tiny and --model base" in both.stderr) == (2, True)


def test_a_narrow_terminal_loses_no_verdict(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    found(monkeypatch, GOOD, BAD)
    out = run("doctor").stdout
    assert (out.count("passed"), out.count("FAILED"), out.count("…")) == (1, 1, 0)


@pytest.mark.parametrize(("threads", "said"), [(1, "1 thread)"), (2, "2 threads)")])
def test_threads_are_counted(run: Run, monkeypatch: pytest.MonkeyPatch, threads: int, said: str) -> None:
    found(monkeypatch, speed=replace(SPEED, threads=threads))
    assert f"speed of nano.en (int8, cpu, {said}" in run("doctor").stdout


def test_a_busy_machine_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, speed=Speed("nano.en", "int8", "cpu", 2, 0.06, 0.006, 0.002, 0.003, 0.004, 3.0))
    assert "busy" in run("doctor").stdout


def test_a_model_that_computes_something_else_is_a_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, GOOD, BAD)
    result = run("doctor")
    assert result.exit_code == 1
    assert (result.stdout.count("passed"), result.stdout.count("FAILED")) == (1, 1)


def test_json_has_the_verdicts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, GOOD, BAD)
    result = run("doctor", "--json")
    data = json.loads(result.stdout)
    assert result.exit_code == 1
    assert data["healthy"] is False
    assert [check["passed"] for check in data["parity"]] == [True, False]
    assert data["parity"][0]["limits"] == {"largest_error": None, "mean_error": 0.5, "agreement": 0.9}
    assert data["live"][0]["verdict"] == "yes"
    assert data["speed"]["encode_30s"] == 0.06
    assert data["machine"]["providers"] == ["cpu"]
    assert data["framing"] == {"recipe": "tide", "name": "bare", "why": WHY, "step_s": 0.4}


def test_json_of_an_engine_that_computes_no_numbers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, replace(GOOD, largest_error=math.nan, mean_error=math.nan, agreement=0.0))
    result = run("doctor", "--json")
    (check,) = json.loads(result.stdout, parse_constant=pytest.fail)["parity"]  # JSON has no NaN
    assert (result.exit_code, check["passed"], check["mean_error"], check["agreement"]) == (1, False, None, 0.0)


def test_the_machine_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mic, "list_devices", lambda: [mic.InputDevice(0, "USB", 1, 48_000, True)])
    machine = look_at_machine()
    assert "cpu" in machine.providers
    assert machine.packages["onnxruntime"]
    assert (machine.microphones, machine.microphone_problem) == (["USB (48000 Hz)"], "")


def test_a_microphone_problem_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> object:
        raise AudioDeviceError("expected PortAudio")

    monkeypatch.setattr(mic, "list_devices", missing)
    assert look_at_machine().microphone_problem == "expected PortAudio"
    monkeypatch.setattr(mic, "list_devices", list)
    assert look_at_machine().microphone_problem == "none found"


def test_an_unknown_model_is_a_model_problem(run: Run) -> None:
    result = run("doctor", "bass.en")
    assert (result.exit_code, "did you mean" in result.stderr) == (4, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("knows", "encode_s", "said"),
    [
        (True, 9.0, "bare windows, because this checkpoint was trained on short windows"),
        (
            False,
            0.12,
            "merged padding of 128 frames and the backward-shift guard, because this checkpoint was not trained on",
        ),
    ],
)
def test_it_says_how_windows_are_framed_and_why(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, knows: bool, encode_s: float, said: str
) -> None:
    monkeypatch.setattr(speed_of, "measure_speed", lambda model: replace(SPEED, model=model.name, encode_30s=encode_s))
    monkeypatch.setattr(parity_checks, "check_parity", lambda *_: [])
    result = run("doctor", "nano.en" if knows else without_short_windows(tmp_path))
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    assert f"framing of tide {said}" in shown


def test_a_tuned_model_is_measured_and_judged_as_it_is_heard(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the threads that `listen` would use, and in the framing and with the step that were found."""
    options, model = EngineOptions(), load("nano.en").model
    tuned = Calibration({"framing": "zeros", "zeros_s": 1.0}, "it was", pace={machine_of(options): Pace(1, 0.6)})
    remember(model.content_hash, tuned)
    measured: list[int] = []

    def measure(model: WhisperModel) -> Speed:
        measured.append(model.options.threads)
        return replace(SPEED, encode_30s=9.0)

    monkeypatch.setattr(speed_of, "measure_speed", measure)
    monkeypatch.setattr(parity_checks, "check_parity", lambda *_: [])
    data = json.loads(run("doctor", "nano.en", "--json").stdout)
    assert measured == [1]
    assert data["framing"]["why"] == (
        "1 s of padding, because it was; 1 thread and a step of 0.6 s, as timed here; "
        "words confirmed by the shipped rule"
    )
    assert data["framing"]["step_s"] == 0.6
    tide = next(item for item in data["live"] if item["measured"] and item["recipe"] == "tide")
    assert tide["load"] == pytest.approx(tide["round_s"] / 0.6)


@pytest.mark.slow
def test_the_bundled_model_is_healthy(run: Run) -> None:
    result = run("doctor", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["healthy"] is True
    assert live_estimate.RULE
