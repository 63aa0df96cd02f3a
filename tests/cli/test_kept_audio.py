import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whispertide.cli import kept_audio as module
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


def test_no_room_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "no space left")

    with kept_audio(tmp_path / "talk.wav") as keep:
        keep(np.zeros(10, np.float32))
        monkeypatch.setattr(wave.Wave_write, "writeframes", fail)
        with pytest.raises(OutputError, match=r"talk\.wav.*no space left"):
            keep(np.zeros(10, np.float32))


def test_a_file_that_is_full_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 36 + 2 * module._MOST < 2**32 <= 36 + 2 * (module._MOST + 1)
    monkeypatch.setattr(module, "_MOST", 25)
    path = tmp_path / "talk.wav"
    with kept_audio(path) as keep:
        keep(np.zeros(20, np.float32))
        with pytest.raises(OutputError, match=r"talk\.wav is full"):
            keep(np.zeros(10, np.float32))
    assert frames(path) == 20


def test_a_place_that_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"no.talk\.wav cannot be written"), kept_audio(tmp_path / "no" / "talk.wav"):
        pass
