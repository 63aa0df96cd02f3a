import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from command_line import Run
from whispertide.checkpoint import hub
from whispertide.cli import pump
from whispertide.cli.bundled import bundled_audio, bundled_files, is_bundled_recording
from whispertide.cli.demo import plain, summary, word_error_rate
from whispertide.cli.main import app
from whispertide.errors import OutputError, UnreachableError
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


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Empty caches and no network."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "ours"))


def test_the_demo_needs_no_download(run: Run, loads: list[tuple[str, dict[str, object]]]) -> None:
    result = run("demo", "--pace", "max")
    assert result.exit_code == 0
    assert [name for name, _ in loads] == ["nano.en"]
    assert result.stdout.startswith("word0 word1")
    seconds = len(bundled_audio()) / SAMPLE_RATE
    assert f" words in {seconds:.1f} s of audio" in result.stderr
    assert result.stderr.startswith(
        "tiny.en is not downloaded, and downloads are disabled: nano.en, a small bundled model"
    )


def test_the_demo_plays_what_is_here_without_a_word(
    run: Run, loads: list[tuple[str, dict[str, object]]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hub, "path", lambda name: tmp_path / name)
    monkeypatch.setattr(hub, "resolve", pytest.fail)
    result = run("demo", "--pace", "max")
    assert [name for name, _ in loads] == ["tiny.en"]
    assert "tiny.en" not in result.stderr


def test_the_demo_downloads_a_real_model_after_saying_so(
    run: Run, loads: list[tuple[str, dict[str, object]]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def resolve(name: str, *, announce: Callable[[str], None], patience_s: float) -> Path:
        assert 0 < patience_s <= 30
        announce(f"downloading {name}")
        return tmp_path

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "resolve", resolve)
    result = run("demo", "--pace", "max")
    assert [name for name, _ in loads] == ["tiny.en"]
    said = result.stderr.splitlines()
    assert said[0].startswith("this demo uses OpenAI's tiny.en, which is downloaded once")
    assert said[1] == "downloading tiny.en"


@pytest.mark.parametrize("error", [UnreachableError("a long text", "no route"), OutputError("no route")])
def test_where_the_real_model_cannot_be_had_the_bundled_one_plays(
    run: Run, loads: list[tuple[str, dict[str, object]]], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def resolve(*_: object, **__: object) -> Path:
        raise error

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "resolve", resolve)
    result = run("demo", "--pace", "max")
    assert (result.exit_code, [name for name, _ in loads]) == (0, ["nano.en"])
    assert "tiny.en cannot be downloaded (no route): nano.en, a small bundled model" in result.stderr
    assert "whispertide models pull tiny.en" in result.stderr


def test_a_model_that_is_named_is_played(run: Run, loads: list[tuple[str, dict[str, object]]]) -> None:
    result = run("demo", "--pace", "max", "--model", "nano.en")
    assert [name for name, _ in loads] == ["nano.en"]
    assert "tiny.en" not in result.stderr


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
        "half of the words were confirmed within 1.50 s of their end, without computing time",
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
    result = run("demo", "--model", "nano.en")
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


@pytest.mark.soak  # CI runs `make demo` itself
def test_the_demo_runs_with_the_real_model() -> None:
    result = CliRunner().invoke(app, ["demo", "--model", "nano.en", "--pace", "max"])
    assert result.exit_code == 0
    with bundled_files() as (_, transcript):
        rate = word_error_rate(transcript, result.stdout)
    assert rate is None or rate < 0.6
