"""A call with a speaker on each channel, heard apart."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import Run
from fake_transcriber import HALF, FakeTranscriber
from sounds import make_wav
from whispertide.decoding.longform import OfflineSegment
from whispertide.types import FloatArray, Span, Word

Loads = list[tuple[str, dict[str, object]]]


def hears_loud_halves(audio: Iterable[FloatArray], **settings: Any) -> Iterator[OfflineSegment]:
    """A word for each half of a second in which somebody speaks, by its number."""
    samples = np.concatenate(list(audio))
    for number in range(len(samples) // HALF):
        start = number * HALF
        if np.abs(samples[start : start + HALF]).max() > 0.05:
            words = (Word(f" half{number}.", start, start + HALF),)
            yield OfflineSegment(number, Span(start, start + HALF), words[0].text, (), words, -0.1, 1, 0, 0, "en")


@pytest.fixture
def call(tmp_path: Path, transcriber: FakeTranscriber, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The left channel speaks in the halves 0, 1 and 4, the right one in 2, 3 and 4: at once with the left one."""
    monkeypatch.setattr(transcriber, "transcribe_segments", hears_loud_halves)
    sound = np.zeros((6 * HALF, 2), np.float32)
    for channel, halves in enumerate(((0, 1, 4), (2, 3, 4))):
        for half in halves:
            sound[half * HALF : (half + 1) * HALF, channel] = 0.3
    path = tmp_path / "call.wav"
    path.write_bytes(make_wav(sound, 16_000, "f32"))
    return path


def test_each_channel_is_a_speaker(run: Run, call: Path) -> None:
    result = run("transcribe", call, "--multichannel", "-f", "json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    heard = [(segment["speaker"], segment["text"].strip()) for segment in document["segments"]]
    assert heard[:4] == [(1, "half0."), (1, "half1."), (2, "half2."), (2, "half3.")]
    assert sorted(heard[4:]) == [(1, "half4."), (2, "half4.")], "who speaks at once is heard, too"
    assert {word["speaker"] for word in document["words"]} == {1, 2}
    assert document["duration"] == 3


def test_text_and_subtitles_name_them(run: Run, call: Path) -> None:
    text = run("transcribe", call, "--multichannel").stdout.splitlines()
    assert text[0] == "Speaker 1: half0."
    assert "<v Speaker 2>half2." in run("transcribe", call, "--multichannel", "-f", "vtt").stdout


def test_what_breaks_in_the_second_channel_keeps_the_first(
    run: Run, call: Path, tmp_path: Path, transcriber: FakeTranscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(audio: Iterable[FloatArray], **settings: Any) -> Iterator[OfflineSegment]:
        for segment in hears_loud_halves(audio):
            if segment.text == " half3.":
                raise KeyboardInterrupt
            yield segment

    monkeypatch.setattr(transcriber, "transcribe_segments", breaks)
    result = run("transcribe", call, "--multichannel", "-o", tmp_path / "call.txt")
    assert result.exit_code == 130
    kept = (tmp_path / "call.partial.txt").read_text().splitlines()
    assert kept == ["Speaker 1: half0.", "Speaker 1: half1.", "Speaker 2: half2.", "Speaker 1: half4."]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--pace", "live"), "for whole recordings"),
        (("--recipe", "tide"), "for whole recordings"),
        (("--speakers", "2"), "got both"),
    ],
)
def test_what_does_not_go_with_it(
    run: Run, call: Path, loads: Loads, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], told: str
) -> None:
    monkeypatch.setattr("whispertide.speakers.embedding.find_embedding", lambda: None)
    result = run("transcribe", call, "--multichannel", *options)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())
    assert not loads


def test_standard_input_can_be_read_once(run: Run, call: Path) -> None:
    result = run("transcribe", "-", "--multichannel", stdin=call.read_bytes())
    assert result.exit_code == 2
    assert "expected a file with --multichannel" in " ".join(result.stderr.split())


def test_one_channel_is_none_of_two(run: Run, talk: Path) -> None:
    result = run("transcribe", talk, "--multichannel")
    assert result.exit_code == 3
    assert "expected two channels or more" in result.stderr
