"""The framing of a causal encoder: the same blocks whatever portions the audio comes in, each encoded once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import nano
from whispertide.errors import OptionError
from whispertide.features import causal_log_mel, raw_columns
from whispertide.graphs.contract import masked_value
from whispertide.model.engine import LAST_LAYER, EncoderState
from whispertide.model.incremental import block_bias
from whispertide.streaming.blocks import Blocks
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, FloatArray

BLOCKS = Blocks()
LENGTH = 3 * SAMPLE_RATE + 77


def noise(seed: int = 0, length: int = LENGTH) -> FloatArray:
    """Louder and louder, so that the floor moves."""
    swell = np.linspace(0.01, 1, length)
    return (np.random.default_rng(seed).standard_normal(length) * swell).astype(np.float32)


def streamed(samples: FloatArray, cuts: list[int]) -> tuple[FloatArray, EncoderState]:
    """The first layer's cross-attention values [frames, ..] after the stream came in these portions."""
    state = None
    for cut in cuts:
        encoded = BLOCKS.advance(nano(), samples[:cut], 320, state, is_last=cut == len(samples))
        if encoded is not None:
            state = encoded.state
    assert state is not None
    assert encoded is not None
    return encoded.cross_v[0].numpy()[..., : state.frames, :], state


def test_blocks_end_where_they_end_whatever_came_when() -> None:
    assert BLOCKS.ends(0) == ()
    assert BLOCKS.ends(30 * FRAME_SAMPLES) == ()  # the convolutions hear a little more
    assert BLOCKS.ends(30 * FRAME_SAMPLES + 200) == (30,)
    assert BLOCKS.ends(41 * FRAME_SAMPLES) == (30, 35, 40)
    assert BLOCKS.ends(41 * FRAME_SAMPLES, is_last=True) == (30, 35, 40, 45)
    assert BLOCKS.ends(40 * FRAME_SAMPLES, is_last=True) == (30, 35, 40)
    assert BLOCKS.ends(1, is_last=True) == (30,)
    assert BLOCKS.ends(0, is_last=True) == ()


@settings(max_examples=10, deadline=None)
@given(cuts=st.sets(st.integers(1, LENGTH - 1), max_size=30))
def test_in_any_portions_the_same_frames(cuts: set[int]) -> None:
    samples = noise()
    whole, state = streamed(samples, [LENGTH])
    found, other = streamed(samples, [*sorted(cuts), LENGTH])
    assert other.frames == state.frames == 155
    assert np.abs(found - whole).max() < 1e-4 * np.abs(whole).max()


def test_the_frames_are_those_of_training() -> None:
    """The masked encoder over the features that training makes of the same audio."""
    samples = noise(1)
    ends = BLOCKS.ends(LENGTH, is_last=True)
    raw = raw_columns(samples, 80, 0, 2 * ends[-1] + 2)
    mel = np.pad(causal_log_mel(raw, ends), ((0, 0), (0, 1)))
    masked = masked_value("fp32")
    bias = np.pad(block_bias(ends, masked), ((0, 1), (0, 1)), constant_values=masked)
    bias[-1, -1] = 0
    expected = nano().encode(mel, attention=bias, taps=(LAST_LAYER,)).cross_v[0].numpy()[..., : ends[-1], :]
    found, _ = streamed(samples, [20_000, 30_000, LENGTH])
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


def test_a_state_that_is_lost_is_computed_anew() -> None:
    samples = noise(2)
    first = BLOCKS.advance(nano(), samples[:30_000], 320, None, is_last=False)
    assert first is not None
    with_state = BLOCKS.advance(nano(), samples, 320, first.state, is_last=True)
    without = BLOCKS.advance(nano(), samples, 320, None, is_last=True)
    of_another = BLOCKS.advance(nano(), samples, 640, first.state, is_last=True)
    assert with_state is not None
    for other in (without, of_another):
        assert other is not None
        assert other.valid_frames == with_state.valid_frames
        ours, theirs = (each.cross_k[0].numpy()[..., : other.valid_frames] for each in (with_state, other))
        assert np.abs(ours - theirs).max() < 1e-4 * np.abs(ours).max()


def test_nothing_is_encoded_before_there_is_a_block() -> None:
    samples = noise(3)
    first = BLOCKS.advance(nano(), samples[:9_800], 0, None, is_last=False)
    assert first is not None
    assert BLOCKS.advance(nano(), samples[:9_799], 0, None, is_last=False) is None
    assert BLOCKS.advance(nano(), samples[:11_000], 0, first.state, is_last=False) is None


@pytest.mark.parametrize(("name", "value"), [("block_s", 0.05), ("first_s", 0.61)])
def test_a_block_is_made_of_whole_frames(name: str, value: float) -> None:
    with pytest.raises(OptionError, match=rf"expected {name} to be a multiple of 0.02 s.*got {value}"):
        Blocks(**{name: value})
