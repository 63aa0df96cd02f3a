"""The audio that is still needed, addressed by absolute sample index. Knows nothing of what it is needed for."""

from dataclasses import dataclass, field, replace

import numpy as np

from whispertide.errors import AudioError
from whispertide.types import FloatArray

_MIN_CAPACITY = 16_000


@dataclass(slots=True, eq=False)
class AudioBuffer:
    """16 kHz mono float32 samples `start`..`end`; grows at the end, is dropped from the beginning.

        buffer.append(samples); buffer.read(start, end); buffer.drop_before(sample)

    Appending n samples costs O(n) on average. Memory is at most four times the span that is kept (plus a constant).
    """

    start: int = 0  # absolute index of the first sample that is kept
    _data: FloatArray = field(default_factory=lambda: np.zeros(_MIN_CAPACITY, np.float32))
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
            self._resize(2 * (self._length + len(samples)))
        at = self._head + self._length
        self._data[at : at + len(samples)] = samples
        self._length += len(samples)

    def read(self, start: int, end: int) -> FloatArray:
        """A copy of the samples `start`..`end` ([end - start], absolute). `AudioError` if not all of them are kept."""
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

    def clear(self, at: int) -> None:
        """Forget everything; the next sample appended is sample `at`."""
        self.start, self._length = at, 0
        self._resize(0)

    def copy(self) -> "AudioBuffer":
        """An independent copy, for snapshots."""
        return replace(self, _data=self._data.copy())

    def _resize(self, capacity: int) -> None:
        kept = self._data[self._head : self._head + self._length]
        self._data = np.zeros(max(_MIN_CAPACITY, capacity), np.float32)
        self._data[: self._length] = kept
        self._head = 0
