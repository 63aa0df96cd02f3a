"""Mel filter banks as Kaldi computes them: the input of the networks that know voices.

Whisper's log-mel (`whispertide.features`) has another scale, another window and no pre-emphasis. Kaldi: feat/
feature-fbank.cc and feature-window.cc, with its defaults but for 80 bands and no dither.
"""

from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from whispertide.types import SAMPLE_RATE, FloatArray

BANDS = 80
FRAME = 400  # samples: 25 ms
_HOP = 160
_N_FFT = 512
_LOWEST_HZ = 20.0
_PRE_EMPHASIS = 0.97
_FULL_SCALE = 32768.0  # Kaldi's samples are 16-bit numbers
_FLOOR = float(np.finfo(np.float32).eps)

Window = Literal["povey", "hamming"]


def filter_banks(audio: FloatArray, window: Window = "povey") -> FloatArray:
    """Log mel energies [frames, 80] of audio [n] at 16 kHz, each band without its mean over time.

    A frame is 25 ms, every 10 ms; only whole frames count, so n must be 400 or more. Raises `ValueError` for less.
    """
    if len(audio) < FRAME:
        raise ValueError(f"expected {FRAME} samples or more; got {len(audio)}")
    frames = np.lib.stride_tricks.sliding_window_view(audio * np.float32(_FULL_SCALE), FRAME)[::_HOP]
    frames = frames - frames.mean(axis=1, keepdims=True)
    before = np.concatenate((frames[:, :1], frames[:, :-1]), axis=1)
    frames = (frames - np.float32(_PRE_EMPHASIS) * before) * _window(window)
    power = np.abs(np.fft.rfft(frames, _N_FFT)) ** 2
    energies = np.log(np.maximum(power @ _filters(), _FLOOR)).astype(np.float32)
    centred: FloatArray = energies - energies.mean(axis=0, keepdims=True)
    return centred


@cache
def _window(name: Window) -> FloatArray:
    shape = np.hanning(FRAME) ** 0.85 if name == "povey" else np.hamming(FRAME)
    values: FloatArray = shape.astype(np.float32)
    return values


@cache
def _filters() -> FloatArray:
    """Triangles [257, 80] that are equally wide on the mel scale."""
    lowest, highest = _mel(np.array([_LOWEST_HZ, SAMPLE_RATE / 2], np.float64))
    edges = np.linspace(lowest, highest, BANDS + 2)
    bins = _mel(np.linspace(0.0, SAMPLE_RATE / 2, _N_FFT // 2 + 1, dtype=np.float64))[:, np.newaxis]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    triangles[-1] = 0.0  # Kaldi leaves out the last bin
    filters: FloatArray = triangles.astype(np.float32)
    return filters


def _mel(hertz: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    scaled: npt.NDArray[np.float64] = 1127.0 * np.log1p(hertz / 700.0)
    return scaled
