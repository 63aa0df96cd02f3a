"""Whether word times agree with the sound they are about."""

from itertools import pairwise

import numpy as np

from whispertide.types import SAMPLE_RATE
from whispertide_lab.speech.voices import Spoken

_OFF = SAMPLE_RATE * 80 // 1000  # where a voice fades, or a final stop is not released; flite's rms fades by chance


def assert_times_fit(spoken: Spoken, text: str) -> None:
    """One span per word, in order; silence outside of them; sound in each; sound up to the first and last edge."""
    spans = spoken.words
    assert len(spans) == len(text.split())
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    energy = spoken.samples.astype(float) ** 2
    inside = np.zeros(len(energy), bool)
    for start, end in spans:
        inside[start:end] = True
        assert np.mean(energy[start:end]) > 0.01 * np.mean(energy)
    assert energy[inside].sum() > 0.99 * energy.sum()
    smooth = np.convolve(energy, np.ones(80) / 80, "same")
    heard = np.flatnonzero(smooth > 4e-4 * smooth.max())  # 2 % of the loudest amplitude
    assert abs(int(heard[0]) - spans[0][0]) < _OFF
    assert abs(int(heard[-1]) - spans[-1][1]) < _OFF
