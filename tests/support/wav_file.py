"""Recordings that tests make, as files."""

import wave
from pathlib import Path

import numpy as np

from whispertide.types import FloatArray


def save_wav(path: Path, sound: FloatArray, rate: int = 16_000) -> Path:
    """One channel of 16-bit samples; `sound` is between -1 and 1."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes((np.clip(sound, -1, 1) * 32_767).astype("<i2").tobytes())
    return path
