"""The samples of a stream: checked, and kept by absolute sample index as long as they are needed.

Knows nothing of what they are needed for.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.errors import AudioError
from whispertide.types import FloatArray

_MIN_CAPACITY = 16_000
# Full scale is 1. Beyond this a float is damage, not loudness, and its power would overflow in the features.
_LIMIT = np.float32(1e6)


def sanitize(samples: FloatArray) -> tuple[FloatArray, int]:
    """Replace NaN, infinities and absurd values (beyond 1e6) in `samples` (any shape) by 0, and count them.

    Without such values the array itself is returned, else a copy.
    """
    if not samples.size or (samples.min() > -_LIMIT and samples.max() < _LIMIT):  # NaN fails both comparisons
        return samples, 0
    good = np.abs(samples) < _LIMIT
    return np.where(good, samples, np.float32(0)), int(samples.size - np.count_nonzero(good))


def check_samples(samples: npt.NDArray[Any]) -> tuple[FloatArray, int]:
    """Check mono samples [n] at 16 kHz (float32, float64 or int16); returns them as float32, and how many were no
    numbers and are 0 now.

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


def to_float(values: npt.NDArray[Any]) -> FloatArray:
    """Convert PCM of any type and shape to float32 with full scale at 1: unsigned bytes lie around 128, floats stay as
    they are.
    """
    kind, bits = values.dtype.kind, 8 * values.dtype.itemsize
    with np.errstate(over="ignore"):  # doubles beyond float32 become infinite, which is then counted as damage
        samples = values.astype(np.float32)
    if kind == "f":
        return samples
    full_scale = np.float32(2.0 ** (bits - 1))
    return (samples - full_scale if kind == "u" else samples) / full_scale


# Not compared by value: an array has no single truth value.
@dataclass(slots=True, eq=False)
class AudioBuffer:
    """16 kHz mono float32 samples `start`..`end`; grows at the end, is dropped from the beginning.

        buffer.append(samples); buffer.read(start, end); buffer.drop_before(sample)

    Appending n samples costs O(n) on average. Memory is at most four times the span that is kept (plus a constant).
    """

    start: int = 0  # absolute index of the first sample that is kept
    _data: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))  # no room before it is needed
    _head: int = 0  # where sample `start` lies in `_data`
    _length: int = 0

    @property
    def end(self) -> int:
        """Absolute index after the newest sample."""
        return self.start + self._length

    def __len__(self) -> int:
        return self._length

    def append(self, samples: FloatArray) -> None:
        """Add `samples` ([n], any n) after the newest; they are copied."""
        if self._head + self._length + len(samples) > len(self._data):
            # Twice what is needed, so that most appends move nothing that is kept.
            self._resize(2 * (self._length + len(samples)))
        at = self._head + self._length
        self._data[at : at + len(samples)] = samples
        self._length += len(samples)

    def read(self, start: int, end: int) -> FloatArray:
        """Copy the samples `start`..`end` ([end - start], absolute). `AudioError` if not all of them are kept."""
        if not self.start <= start <= end <= self.end:
            raise AudioError(f"expected a stretch within the kept audio {self.start}..{self.end}; got {start}..{end}")
        at = self._head + start - self.start
        return self._data[at : at + end - start].copy()

    def drop_before(self, sample: int) -> None:
        """Forget everything before `sample`; nothing if that is gone already. `AudioError` beyond the newest sample."""
        if sample > self.end:
            raise AudioError(f"expected to drop audio up to {self.end} at most, the newest sample; got {sample}")
        drop = max(0, sample - self.start)
        self.start += drop
        self._head += drop
        self._length -= drop
        if len(self._data) > max(_MIN_CAPACITY, 4 * self._length):
            self._resize(2 * self._length)

    def drop_after(self, sample: int) -> None:
        """Forget everything from `sample` on. `AudioError` where that is not kept."""
        if not self.start <= sample <= self.end:
            raise AudioError(f"expected to drop audio from {self.start}..{self.end} on; got {sample}")
        self._length = sample - self.start

    def clear(self, at: int) -> None:
        """Forget everything; the next sample appended is sample `at`."""
        self.start, self._length = at, 0
        self._resize(0)

    def copy(self) -> "AudioBuffer":
        return AudioBuffer(self.start, self.read(self.start, self.end), 0, self._length)

    def _resize(self, capacity: int) -> None:
        kept = self._data[self._head : self._head + self._length]
        self._data = np.zeros(max(_MIN_CAPACITY, capacity), np.float32)
        self._data[: self._length] = kept
        self._head = 0
