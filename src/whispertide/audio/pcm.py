"""Raw PCM bytes to 16 kHz mono samples, as they come from a pipe or a socket: without I/O and in any portions."""

from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.audio.resample import StreamingResampler, sanitize
from whispertide.errors import AudioError
from whispertide.options import check_choice
from whispertide.types import FloatArray

# ffmpeg's name of a sample format -> its type
LINEAR = {"u8": "u1", "s16le": "<i2", "s32le": "<i4", "f32le": "<f4"}
SAMPLE_FORMATS: tuple[str, ...] = tuple(LINEAR)


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


def checked(samples: npt.NDArray[Any]) -> tuple[FloatArray, int]:
    """Mono samples [n] at 16 kHz (float32, float64 or int16) as float32, and how many were no numbers and are 0 now.

    Raises `AudioError` for a wrong type or shape.
    """
    if not isinstance(samples, np.ndarray) or samples.dtype not in (np.float32, np.float64, np.int16):
        got = f"an array of {samples.dtype}" if isinstance(samples, np.ndarray) else type(samples).__name__
        raise AudioError(f"expected samples as a numpy array of float32, float64 or int16; got {got}")
    if samples.ndim != 1:
        raise AudioError(f"expected mono samples of shape [n] at 16 kHz; got shape {list(samples.shape)}")
    if samples.dtype == np.int16:
        return to_float(samples), 0
    with np.errstate(over="ignore"):  # what does not fit into float32 becomes infinite, hence silence
        return sanitize(samples.astype(np.float32))


class Samples:
    """Interleaved samples of a fixed size, in any portions: what does not fill one of every channel waits.

    `table` gives what each code of a companded encoding stands for.
    """

    def __init__(self, kind: str, channels: int, table: npt.NDArray[np.int16] | None = None) -> None:
        self._type = np.dtype(kind)
        self._channels = channels
        self._table = table
        self.waiting = b""

    @property
    def frame(self) -> int:
        """Bytes of one sample of every channel."""
        return self._type.itemsize * self._channels

    def decode(self, data: bytes) -> FloatArray:
        """The next bytes -> samples [n, channels] with full scale 1."""
        data = self.waiting + data
        whole = len(data) - len(data) % self.frame
        self.waiting = data[whole:]
        values: npt.NDArray[Any] = np.frombuffer(data[:whole], self._type)
        if self._table is not None:
            values = self._table[values]
        return to_float(values).reshape(-1, self._channels)


class PcmDecoder:
    """Interleaved PCM at `rate` -> 16 kHz mono float32, -1 to 1.

    `feed` takes any number of bytes, also half a sample. After the last `feed`, `flush` gives the rest, and `leftover`
    tells how many bytes never became a sample (0 unless the input broke off).
    """

    def __init__(self, rate: int, *, channels: int = 1, sample_format: str = "s16le") -> None:
        """Raises `OptionError` for an unknown format, or a rate or channel count that cannot be."""
        check_choice("the sample format", sample_format, SAMPLE_FORMATS)
        self._resampler = StreamingResampler(rate, channels)
        self._samples = Samples(LINEAR[sample_format], channels)
        self.bytes_per_frame = self._samples.frame

    @property
    def leftover(self) -> int:
        """Bytes that wait for the rest of their sample."""
        return len(self._samples.waiting)

    @property
    def replaced(self) -> int:
        """How many samples were no numbers (NaN, infinite) and became silence."""
        return self._resampler.replaced

    def feed(self, data: bytes) -> FloatArray:
        """The next bytes -> samples that are ready, [m] (possibly none)."""
        return self._resampler.push(self._samples.decode(data))

    def flush(self) -> FloatArray:
        """The rest, [m]; afterwards the decoder is used up."""
        return self._resampler.flush()
