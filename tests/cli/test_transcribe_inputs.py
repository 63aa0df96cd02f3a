"""What `transcribe` is given: folders, and audio that is bad, cut off or unusual."""

import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from command_line import LINES, MODES, SIX, Loads, Run, write_wav
from read_transcripts import parse_json, parse_srt
from whispertide.types import SAMPLE_RATE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recordings, and what else lies in folders."""
    folder = tmp_path / "talks"
    (folder / "deeper").mkdir(parents=True)
    write_wav(folder / "b.wav", 2)
    write_wav(folder / "a.WAV", 1)
    write_wav(folder / ".hidden.wav", 1)
    write_wav(folder / "deeper" / "c.wav", 1)
    (folder / "notes.txt").write_text("about the talks")
    (folder / "video.mp4").mkdir()
    return folder


def test_a_folder_stands_for_the_recordings_in_it(run: Run, folder: Path, tmp_path: Path) -> None:
    result = run("transcribe", folder, "-f", "srt", "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    written = {path.name: parse_srt(path.read_text()).text for path in (tmp_path / "out").iterdir()}
    assert written == {"a.srt": "word0 word1", "b.srt": "word0 word1 word2 word3"}


def test_a_folder_with_one_recording_gives_a_folder_all_the_same(run: Run, folder: Path, tmp_path: Path) -> None:
    assert run("transcribe", folder / "deeper", "-o", tmp_path / "out").exit_code == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["c.txt"]


def test_a_folder_gives_a_folder_whatever_that_is_called(run: Run, folder: Path, tmp_path: Path) -> None:
    assert run("transcribe", folder, "-o", tmp_path / "v1.0").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "v1.0").iterdir()) == ["a.txt", "b.txt"]
    assert run("transcribe", folder / "deeper", "-o", tmp_path / "c.srt").exit_code == 0
    assert parse_srt((tmp_path / "c.srt").read_text()).text == "word0 word1"
    result = run("transcribe", folder, "-o", "")
    assert (result.exit_code, "got an empty name" in result.stderr) == (2, True)


@pytest.mark.parametrize("how", [[], ["--recipe", "tide"]])
def test_a_bad_file_in_a_folder_is_told_at_the_end(run: Run, folder: Path, tmp_path: Path, how: list[str]) -> None:
    (folder / "aa.mp3").write_text("no audio")
    write_wav(folder / "ab.wav", 0)  # found out only when it is decoded
    result = run("transcribe", folder, "-o", f"{tmp_path}/out/", *how)
    assert result.exit_code == 3
    assert result.stderr.splitlines()[-1] == "2 of 4 inputs could not be transcribed: aa.mp3, ab.wav"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.txt", "b.txt"]


def test_a_folder_without_recordings_says_so(run: Run, tmp_path: Path, loads: Loads) -> None:
    (tmp_path / "empty").mkdir()
    result = run("transcribe", tmp_path / "empty")
    assert (result.exit_code, result.stdout, loads) == (3, "", [])
    assert "expected recordings in this folder; there are none" in result.stderr


def empty_file(folder: Path) -> Path:
    (folder / "bad.wav").touch()
    return folder / "bad.wav"


def no_audio_in_it(folder: Path) -> Path:
    return write_wav(folder / "bad.wav", 0)


def text_file(folder: Path) -> Path:
    (folder / "bad.wav").write_text("This is not audio.\n" * 100)
    return folder / "bad.wav"


def missing(folder: Path) -> Path:
    return folder / "bad.wav"


def a_folder(folder: Path) -> Path:
    (folder / "bad.wav").mkdir()
    return folder / "bad.wav"


BAD = [empty_file, no_audio_in_it, text_file, missing, a_folder]


@pytest.mark.parametrize("make", BAD)
@pytest.mark.parametrize("mode", MODES)
def test_bad_audio_is_a_clear_error(
    run: Run, tmp_path: Path, make: Callable[[Path], Path], mode: tuple[str, ...]
) -> None:
    out = tmp_path / "out.txt"
    result = run("transcribe", make(tmp_path), "-o", out, *mode)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("error: ")
    assert "bad.wav" in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("make", [empty_file, text_file, missing, a_folder])
def test_bad_audio_is_told_before_a_model_is_downloaded(
    run: Run, tmp_path: Path, loads: Loads, make: Callable[[Path], Path]
) -> None:
    run("transcribe", make(tmp_path))
    assert loads == []


@pytest.mark.parametrize("make", BAD)
def test_one_bad_file_does_not_keep_the_others(
    run: Run, talk: Path, tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    result = run("transcribe", talk, make(tmp_path), talk)
    assert (result.exit_code, result.stdout) == (3, LINES + LINES)


@pytest.mark.parametrize("mode", MODES)
def test_a_truncated_file_is_transcribed_as_far_as_it_goes(
    run: Run, talk: Path, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    cut = tmp_path / "cut.wav"
    cut.write_bytes(talk.read_bytes()[: 44 + 2 * 2 * SAMPLE_RATE])
    result = run("transcribe", cut, "-o", tmp_path / "out.json", *mode)
    assert result.exit_code == 6
    assert "cut off" in result.stderr
    document = parse_json((tmp_path / "out.json").read_text())
    assert (document.text, document.complete) == ("word0 word1 word2 word3", False)


@pytest.mark.parametrize("mode", MODES)
def test_a_name_that_no_file_can_have_does_not_keep_the_others(
    run: Run, talk: Path, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    result = run("transcribe", tmp_path / ("x" * 300 + ".wav"), talk, *mode)
    assert (result.exit_code, result.stdout.split()) == (3, SIX.split())
    assert "the file cannot be opened: File name too long" in result.stderr


def test_samples_that_are_no_numbers_are_told(run: Run, tmp_path: Path) -> None:
    samples = np.zeros(SAMPLE_RATE, "<f4")
    samples[100:110] = np.nan
    result = run("transcribe", "-", "--rate", 16000, "--sample-format", "f32le", stdin=samples.tobytes())
    assert (result.exit_code, result.stdout) == (0, "word0 word1\n")
    assert "warning: " in result.stderr
    assert "10 samples were not numbers" in result.stderr


@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (192_000, 2), (44_100, 8)])
def test_any_rate_and_any_number_of_channels(run: Run, tmp_path: Path, rate: int, channels: int) -> None:
    path = tmp_path / "talk.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 3, rate, 0, "NONE", ""))  # 24 bit
        file.writeframes(bytes(3 * channels * rate))
    assert run("transcribe", path).stdout == "word0 word1\n"
