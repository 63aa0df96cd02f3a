import os
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from audio.test_file import two_tracks
from sounds import make_wav, tone
from whispertide.cli import source as sources
from whispertide.cli.exit import ExitCode, report
from whispertide.cli.source import Source
from whispertide.errors import AudioFileError
from whispertide.types import SAMPLE_RATE


def test_which_of_several_tracks_is_heard_is_said_once_nobody_has_chosen(tmp_path: Path) -> None:
    film = two_tracks(tmp_path / "film.mka")
    said = Source(str(film)).which_track()
    assert said.startswith("film.mka: 2 audio tracks: 1 (eng), 2 (ger); transcribing track ")
    assert said.endswith("For another one: --track N")
    assert Source(str(film), track=2).which_track() == ""


def test_of_one_track_nothing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(tone(0.2), SAMPLE_RATE))
    assert Source(str(path)).which_track() == ""


def test_the_chosen_track_is_read(tmp_path: Path) -> None:
    film = str(two_tracks(tmp_path / "film.mka"))
    first, second = (np.concatenate(list(Source(film, track=number).blocks())) for number in (1, 2))
    assert not np.allclose(first, second)
    with pytest.raises(AudioFileError, match="expected a track from 1 to 2; got 5"):
        next(Source(film, track=5).blocks())


@pytest.mark.parametrize("piped", [False, True])
def test_standard_input_without_audio_is_named_once(
    piped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`< empty.wav`, and a program that writes nothing."""
    number, writing = os.pipe()
    os.close(writing)
    (empty := tmp_path / "empty.wav").touch()
    with open(number) as pipe, empty.open() as file, ExitStack() as closing:
        monkeypatch.setattr(sys, "stdin", pipe if piped else file)
        opened = closing.enter_context(sources._stdin_bytes())  # which a command leaves open until it ends
        monkeypatch.setattr(sources, "_stdin_bytes", lambda: opened)
        source = Source("-")
        with pytest.raises(AudioFileError) as raised:
            next(source.blocks())
        assert report(raised.value, about=source.label) is ExitCode.AUDIO
    said = capsys.readouterr().err
    assert said.startswith(f"error: standard input: {'expected audio' if piped else 'the file is empty (0 bytes)'}")
    assert "the input" not in said
    # Other commands read standard input, too, and have no such option.
    assert said.endswith("if it is raw PCM, that needs its rate: whispertide transcribe - --rate 16000\n")
