"""Commands at a real terminal, where bars are drawn and somebody may be asked: in all other tests there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TALK = Path(__file__).parents[1] / "clips" / "quiet.flac"
pty = pytest.importorskip("pty", reason="Windows has no such terminals")
WAIT_S = 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("tune", "nano.en", "--short"), "tide uses", marks=pytest.mark.soak),
        (("transcribe", str(TALK), "-m", "nano.en", "--recipe", "tide"), "summer"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_command_at_a_terminal(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "WHISPERTIDE_CACHE": str(tmp_path / "cache"), "TERM": "xterm", "COLUMNS": "120"}
    command = (sys.executable, "-m", "whispertide.cli.main", *arguments)
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, env=environment)
    os.close(theirs)
    shown = b"".join(iter(lambda: read(ours), b"")).decode(errors="replace")
    assert process.wait(WAIT_S) == 0, shown[-2000:]
    assert said in shown


def read(terminal: int) -> bytes:
    """What was written to it; nothing at its end."""
    try:
        return os.read(terminal, 2**16)
    except OSError:  # Linux says so where nobody has it open any more
        return b""
