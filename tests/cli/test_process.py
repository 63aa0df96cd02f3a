"""The command line as a program of its own: signals, pipes, exit codes, terminals."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from command_line import write_wav
from read_transcripts import parse_json, parse_jsonl
from whispertide.types import SAMPLE_RATE

PROGRAM = [sys.executable, str(Path(__file__).parents[1] / "support" / "fake_transcriber.py")]


@dataclass
class Running:
    process: subprocess.Popen[bytes]
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]

    def finish(self) -> tuple[int, bytes, bytes]:
        """Exit code and what is left to read."""
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err

    def send(self, duration_s: float) -> None:
        """Raw silence at 16 kHz."""
        self.stdin.write(np.zeros(round(duration_s * SAMPLE_RATE), "<i2").tobytes())
        self.stdin.flush()


pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals and pipes")


@contextmanager
def started(*arguments: object, **environment: str) -> Iterator[Running]:
    process = subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        yield Running(process, process.stdin, process.stdout, process.stderr)
        process.kill()


@pytest.fixture
def long_talk(tmp_path: Path) -> Path:
    return write_wav(tmp_path / "long.wav", 60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pace", "number"), [("max", signal.SIGINT), pytest.param("live", signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_ctrl_c_keeps_what_is_confirmed(long_talk: Path, number: int, pace: str) -> None:
    with started("transcribe", long_talk, "--pace", pace, "-f", "jsonl", FAKE_DELAY_S="0.05") as program:
        before = b"".join(program.stdout.readline() for _ in range(4))
        program.process.send_signal(number)
        code, out, err = program.finish()
    assert code == 130
    assert b"interrupted after 0:" in err
    assert b" of 1:00" in err
    assert b"Traceback" not in err
    document = parse_jsonl((before + out).decode())
    assert document.text.startswith("word0")
    assert not document.complete


@pytest.mark.slow
@pytest.mark.parametrize("mode", [(), ("--pace", "max")])
def test_an_interrupted_file_does_not_look_whole(long_talk: Path, tmp_path: Path, mode: tuple[str, ...]) -> None:
    out = tmp_path / "out.json"
    out.write_text("the whole one of yesterday")
    sign = tmp_path / "sign" / "words"
    sign.parent.mkdir()
    with started("transcribe", long_talk, "-o", out, *mode, FAKE_DELAY_S="0.1", FAKE_HAS_WORDS=str(sign)) as program:
        deadline = time.monotonic() + 60
        while not sign.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        program.process.send_signal(signal.SIGINT)
        code, _, err = program.finish()
    assert code == 130
    assert b"interrupted after 0:" in err
    assert b"out.partial.json" in err
    assert out.read_text() == "the whole one of yesterday"
    partial = parse_json((tmp_path / "out.partial.json").read_text())
    assert partial.text.startswith("word0")
    assert not partial.complete
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.wav", "out.json", "out.partial.json", "sign"]


@pytest.mark.slow
@pytest.mark.parametrize("pace", ["max", "live"])
def test_ctrl_c_while_waiting_for_input(pace: str) -> None:
    with started("transcribe", "-", "--rate", "16000", "--pace", pace) as program:
        program.send(12)
        assert program.stdout.readline().startswith(b"word0")
        program.process.send_signal(signal.SIGINT)
        code = program.process.wait(timeout=120)  # its input is still open
        assert (code, b"Traceback" in program.stderr.read()) == (130, False)


@pytest.mark.slow
def test_several_files_stop_at_the_interrupt(long_talk: Path) -> None:
    with started("transcribe", long_talk, long_talk, "-f", "jsonl", FAKE_DELAY_S="0.05") as program:
        program.stdout.readline()
        program.process.send_signal(signal.SIGINT)
        code, _, err = program.finish()
    assert (code, err.count(b"interrupted")) == (130, 1), err


def test_raw_audio_through_a_pipe_appears_as_it_is_confirmed() -> None:
    with started("transcribe", "-", "--rate", "16000", "--pace", "live") as program:
        program.send(6)
        assert program.stdout.readline() == b" ".join(b"word%d" % n for n in range(10)) + b".\n"
        assert program.finish() == (0, b"word10 word11\n", b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("closed", "audio", "expected"),
    [
        ("2>&-", "talk.wav", (0, b"word0 word1\n", b"")),
        (">&-", "talk.wav", (0, b"", b"")),
        pytest.param("<&-", "talk.wav", (0, b"word0 word1\n", b""), marks=pytest.mark.soak),
        pytest.param("2>&-", "none.wav", (3, b"", b""), marks=pytest.mark.soak),
        ("<&- >&- 2>&-", "none.wav", (3, b"", b"")),
    ],
)
def test_a_stream_that_is_closed_is_no_bug(
    tmp_path: Path, closed: str, audio: str, expected: tuple[int, bytes, bytes]
) -> None:
    write_wav(tmp_path / "talk.wav", 1)
    assert run_redirected(closed, "transcribe", tmp_path / audio) == expected


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", ["models list", "--help"])  # what we print, and what typer prints
def test_whatever_cannot_be_printed_is_an_output_error(arguments: str) -> None:
    code, _, err = run_redirected(">/dev/full", *arguments.split())
    assert code == 5
    assert b"error: [Errno 28] No space left on device" in err
    assert b"Traceback" not in err


@pytest.mark.slow
def test_audio_from_a_closed_standard_input_is_an_audio_error() -> None:
    code, out, err = run_redirected("<&-", "transcribe", "-", "--rate", "16000")
    assert (code, out) == (3, b"")
    assert b"error: expected audio on standard input; it is closed" in err


def run_redirected(streams: str, *arguments: object) -> tuple[int, bytes, bytes]:
    """The command line, started by a shell that closes or redirects some of its streams."""
    shell = ["sh", "-c", f'exec "$@" {streams}', "sh"]
    done = subprocess.run([*shell, *PROGRAM, *map(str, arguments)], capture_output=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_output_that_is_no_terminal_has_no_escape_codes(tmp_path: Path) -> None:
    with started("transcribe", write_wav(tmp_path / "talk.wav", 1), "--pace", "live", FORCE_COLOR="1") as program:
        assert program.finish() == (0, b"word0 word1\n", b"")


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error(long_talk: Path) -> None:
    with started("transcribe", long_talk, FAKE_DELAY_S="0.2") as program:  # seconds in all: it is not done before
        program.stdout.readline()
        program.stdout.close()
        assert program.stderr.read() == b""
        assert program.process.wait(timeout=120) == 1


@pytest.mark.slow
def test_text_that_the_locale_cannot_say_is_utf_8(tmp_path: Path) -> None:
    talk = write_wav(tmp_path / "Grüße.wav", 1)
    with started("transcribe", talk, "-f", "json", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0") as program:
        code, out, err = program.finish()
    assert (code, err) == (0, b"")
    assert parse_json(out.decode()).source == "Grüße.wav"


def run_in_a_terminal(*arguments: object, **environment: str) -> bytes:
    """What the program writes to a terminal of 60 columns."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"COLUMNS": "60", "LINES": "20", "TERM": "xterm", **environment})
        os.execv(PROGRAM[0], [*PROGRAM, *map(str, arguments)])
    written = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        written += part
    os.waitpid(pid, 0)
    return written


