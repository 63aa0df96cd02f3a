"""The channels of a file, one after the other."""

import io
from pathlib import Path

import numpy as np
import pytest

from sounds import make_wav, tone
from whispertide.audio.apart import file_channels
from whispertide.audio.file import decode_blocks
from whispertide.errors import AudioFileError
from whispertide.types import SAMPLE_RATE, FloatArray

LEVELS = np.array([0.2, 0.4, 0.8], np.float32)


def stereo(channels: int) -> bytes:
    return make_wav(tone(0.5)[:, None] * LEVELS[:channels], SAMPLE_RATE, "f32")


def whole(blocks: object) -> FloatArray:
    return np.concatenate(list(blocks))  # type: ignore[call-overload]


def test_each_is_itself_however_often_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "call.wav"
    path.write_bytes(stereo(3))
    channels = file_channels(path)
    for channel, level in [*zip(channels, LEVELS, strict=True), (channels[0], LEVELS[0])]:
        assert np.allclose(whole(channel), level * tone(0.5), atol=1e-6)


def test_a_file_object_is_read_from_where_it_was() -> None:
    file = io.BytesIO(b"head" + stereo(2))
    file.seek(4)
    first, second = file_channels(file)
    assert np.allclose(2 * whole(first), whole(second), atol=1e-6)
    assert np.array_equal(whole(second), whole(decode_blocks(io.BytesIO(stereo(2)), channel=2)))


def test_what_has_no_channels_to_keep_apart(tmp_path: Path) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(AudioFileError, match="the audio: expected two channels or more"):
        file_channels(io.BytesIO(stereo(1)))
    with pytest.raises(AudioFileError, match="at most 2 channels, to keep them apart; it has 3"):
        file_channels(io.BytesIO(stereo(3)), most=2)
    with pytest.raises(AudioFileError, match="can be read once"):
        file_channels(Pipe(stereo(2)))
    with pytest.raises(AudioFileError, match="gone"):
        file_channels(tmp_path / "gone.wav")
