"""What `transcribe` leaves when it is broken off or cannot write."""

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from command_line import MODES, SIX, STREAMED, Run, write_wav
from fake_transcriber import FakeTranscriber
from read_transcripts import parse_json, parse_srt
from whispertide.cli import job
from whispertide.cli.output import Writer
from whispertide.errors import OutputError
from whispertide.formats.files import FORMATS


def test_what_is_kept_of_a_failed_run_is_kept_in_every_format(
    run: Run, talk: Path, tmp_path: Path, transcriber: FakeTranscriber
) -> None:
    transcriber.fail_at = 2.0
    assert run("transcribe", talk, *STREAMED, "-o", f"{tmp_path}/out/", "-f", "srt,txt").exit_code == 4
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["talk.partial.srt", "talk.partial.txt"]


def test_a_format_that_cannot_be_written_does_not_cost_the_others(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Writer.write

    def full(self: Writer, text: str) -> None:
        if self.target.format == "srt":
            raise OutputError("cannot write talk.srt: no room")
        write(self, text)

    monkeypatch.setattr(Writer, "write", full)
    result = run("transcribe", talk, "-o", f"{tmp_path}/out/", "-f", "srt,txt,json")
    assert (result.exit_code, "talk.srt: no room" in result.stderr) == (5, True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["talk.json", "talk.txt"]


def test_an_output_that_cannot_be_written_does_not_stop_the_others(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = write_wav(tmp_path / "second.wav", 2)
    start = Writer._start

    def full(self: Writer) -> Any:
        if self.destination.endswith("talk.txt"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return start(self)

    monkeypatch.setattr(Writer, "_start", full)
    result = run("transcribe", talk, second, "-o", f"{tmp_path}/out/")
    assert result.exit_code == 5
    assert "No space left" in result.stderr
    assert result.stderr.endswith("1 of 2 inputs could not be transcribed: talk.wav\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["second.txt"]


def test_a_failing_engine_leaves_what_was_confirmed(
    run: Run, talk: Path, tmp_path: Path, transcriber: FakeTranscriber
) -> None:
    transcriber.fail_at = 2.0
    result = run("transcribe", talk, *STREAMED, "-o", tmp_path / "out.json")
    assert (result.exit_code, result.stderr) == (4, "error: the graph decoder.onnx failed\n")
    partial = parse_json((tmp_path / "out.partial.json").read_text())
    assert (partial.text, partial.complete) == ("word0 word1", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.partial.json", "talk.wav"]


def pressing_ctrl_c(render: Callable[..., Any]) -> Callable[..., Any]:
    def pressed(*values: Any) -> Any:
        for _ in range(3):  # somebody is impatient
            signal.raise_signal(signal.SIGINT)
        return render(*values)

    return pressed


@pytest.mark.parametrize("mode", MODES)
def test_ctrl_c_while_a_transcript_is_saved_does_not_lose_it(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]
) -> None:
    monkeypatch.setitem(FORMATS, "srt", pressing_ctrl_c(FORMATS["srt"]))
    result = run(
        "transcribe", talk, write_wav(tmp_path / "second.wav", 2), "-f", "srt", "-o", f"{tmp_path}/out/", *mode
    )
    assert (result.exit_code, result.stderr) == (130, f"interrupted; the transcript is in {tmp_path}/out/talk.srt\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["talk.srt"]
    assert parse_srt((tmp_path / "out/talk.srt").read_text()).text == SIX


def test_ctrl_c_while_a_failed_run_is_saved_does_not_lose_it(
    run: Run, talk: Path, tmp_path: Path, transcriber: FakeTranscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcriber.fail_at = 2.0
    monkeypatch.setitem(FORMATS, "json", pressing_ctrl_c(FORMATS["json"]))
    assert run("transcribe", talk, *STREAMED, "-o", tmp_path / "out.json").exit_code == 4
    assert parse_json((tmp_path / "out.partial.json").read_text()).text == "word0 word1"


def press_while_the_view_is_closed(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Have Ctrl-C pressed so often."""
    shown = job.StreamJob._shown

    @contextmanager
    def closed_late(*values: Any) -> Iterator[None]:
        with shown(*values):
            yield
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(job.StreamJob, "_shown", closed_late)


def test_ctrl_c_while_the_view_is_closed_does_not_lose_the_transcript(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    press_while_the_view_is_closed(monkeypatch, 1)
    result = run("transcribe", talk, *STREAMED, "-o", tmp_path / "out.txt")
    assert (result.exit_code, (tmp_path / "out.txt").read_text()) == (130, SIX + "\n")


def test_ctrl_c_twice_while_the_view_is_closed_keeps_what_was_heard(
    run: Run, talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    press_while_the_view_is_closed(monkeypatch, 2)
    result = run("transcribe", talk, *STREAMED, "-o", tmp_path / "out.txt")
    assert (result.exit_code, (tmp_path / "out.partial.txt").read_text()) == (130, SIX + "\n")


def test_a_disk_that_becomes_full_leaves_what_was_written_before(run: Run, talk: Path, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len("word0 word1 word2 word3\n"), limits[1]))
    try:
        result = run("transcribe", talk, "-o", tmp_path / "out.txt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.exit_code == 5
    assert (tmp_path / "out.partial.txt").read_text() == "word0 word1 word2 word3\n"
