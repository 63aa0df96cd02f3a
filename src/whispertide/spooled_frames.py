"""Raw log-mel frames of a long recording, in a temporary file: memory does not grow with the recording.

Knows nothing of how frames are made.
"""

import tempfile
import weakref
from dataclasses import dataclass, field
from typing import IO

import numpy as np

from whispertide.atomic import writing
from whispertide.types import FloatArray

_ADVICE = "make room, or set TMPDIR to another folder"


@dataclass(slots=True, weakref_slot=True)
class SpooledFrames:
    """Frames [n_mels, count] that are appended in order and read by slices, as those of an array: `frames[:, 5:9]`.

    `peak` is the loudest cell; not a number, where one is none.
    """

    n_mels: int
    peak: float = -np.inf
    count: int = 0
    _file: IO[bytes] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises `OutputError` if there is no temporary folder."""
        with writing("the temporary folder", _ADVICE):
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the frames)
        weakref.finalize(self, self._file.close)

    @property
    def shape(self) -> tuple[int, int]:
        """[n_mels, count]."""
        return self.n_mels, self.count

    def append(self, raw: FloatArray) -> None:
        """Append the frames [n_mels, n] that follow. Raises `OutputError` if there is no room."""
        self.peak = float(np.maximum(self.peak, raw.max(initial=-np.inf)))
        self.count += raw.shape[1]
        with writing(tempfile.gettempdir(), _ADVICE):
            # frame after frame, so that a slice is one piece of the file
            self._file.write(raw.T.tobytes())

    def __getitem__(self, key: tuple[slice, slice]) -> FloatArray:
        """Copy the frames in a slice without a step, as `array[:, start:stop]` gives them."""
        mels, frames = key
        start, stop, _ = frames.indices(self.count)
        width = self.n_mels * np.dtype(np.float32).itemsize
        with writing(tempfile.gettempdir(), _ADVICE):
            self._file.seek(start * width)  # writes what is still in the file's buffer
            read = self._file.read(max(0, stop - start) * width)
            self._file.seek(0, 2)
        values = np.frombuffer(read, np.float32).reshape(-1, self.n_mels).T
        return np.ascontiguousarray(values[mels])
