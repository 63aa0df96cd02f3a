"""Pipes to decode from, and what came of it, for the tests."""

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import numpy as np
import pytest

from sounds import frequency, loudness
from whispertide.errors import AudioError
from whispertide.types import SAMPLE_RATE, FloatArray


class Pipe(io.RawIOBase):
    """A stream that cannot seek and gives bytes in the portions named by `sizes` (then all that is asked for)."""

    def __init__(self, data: bytes, sizes: list[int] | None = None) -> None:
        self._data, self._sizes = io.BytesIO(data), list(sizes or [])

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._sizes.pop(0)) if self._sizes else len(buffer)
        data = self._data.read(size)
        buffer[: len(data)] = data
        return len(data)


def pipe(data: bytes, sizes: list[int] | None = None) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(Pipe(data, sizes)))


def collect(blocks: Iterator[FloatArray]) -> tuple[FloatArray, Exception | None]:
    """All blocks that came, and the error that ended them."""
    got: list[FloatArray] = [np.zeros(0, np.float32)]
    try:
        got.extend(blocks)
    except AudioError as error:
        return np.concatenate(got), error
    return np.concatenate(got), None


def check_tone(samples: FloatArray, seconds: float, slack: float = 0.001, level: float = 0.5) -> None:
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    assert len(samples) / SAMPLE_RATE == pytest.approx(seconds, abs=slack)
    middle = samples[2000:-2000]
    assert frequency(middle) == pytest.approx(440, abs=4)
    assert loudness(middle) == pytest.approx(level / np.sqrt(2), rel=0.05)
