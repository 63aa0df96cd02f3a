"""Audio that `transcribe` reads from a pipe or from standard input."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from command_line import MODES, SIX, STREAMED, Run
from whispertide.cli import transcribe as transcribe_command
from whispertide.cli.transcribe import hinting
from whispertide.types import SAMPLE_RATE


def pcm(duration_s: float) -> bytes:
    return np.full(round(duration_s * SAMPLE_RATE), 100, "<i2").tobytes()


def test_raw_audio_on_standard_input(run: Run) -> None:
    assert run("transcribe", "-", "--rate", 16000, stdin=pcm(2)).stdout == "word0 word1 word2 word3\n"
    assert run("transcribe", "-", "--rate", 8000, "--channels", 2, stdin=pcm(2)).stdout == "word0 word1 word2 word3\n"


@pytest.mark.parametrize("mode", [*MODES, ("--pace", "live")])
def test_a_file_on_standard_input(run: Run, talk: Path, mode: tuple[str, ...]) -> None:
    assert run("transcribe", "-", *mode, stdin=talk.read_bytes()).stdout.split() == SIX.split()


@pytest.mark.parametrize("arguments", [["--rate", "16000"], []])
def test_nothing_on_standard_input_is_an_error(run: Run, arguments: list[str]) -> None:
    result = run("transcribe", "-", *arguments, stdin=b"")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("error: ")


def test_an_address_is_not_taken_for_a_path(run: Run) -> None:
    result = run("transcribe", "https://example.com/talk.mp3")
    assert result.exit_code == 3
    assert "download it first" in result.stderr
    assert "`whispertide batch https://example.com/talk.mp3 -o FOLDER`" in result.stderr


def test_who_waits_for_the_end_of_a_pipe_is_told_how_to_see_text_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    blocks, now = [np.full(1600, value, np.float32) for value in range(4)], iter([100.0, 102.0, 105.0, 110.0])
    assert [block[0] for block in hinting(blocks, now.__next__)] == [0, 1, 2, 3]
    assert capsys.readouterr().err == "reading the whole input first; for text during the input add --pace live\n"
    assert len(list(hinting(blocks, lambda: 100.0))) == 4
    assert capsys.readouterr().err == ""


def test_a_pipe_that_is_read_to_its_end_is_hinted_at(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcribe_command, "_PATIENCE_S", 0.0)
    hint = "add --pace live"
    assert hint in run("transcribe", "-", "--rate", 16000, stdin=pcm(2)).stderr
    assert hint not in run("transcribe", "-", "--rate", 16000, *STREAMED, stdin=pcm(2)).stderr


def test_raw_audio_without_its_rate_says_what_is_missing(run: Run, tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 256, 40_000, np.uint8).tobytes()
    result = run("transcribe", "-", stdin=noise)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "raw PCM" in result.stderr
    assert "--rate 16000" in result.stderr
    (tmp_path / "talk.pcm").write_bytes(noise)
    result = run("transcribe", tmp_path / "talk.pcm")
    assert f"whispertide transcribe - --rate 16000 < {tmp_path / 'talk.pcm'}" in result.stderr


def test_standard_input_is_read_once(run: Run) -> None:
    assert run("transcribe", "-", "-", "--rate", 16000, stdin=pcm(1)).exit_code == 2


def test_half_a_sample_at_the_end_of_standard_input_is_told(run: Run) -> None:
    result = run("transcribe", "-", "--rate", 16000, stdin=pcm(1) + b"\0")
    assert (result.exit_code, result.stdout) == (6, "word0 word1\n")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("mode", [*MODES, ("--pace", "live")])
def test_a_named_pipe_is_read_as_it_is_written(run: Run, talk: Path, tmp_path: Path, mode: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe.wav"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(talk.read_bytes()), daemon=True)
    writer.start()
    assert run("transcribe", pipe, *mode).stdout.split() == SIX.split()
    writer.join(timeout=60)