@pytest.mark.slow
def test_a_terminal_gets_the_live_view(tmp_path: Path) -> None:
    # so long that a word or two which come late on a busy machine do not decide the median
    out = run_in_a_terminal("transcribe", write_wav(tmp_path / "talk.wav", 4), "--pace", "live", NO_COLOR="1")
    text = out.decode()
    assert "\x1b[2;3mword" in text  # the guess, dim and italic
    assert "fake.en · 0:01 of 0:04 · lag 0." in text
    assert "confirmed after 0." in text
    words = " ".join(f"word{number}" for number in range(8))
    assert text.split("\x1b[?2026h")[-1].startswith(f"\x1b[?25l\r\x1b[2K{words}\r\n\x1b[?7l\x1b[?7h\x1b[J")


@pytest.mark.slow
def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path) -> None:
    out = run_in_a_terminal("transcribe", write_wav(tmp_path / "talk.wav", 1), "--pace", "live", TERM="dumb")
    assert out == b"word0 word1\r\n"


@pytest.mark.slow
def test_a_message_on_a_terminal_does_not_break_inside_words() -> None:
    lines = run_in_a_terminal("transcribe", "talk.wav", "--set", "qqq=1").decode().splitlines()
    assert len(lines) > 5
    assert all(len(line) < 60 for line in lines)
    assert "hard_cap_s," in " ".join(lines).split()


@pytest.mark.slow
def test_the_bar_says_which_of_several_files_it_is_at(tmp_path: Path) -> None:
    (tmp_path / "talks").mkdir()
    for name in ("a", "b"):
        write_wav(tmp_path / "talks" / f"{name}.wav", 1)
    out = run_in_a_terminal("transcribe", tmp_path / "talks", "-o", tmp_path / "out", FAKE_DELAY_S="0.05")
    assert b"1/2 a.wav" in out
    assert b"2/2 b.wav" in out
