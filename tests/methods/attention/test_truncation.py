"""The detector's arithmetic against the published one, written here as its code has it; and its file."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from whispertide.errors import CheckpointError
from whispertide.methods.attention.truncation import END_FRAMES, TruncationDetector, last_firing, rescaled
from whispertide.types import FloatArray

HASH = "a" * 64
DETECTOR = TruncationDetector(np.array([4.0, 0.0, -1.0], np.float32), -2.0, HASH, {"windows": 5})


def published(weights: FloatArray) -> bool:
    """Simul-Whisper's `resize` and `fire_at_boundary`, step by step, in double precision."""
    alphas = weights.astype(np.float64)
    alphas = alphas * (np.round(alphas.sum()) / alphas.sum())
    passes = 0
    while (alphas > 0.999).any() and passes < 10:
        passes += 1
        for place in np.where(alphas > 0.999)[0]:
            if alphas[place] >= 0.999:
                mask = (alphas != 0).astype(np.float64)
                mean = 0.5 * alphas.sum() / mask.sum()
                alphas = alphas * 0.5 + mean * mask
    integrate = np.cumsum(alphas[:-1])
    integrate = integrate - integrate[-1] // 0.999
    reached = np.nonzero(integrate >= 0)[0]
    return bool(len(reached)) and reached[0] >= len(weights) - 2


def fires(weights: FloatArray) -> bool:
    """Ours, on weights."""
    place = last_firing(weights)
    return place is not None and place >= len(weights) - END_FRAMES


def peaks(frames: int, *places: int, height: float = 0.95, floor: float = 0.002) -> FloatArray:
    weights = np.full(frames, floor, np.float32)
    weights[list(places)] = height
    return weights


@quick(50)
@given(seed=st.integers(0, 10**6), frames=st.integers(4, 60), sharpness=st.floats(0.2, 12), tail=st.booleans())
@example(seed=55, frames=55, sharpness=8.0, tail=False)  # the very last weight is nearly nothing
def test_it_fires_where_the_published_code_fires(seed: int, frames: int, sharpness: float, tail: bool) -> None:
    rng = np.random.default_rng(seed)
    weights = (1 / (1 + np.exp(-sharpness * rng.standard_normal(frames)))).astype(np.float32)
    if tail:
        weights[-2:] = 0.9
    assert fires(weights) == published(weights)


def test_a_word_that_ends_with_the_audio_fires() -> None:
    weights = peaks(50, 12, 30, 48, 49)
    assert last_firing(weights) == 48
    assert fires(weights)
    assert published(weights)


@each_row("places", [(12, 30), (12, 30, 49), (12, 30, 45), (10,), ()])
def test_a_word_that_goes_on_does_not(places: tuple[int, ...]) -> None:
    weights = peaks(50, *places)
    assert not fires(weights)
    assert not published(weights)


def test_weights_are_scaled_to_a_whole_number() -> None:
    for total in (2.6, 7.4, 0.7):
        weights = np.full(40, total / 40, np.float32)
        assert rescaled(weights).sum() == pytest.approx(round(total), abs=1e-4)
    crowded = rescaled(np.array([1.0, 1.0, 0.1, 0.1, 0.1], np.float32))
    assert crowded.max() <= 1.0
    assert crowded.sum() == pytest.approx(2.0, abs=1e-4)


@pytest.mark.parametrize("frames", [0, 1, 2, 3])
def test_hardly_any_audio(frames: int) -> None:
    hidden = np.zeros((frames, 3), np.float32)
    assert DETECTOR.fires(hidden) is False
    assert last_firing(DETECTOR.weights(hidden)) is None


def test_a_frame_weighs_by_its_hidden_state() -> None:
    hidden = np.zeros((30, 3), np.float32)
    hidden[[9, 28, 29], 0] = 2.0
    hidden[28, 2] = 1.0
    expected = [1 / (1 + np.exp(-score)) for score in (-2.0, 6.0, 5.0)]
    np.testing.assert_allclose(DETECTOR.weights(hidden)[[8, 9, 28]], expected, rtol=1e-5)
    assert DETECTOR.fires(np.concatenate([hidden[:9], hidden[28:]]))
    ears_shut = TruncationDetector(DETECTOR.weight, -60.0, HASH)
    assert last_firing(ears_shut.weights(hidden)) is None
    huge = np.full((5, 3), 1e6, np.float32)
    assert np.isfinite(DETECTOR.weights(huge)).all()


def test_a_file_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "truncation.npz"
    DETECTOR.save(path)
    read = TruncationDetector.load(path, HASH, width=3)
    np.testing.assert_array_equal(read.weight, DETECTOR.weight)
    assert (read.bias, read.content_hash, read.report) == (-2.0, HASH, {"windows": 5})
    assert path.stat().st_size < 5000


def test_a_file_of_another_model(tmp_path: Path) -> None:
    path = tmp_path / "truncation.npz"
    DETECTOR.save(path)
    with pytest.raises(CheckpointError, match="another model"):
        TruncationDetector.load(path, HASH, width=4)
    with pytest.raises(CheckpointError, match="another checkpoint"):
        TruncationDetector.load(path, "b" * 64, width=3)
