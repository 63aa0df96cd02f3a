from pathlib import Path

import numpy as np
import pytest

from audio.test_file import two_tracks
from sounds import make_wav, tone
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
