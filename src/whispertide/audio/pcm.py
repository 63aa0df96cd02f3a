"""Raw PCM bytes to 16 kHz mono samples, as they come from a pipe or a socket: without I/O and in any portions."""

from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.audio.resample import StreamingResampler
from whispertide.options import check_choice
from whispertide.types import FloatArray

# ffmpeg's name of a sample format -> its type
_TYPES = {"u8": "u1", "s16le": "<i2", "s32le": "<i4", "f32le": "<f4"}
SAMPLE_FORMATS: tuple[str, ...] = tuple(_TYPES)


def to_float(values: npt.NDArray[Any]) -> FloatArray:
    """PCM of any type and shape -> float32 with full scale at 1: unsigned bytes lie around 128, floats stay as they
    are.
    """
    kind, bits = values.dtype.kind, 8 * values.dtype.itemsize
    with np.errstate(over="ignore"):  # doubles beyond float32 become infinite, which is then counted as damage
        samples = values.astype(np.float32)
    if kind == "f":
        return samples
    full_scale = np.float32(2.0 ** (bits - 1))
    return (samples - full_scale if kind == "u" else samples) / full_scale


def to_int16(samples: FloatArray) -> npt.NDArray[np.int16]:
    """Samples with full scale at 1 -> 16-bit PCM: rounded, half to even; what is louder is clipped."""
    return np.round(np.clip(samples, -1, 32767 / 32768) * 32768).astype(np.int16)


class PcmDecoder:
    """Interleaved PCM at `rate` -> 16 kHz mono float32, -1 to 1.

    `feed` takes any number of bytes, also half a sample: what does not fill a sample of every channel waits for
    the next call. After the last `feed`, `flush` gives the rest, and `leftover` tells how many bytes never became
    a sample (0 unless the input broke off).
    """

    def __init__(self, rate: int, *, channels: int = 1, sample_format: str = "s16le") -> None:
        """Raises `OptionError` for an unknown format, or a rate or channel count that cannot be."""
        check_choice("the sample format", sample_format, SAMPLE_FORMATS)
        self._type = np.dtype(_TYPES[sample_format])
        self._resampler = StreamingResampler(rate, channels)
        self.bytes_per_frame = self._type.itemsize * channels
        self._waiting = b""

    @property
    def leftover(self) -> int:
        """Bytes that wait for the rest of their sample."""
        return len(self._waiting)

    @property
    def replaced(self) -> int:
        """How many samples were no numbers (NaN, infinite) and became silence."""
        return self._resampler.replaced

    def feed(self, data: bytes) -> FloatArray:
        """The next bytes -> samples that are ready, [m] (possibly none)."""
        data = self._waiting + data
        whole = len(data) - len(data) % self.bytes_per_frame
        self._waiting = data[whole:]
        values = to_float(np.frombuffer(data[:whole], self._type))
        channels = self._resampler.channels
        return self._resampler.push(values.reshape(-1, channels))

    def flush(self) -> FloatArray:
        """The rest, [m]; afterwards the decoder is used up."""
        return self._resampler.flush()
