"""Filter banks: against Kaldi's own definition, written out for one frame."""

import math

import numpy as np
import pytest

from whispertide.speakers.features import BANDS, filter_banks
from whispertide.types import FloatArray


def one_frame_by_hand(audio: FloatArray, window: str) -> list[float]:
    """The 80 log energies of the first 400 samples, as feature-window.cc and mel-computations.cc have them."""
    frame: list[float] = [float(value) * 32768 for value in audio[:400]]
    mean = sum(frame) / 400
    frame = [value - mean for value in frame]
    frame = [value - 0.97 * frame[max(0, at - 1)] for at, value in enumerate(frame)]
    for at in range(400):
        hann = 0.5 - 0.5 * math.cos(2 * math.pi * at / 399)
        frame[at] *= hann**0.85 if window == "povey" else 0.54 - 0.46 * math.cos(2 * math.pi * at / 399)
    power = np.abs(np.fft.fft(frame, 512))[:257] ** 2

    def mel(hertz: float) -> float:
        return 1127 * math.log(1 + hertz / 700)

    lowest, step = mel(20), (mel(8000) - mel(20)) / 81
    energies: list[float] = []
    for band in range(80):
        left, centre, right = (lowest + step * (band + more) for more in range(3))
        total = 0.0
        for number in range(256):
            place = mel(16000 / 512 * number)
            if left < place < right:
                total += float(power[number]) * ((place - left) if place <= centre else (right - place)) / step
        energies.append(math.log(max(total, 1.1920929e-07)))
    return energies


@pytest.mark.parametrize("window", ["povey", "hamming"])
def test_two_frames_differ_as_kaldi_says(window: str) -> None:
    audio = (0.1 * np.random.default_rng(3).standard_normal(560)).astype(np.float32)
    got = filter_banks(audio, window)  # type: ignore[arg-type]
    by_hand = np.array([one_frame_by_hand(audio, window), one_frame_by_hand(audio[160:], window)])
    assert got.shape == (2, BANDS)
    np.testing.assert_allclose(got, by_hand - by_hand.mean(axis=0), atol=2e-3)


def test_loudness_does_not_matter() -> None:
    audio = (0.1 * np.random.default_rng(4).standard_normal(16_000)).astype(np.float32)
    np.testing.assert_allclose(filter_banks(audio), filter_banks(audio * np.float32(0.25)), atol=1e-3)


def test_silence_is_finite() -> None:
    assert np.isfinite(filter_banks(np.zeros(1600, np.float32))).all()


def test_less_than_a_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="400"):
        filter_banks(np.zeros(399, np.float32))
