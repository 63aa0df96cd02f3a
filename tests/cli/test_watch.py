import io
from pathlib import Path

import pytest
from rich.console import Console

from each_row import each_row
from whispertide.cli.meter import Meter
from whispertide.cli.output import Target, Writer
from whispertide.cli.watch import EventLines, ProgressBar, TextLines, Warnings, choose_view, terminal
from whispertide.events import End, Error
from whispertide.formats.document import segment_words
from whispertide.types import SAMPLE_RATE, Word

OUT = Path("talk.srt")


@each_row(
    ("path", "form", "live", "out", "err", "expected"),
    [
        (None, "txt", False, True, True, "live on stdout"),
        (None, "txt", True, True, True, "live on stdout"),
        (OUT, "srt", True, True, True, "live on stdout"),
        (OUT, "srt", False, True, True, "progress"),
        (None, "json", False, True, True, "progress"),
        (None, "json", True, True, True, "live on stderr"),
        (None, "jsonl", True, True, True, "none"),
        (None, "txt", False, False, True, "progress"),
        (None, "txt", True, False, True, "live on stderr"),
        (None, "txt", True, False, False, "none"),
        (OUT, "srt", True, False, False, "none"),
        (None, "txt", True, True, False, "live on stdout"),
    ],
)
def test_the_view_never_mixes_with_the_transcript(
    path: Path | None, form: str, live: bool, out: bool, err: bool, expected: str
) -> None:
    assert choose_view(Target(path, form), live=live, out_is_terminal=out, err_is_terminal=err) == expected


def test_a_pipe_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal(io.StringIO()) is None

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    for variable in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal(Screen()) is not None
    monkeypatch.setenv("TERM", "dumb")
    assert terminal(Screen()) is None


def test_lines_are_written_as_they_come(tmp_path: Path) -> None:
    writer = Writer(Target(tmp_path / "a.txt", "txt"))
    TextLines(writer).lines(segment_words([Word(" One.", 0, 100), Word(" Two.", 100, 200)]))
    writer.finish()
    assert (tmp_path / "a.txt").read_text() == "One.\nTwo.\n"


def test_events_are_written_as_they_come(tmp_path: Path) -> None:
    writer = Writer(Target(tmp_path / "a.jsonl", "jsonl"))
    EventLines(writer).event(End(3, SAMPLE_RATE, SAMPLE_RATE))
    writer.finish()
    assert (tmp_path / "a.jsonl").read_text() == '{"type":"end","seq":3,"at":1.0,"duration":1.0}\n'


def test_a_failure_in_mid_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Warnings().event(Error(0, 0, "one round failed", fatal=False))
    assert capsys.readouterr().err == "warning: one round failed\n"


def test_the_bar_shows_how_far_and_how_fast() -> None:
    screen = io.StringIO()
    bar = ProgressBar(Console(file=screen, force_terminal=True, width=100), "talk[1].wav", 60.0).open()
    meter = Meter(live=False, clock=iter([0.0, 0.0, 10.0, 10.0, 10.0]).__next__, cpu=lambda: 0.0)
    meter.audio(30 * SAMPLE_RATE)
    bar.tick(meter)
    bar._bar.refresh()
    bar.close()
    assert "talk[1].wav" in screen.getvalue()
    assert "0:30 · 3.0x real time" in screen.getvalue()
