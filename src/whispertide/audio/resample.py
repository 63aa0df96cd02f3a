"""Any rate and any number of channels to 16 kHz mono float32, in a stream. Every way into the program goes through
here.

Knows nothing of where samples come from. Channels are mixed by their mean, so a voice on one of two channels is 6 dB
quieter and no mix can clip; resampling is soxr's HQ (about 125 dB of rejection, some 30 ms of look-ahead). Samples
beyond +-1 are kept as they are: clipped or overdriven audio is the user's. Samples that are no numbers become silence
and are counted.
"""

from typing import Any

import numpy as np

from whispertide.errors import OptionError
from whispertide.types import SAMPLE_RATE, FloatArray

MIN_RATE = 1_000
MAX_RATE = 768_000
MAX_CHANNELS = 64
# Full scale is 1. Beyond this a float is damage, not loudness, and its power would overflow in the features.
LIMIT = np.float32(1e6)


def sanitize(samples: FloatArray) -> tuple[FloatArray, int]:
    """`samples` (any shape) with NaN, infinities and absurd values (beyond 1e6) replaced by 0, and how many those were.

    Without such values the array itself is returned, else a copy.
    """
    if not samples.size or (samples.min() > -LIMIT and samples.max() < LIMIT):  # NaN fails both comparisons
        return samples, 0
    good = np.abs(samples) < LIMIT
    return np.where(good, samples, np.float32(0)), int(samples.size - np.count_nonzero(good))


def downmix(samples: FloatArray) -> FloatArray:
    """[n] or [n, channels] -> [n]: the mean of the channels."""
    if samples.ndim == 1:
        return samples
    return samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)


class StreamingResampler:
    """Turns audio at `rate_in` into 16 kHz mono, portion by portion; the portions do not change the result.

    `push` as often as there is audio, then `flush` once. The outputs together have round(n * 16000 / rate_in)
    samples (give or take one) and are aligned with the input. `replaced` counts samples that were no numbers.
    At 16 kHz nothing is delayed or changed.
    """

    def __init__(self, rate_in: int, channels: int = 1) -> None:
        """Raises `OptionError` for a rate outside 1 kHz to 768 kHz or a channel count outside 1 to 64."""
        if not MIN_RATE <= rate_in <= MAX_RATE:
            raise OptionError(f"expected a sample rate between {MIN_RATE} and {MAX_RATE} Hz; got {rate_in}")
        if not 1 <= channels <= MAX_CHANNELS:
            raise OptionError(f"expected 1 to {MAX_CHANNELS} channels; got {channels}")
        self.rate_in = rate_in
        self.channels = channels
        self.replaced = 0
        self._soxr: Any = None
        if rate_in != SAMPLE_RATE:
            import soxr

            self._soxr = soxr.ResampleStream(rate_in, SAMPLE_RATE, 1, dtype="float32", quality="HQ")

    def push(self, samples: FloatArray) -> FloatArray:
        """Samples [n] (mono only) or [n, channels] at `rate_in` -> what is ready at 16 kHz, [m].

        Raises `OptionError` if the shape does not fit the number of channels.
        """
        shape = np.shape(samples)
        if len(shape) not in (1, 2) or (shape[1] if len(shape) == 2 else 1) != self.channels:
            expected = "[n]" if self.channels == 1 else f"[n, {self.channels}]"
            raise OptionError(f"expected samples of shape {expected}; got {list(shape)}")
        clean, replaced = sanitize(np.asarray(samples, np.float32))
        self.replaced += replaced
        return self._resample(downmix(clean), last=False)

    def flush(self) -> FloatArray:
        """The rest, [m], at the end of the input; afterwards the resampler is used up."""
        return self._resample(np.zeros(0, np.float32), last=True)

    def _resample(self, mono: FloatArray, *, last: bool) -> FloatArray:
        if self._soxr is None:
            return mono
        out: FloatArray = self._soxr.resample_chunk(np.ascontiguousarray(mono), last=last)
        return out
