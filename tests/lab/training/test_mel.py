"""The log-mel in torch against the one in numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from whispertide.features import Features
from whispertide.features import raw_log_mel as raw_in_numpy
from whispertide.types import HOP_LENGTH, FloatArray
from whispertide_lab.training.hush_windows import opening
from whispertide_lab.training.mel import followed, raw_log_mel

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4


def noise(count: int, seed: int, level: float = 0.1) -> FloatArray:
    rng = np.random.default_rng(seed)
    swell = np.sin(np.linspace(0, 9, count)) ** 2
    return (level * swell * rng.standard_normal(count)).astype(np.float32)


@pytest.mark.parametrize("n_mels", [80, 128])
def test_raw_frames_equal_those_of_features(n_mels: int) -> None:
    samples = noise(16_000, 0)
    expected = raw_in_numpy(samples, n_mels)[:, 2:-2]  # frames that see no mirror
    ours = raw_log_mel(torch.from_numpy(samples)[None, 120:], n_mels)[0].numpy()
    np.testing.assert_allclose(ours[:, : expected.shape[1]], expected, atol=TOLERANCE)


@given(count=st.integers(1_600, 40_000), length=st.integers(1_600, 16_000), seed=st.integers(0, 99))
def test_a_followed_window_equals_that_of_inference(count: int, length: int, seed: int) -> None:
    samples, suffix = noise(count, seed), noise(length, seed + 1, level=0.5)
    features = Features.of([samples], 80, suffix)
    expected = features.followed(0, features.frames)
    *parts, peak = opening(samples, 80)
    before, tail = (torch.from_numpy(part)[None] for part in parts)
    ours = followed(before, tail, torch.from_numpy(suffix), torch.tensor([peak]))[0].numpy()
    assert expected.shape[1] == (count + length) // HOP_LENGTH
    assert ours.shape[1] == expected.shape[1] + expected.shape[1] % 2
    np.testing.assert_allclose(ours[:, : expected.shape[1]], expected, atol=TOLERANCE)
    assert not ours[:, expected.shape[1] :].any()


def test_the_suffix_does_not_touch_what_is_taken_for_constant() -> None:
    """Frames in front of the joint are the same whatever follows, and each frame after it is counted once."""
    samples = noise(16_123, 3)
    before, _, _ = opening(samples, 80)
    for suffix in (noise(8_000, 4, 1.0), np.zeros(8_000, np.float32)):
        whole = raw_in_numpy(np.concatenate([samples, suffix]), 80)
        np.testing.assert_allclose(before, whole[:, : before.shape[1]], atol=1e-5)
