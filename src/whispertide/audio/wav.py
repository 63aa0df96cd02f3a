"""WAV files that are written while audio comes in: 16 kHz, 16 bits."""

import wave
from typing import BinaryIO

from whispertide.audio.pcm import to_int16
from whispertide.types import SAMPLE_RATE, FloatArray


def wav_writer(file: BinaryIO | str, channels: int = 1) -> wave.Wave_write:
    """Make a new WAV file. Raises `OSError`."""
    writer = wave.open(file, "wb")  # noqa: SIM115 (whoever asks for it closes it)
    writer.setparams((channels, 2, SAMPLE_RATE, 0, "NONE", ""))
    writer.writeframes(b"")  # a header of no samples: each portion changes it, and so leaves the buffer, the first too
    return writer


def write_samples(writer: wave.Wave_write, samples: FloatArray) -> None:
    """Append samples [n], or [n, channels]. The file is complete after each call, its header too. Raises `OSError`."""
    writer.writeframes(pcm(samples))


def pcm(samples: FloatArray) -> bytes:
    """Samples [n], or [n, channels], as the bytes of such a file."""
    return to_int16(samples).astype("<i2").tobytes()
