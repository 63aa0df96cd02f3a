import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whispertide.cli.kept_audio import kept_audio
from whispertide.errors import AudioDeviceError, OutputError
from whispertide.types import SAMPLE_RATE


def frames(path: Path) -> int:
    with wave.open(str(path)) as file:
        return int(file.getnframes())


def test_what_was_written_is_there_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "talk.wav"
    with kept_audio(path) as keep:
        for count in range(1, 4):
            keep(np.zeros(SAMPLE_RATE, np.float32))
            assert frames(path) == count * SAMPLE_RATE
    assert frames(path) == 3 * SAMPLE_RATE


def test_what_goes_wrong_elsewhere_is_not_the_files_fault(tmp_path: Path) -> None:
    problem = AudioDeviceError("unplugged")
    with pytest.raises(AudioDeviceError, match="unplugged"), kept_audio(tmp_path / "talk.wav"):
        raise problem


@pytest.mark.parametrize(
    ("problem", "told"), [(OSError(28, "no space left"), "no space left"), (struct.error("too large"), "is full")]
)
def test_no_room_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception, told: str) -> None:
    def fail(*_: Any) -> None:
        raise problem

    with kept_audio(tmp_path / "talk.wav") as keep:
        keep(np.zeros(10, np.float32))
        monkeypatch.setattr(wave.Wave_write, "writeframes", fail)
        with pytest.raises(OutputError, match=rf"talk\.wav.*{told}"):
            keep(np.zeros(10, np.float32))


def test_a_place_that_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write .*no.talk\.wav"), kept_audio(tmp_path / "no" / "talk.wav"):
        pass
