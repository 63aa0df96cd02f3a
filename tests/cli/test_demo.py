import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import Run
from whispertide.cli import pump
from whispertide.cli.bundled import bundled_audio, bundled_files, is_bundled_recording
from whispertide.cli.demo import plain, summary, word_error_rate
from whispertide.cli.main import app
from whispertide.formats.document import Document, TextSegment
from whispertide.types import SAMPLE_RATE, FloatArray


def document(text: str, **figures: object) -> Document:
    metrics = {
        "audio_s": 10.0,
        "rounds": 9,
        "real_time_factor": 0.25,
        "latency_clock": "audio",
        "confirmed_latency_median_s": 1.5,
        **figures,
    }
    return Document((TextSegment(0, 1, text),), metrics=metrics)


def test_the_demo_needs_no_download(run: Run, loads: list[tuple[str, dict[str, object]]]) -> None:
    result = run("demo", "--pace", "max")
    assert result.exit_code == 0
    assert [name for name, _ in loads] == ["nano.en"]
    assert result.stdout.startswith("word0 word1")
    seconds = len(bundled_audio()) / SAMPLE_RATE
    assert f" words in {seconds:.1f} s of audio" in result.stderr


def test_options_reach_the_demo(run: Run, loads: list[tuple[str, dict[str, object]]]) -> None:
    assert run("demo", "--pace", "max", "-m", "base.en", "--threads", "1", "--set", "step_s=0.5").exit_code == 0
    assert (loads[0][0], loads[0][1]["threads"]) == ("base.en", 1)
    assert run("demo", "--recipe", "tsunami").exit_code == 2


def test_the_bundled_recording_is_there() -> None:
    with bundled_files() as (recording, transcript):
        assert is_bundled_recording(str(recording))
        assert not is_bundled_recording(str(transcript))
        assert len(plain(transcript.read_text(encoding="utf-8")).split()) > 20
    assert 5 * SAMPLE_RATE < len(bundled_audio()) < 120 * SAMPLE_RATE
    assert not is_bundled_recording("no such file")
    assert not is_bundled_recording("x" * 300)  # nor can there be one


def test_the_bundled_model_needs_no_excuse_on_the_bundled_recording(run: Run, transcriber: object) -> None:
    transcriber.is_bundled = True  # type: ignore[attr-defined]
    with bundled_files() as (recording, _):
        assert run("transcribe", recording).stderr == ""


def test_the_summary_says_which_clock_it_used(tmp_path: Path) -> None:
    lines = summary(document("x"), tmp_path / "none.txt", bundled=False)
    assert lines == [
        "0 words in 10.0 s of audio, 9 rounds, 0.25 of real time",
        "half of the words were confirmed within 1.50 s of their end, without the time to compute",
    ]
    live = summary(document("x", latency_clock="wall"), tmp_path / "none.txt", bundled=True)
    assert live[1] == "half of the words were confirmed within 1.50 s of their end"
    assert "synthetic speech" in live[-1]
    assert len(summary(document("x", confirmed_latency_median_s=None), tmp_path / "none.txt", bundled=False)) == 1


def test_ctrl_c_before_there_was_anything_to_hear_is_no_bug(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Iterator[FloatArray]:
        signal.raise_signal(signal.SIGINT)
        yield from ()

    monkeypatch.setattr(pump, "at_live_pace", interrupted)
    result = run("demo")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.startswith("interrupted after 0:00")
    assert result.stderr.count("\n") == 1


def test_word_errors_ignore_case_and_punctuation(tmp_path: Path) -> None:
    pytest.importorskip("jiwer")
    path = tmp_path / "truth.txt"
    path.write_text("She put it on the table. It's large!")
    assert word_error_rate(path, "she put it on the table it's large") == 0
    assert word_error_rate(path, "She put it on a table. It's large!") == pytest.approx(1 / 8)
    assert "12.5% word errors" in summary(document("She put it on a table. It's large!"), path, bundled=False)[-1]


def test_without_jiwer_there_is_no_word_error_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "truth.txt"
    path.write_text("x")
    monkeypatch.setitem(sys.modules, "jiwer", None)
    assert word_error_rate(path, "x") is None


@pytest.mark.slow
def test_the_demo_runs_with_the_real_model() -> None:
    result = CliRunner().invoke(app, ["demo", "--pace", "max"])
    assert result.exit_code == 0
    with bundled_files() as (_, transcript):
        rate = word_error_rate(transcript, result.stdout)
    assert rate is None or rate < 0.6
