"""What tests of the command line share: how it is run, and audio files to give it."""

import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
from typer.testing import Result

Run = Callable[..., Result]


def write_wav(path: Path, duration_s: float, rate: int = 16_000) -> Path:
    """A quiet tone; the fake transcriber hears two words per second in anything."""
    tone = 3000 * np.sin(np.arange(round(duration_s * rate)) * 0.1)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(tone.astype("<i2").tobytes())
    return path
