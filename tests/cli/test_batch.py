"""`whispertide batch` with the bundled model, as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner, Result

from whispertide.batch.archive import Provenance, open_archive
from whispertide.batch.plan import Task
from whispertide.batch.worker import Outcome, Setup, Translation
from whispertide.checkpoint import load_checkpoint
from whispertide.cli import batch as command
from whispertide.cli.main import app
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.translation.translator import TranslationOptions

CLIPS = Path(__file__).parents[1] / "clips"
QUIET, RIVER, LONG = (CLIPS / f"{name}.flac" for name in ("quiet", "river", "long"))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["batch", *map(str, arguments), "-m", "nano.en"])


def test_a_warning_names_its_recording_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of a file name it already, those of a translator do not."""
    outcome = Outcome("done", "text", notes=("/talks/a.wav: 5 samples were not numbers", "no translation"))
    task = Task("/talks/a.wav", PurePosixPath("a.txt"))
    kept: Any = SimpleNamespace(keep=lambda *_: SimpleNamespace(reason=""))
    monkeypatch.setattr("whispertide.batch.dispatch.transcribe_all", lambda *_: [(task, outcome)])
    monkeypatch.setattr(command, "_start_workers", lambda *_: nullcontext())
    command._run([task], kept, cast(Any, None), "local", None, None)
    assert capsys.readouterr().err.splitlines() == [
        "warning: /talks/a.wav: 5 samples were not numbers",
        "warning: /talks/a.wav: no translation",
    ]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings in folders, one that is none, and what a run made of them in `out`."""
    folder = tmp_path_factory.mktemp("archive")
    for place, source in {"talks/may/quiet.flac": QUIET, "talks/river.flac": RIVER}.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(source.read_bytes())
    (folder / "talks/bad.wav").write_text("no audio")
    result = run(folder / "talks", "-o", folder / "out")
    assert (result.exit_code, result.stdout) == (3, "")
    (folder / "said").write_text(result.stderr)
    return folder


def entries(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "_batch/report.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_every_recording_has_the_transcript_that_transcribe_writes(archive: Path) -> None:
    out = archive / "out"
    files = [path for path in out.rglob("*") if path.is_file() and "_batch" not in path.parts]
    assert sorted(str(path.relative_to(out)) for path in files) == ["may/quiet.txt", "river.txt"]
    whole = CliRunner().invoke(app, ["transcribe", str(QUIET), str(RIVER), "-m", "nano.en"])
    assert (out / "may/quiet.txt").read_text() + (out / "river.txt").read_text() == whole.stdout


@pytest.mark.slow
def test_what_failed_is_in_the_report_and_in_the_summary(archive: Path) -> None:
    failed = [entry for entry in entries(archive / "out") if entry["state"] != "done"]
    assert [(entry["input"], entry["output"], entry["state"]) for entry in failed] == [
        (str(archive / "talks/bad.wav"), None, "unusable")
    ]
    said = (archive / "said").read_text()
    assert f"unusable: {archive}/talks/bad.wav: expected audio" in said
    assert "3 recordings, 0:10 of audio: 2 done, 1 unusable; report: " in said


@pytest.mark.slow
def test_the_same_command_does_what_is_left_and_no_more(archive: Path) -> None:
    out = archive / "out"
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.txt")}
    result = run(archive / "talks", "-o", out)
    assert result.exit_code == 3
    assert "1 of 3 recordings to transcribe" in result.stderr  # the bad one is tried again
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.txt")} == before


def test_the_summary_of_one_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = Task("/talks/a.wav", PurePosixPath("a.txt"))
    entry = SimpleNamespace(state="done", audio_s=10.1)
    command._report([task], cast(Any, SimpleNamespace(entries=lambda _: [entry], report="report.jsonl")))
    assert capsys.readouterr().err == "1 recording, 0:10 of audio: 1 done; report: report.jsonl\n"


def test_other_options_do_not_mix(tmp_path: Path) -> None:
    made = Provenance("nano.en", load_checkpoint("nano.en").content_hash, "int8", "txt", None, "transcribe", "", beam=5)
    with open_archive(tmp_path / "out", made, ()):
        pass
    for options, changes in ((("-f", "srt"), "format: 'txt' then, 'srt' now"), (("--fast",), "beam: 5 then, 1 now")):
        result = run(QUIET, "-o", tmp_path / "out", *options)
        assert result.exit_code == 5
        assert f"made with other options ({changes})" in result.stderr


def test_usage_is_checked_before_any_model_is_loaded(tmp_path: Path, loads: list[object]) -> None:
    for arguments, said in (
        ((QUIET, "--address", "here:6379"), "add --engine ray"),
        ((QUIET, QUIET.parent.parent / "clips2" / "quiet.flac"), "would both become quiet.txt"),
        (("",), "expected a file"),
    ):
        result = run(*arguments, "-o", tmp_path / "out")
        assert result.exit_code == 2
        assert said in result.stderr
    assert loads == []
    assert not (tmp_path / "out").exists()


def test_a_recording_that_is_not_there_is_told_before_any_model_is_loaded(tmp_path: Path, loads: list[object]) -> None:
    result = run(tmp_path / "talk.wav", "-o", tmp_path / "out")
    assert (result.exit_code, "talk.wav: there is no such file" in result.stderr) == (3, True)
    assert loads == []
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_is_told_before_any_model_is_loaded(tmp_path: Path, loads: list[object]) -> None:
    (tmp_path / "file").touch()
    for name, said in {"file": "cannot be written", "misspelt/out": "does not exist"}.items():
        result = run(QUIET, "-o", tmp_path / name)
        assert (result.exit_code, said in result.stderr) == (5, True)
    assert loads == []


def test_a_name_of_this_program_comes_before_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("nano.en", "tiny", "mine"):
        (tmp_path / name).mkdir()
    model = SimpleNamespace(content_hash="hash")
    transcriber: Any = SimpleNamespace(is_bundled=False, model=model, tokenizer=SimpleNamespace(language=str))

    def given(name: str) -> str:
        return command._setup(transcriber, name, None, EngineOptions(), DecodeOptions(), "txt").model

    assert [given(name) for name in ("nano.en", "tiny", "org/model")] == ["nano.en", "tiny", "org/model"]
    assert [given(name) for name in ("./tiny", "mine")] == [str(tmp_path / "tiny"), str(tmp_path / "mine")]


def test_a_model_whose_name_is_not_utf_8_can_be_noted() -> None:
    transcriber: Any = SimpleNamespace(name="caf\udce9")
    translation = Translation(TranslationOptions("fr"), "/caf\udce9")
    setup = Setup("x", None, EngineOptions(), DecodeOptions(), "txt", "hash", translation)
    assert command._made(transcriber, setup).model == "caf\ufffd"
    assert command._made(transcriber, setup).translator == "/caf\ufffd"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals and pipes")
@pytest.mark.parametrize("end", ["SIGINT", "SIGKILL"])
def test_after_ctrl_c_or_a_kill_the_same_command_goes_on(tmp_path: Path, end: str) -> None:
    out = tmp_path / "out"
    inputs = [tmp_path / f"{number}.flac" for number in range(3)]
    for path in inputs[:2]:
        path.write_bytes(QUIET.read_bytes())
    os.mkfifo(inputs[2])  # the last, as it has no size; whoever opens it waits for ever
    command = [
        sys.executable,
        "-m",
        "whispertide.cli.main",
        "batch",
        *map(str, inputs),
        "-o",
        str(out),
        "-m",
        "nano.en",
    ]
    first = subprocess.Popen([*command, "--workers", "1"], stderr=subprocess.PIPE, text=True)
    open_archive = None
    while open_archive is None:  # by a worker: then the two before are done, and the command knows it
        assert first.poll() is None
        time.sleep(0.01)
        with suppress(OSError):
            open_archive = os.open(inputs[2], os.O_WRONLY | os.O_NONBLOCK)
    first.send_signal(signal.Signals[end])
    _, said = first.communicate(timeout=120)  # until the workers have ended, too: they hold its standard error
    os.close(open_archive)
    assert first.returncode == {"SIGINT": 130, "SIGKILL": -9}[end]
    assert ("2 of 3 recordings are done; the same command continues with the others" in said) == (end == "SIGINT")
    inputs[2].unlink()
    inputs[2].write_bytes(QUIET.read_bytes())
    result = run(*inputs, "-o", out)
    assert result.exit_code == 0
    assert "1 of 3 recordings to transcribe" in result.stderr
    assert sorted(str(entry["output"]) for entry in entries(out)) == ["0.txt", "1.txt", "2.txt"]  # each once
    assert len({(out / f"{number}.txt").read_text() for number in range(3)}) == 1
