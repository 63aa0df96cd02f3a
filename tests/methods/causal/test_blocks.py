"""The framing of a causal encoder: the same blocks whatever portions the audio comes in, each encoded once."""

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from reference import nano
from whispertide.errors import OptionError
from whispertide.features import raw_columns
from whispertide.graphs.contract import masked_value
from whispertide.methods.causal.blocks import Blocks, block_ends
from whispertide.model.engine import LAST_LAYER, Encoded, EncoderState
from whispertide.model.incremental import block_bias
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, FloatArray
from whispertide_lab.training.causal_features import causal_log_mel

BLOCKS = Blocks()
LENGTH = 3 * SAMPLE_RATE + 77
FIRST = 20_000  # samples of the first round: 61 whole frames, so a block ends there


def noise(seed: int = 0, length: int = LENGTH) -> FloatArray:
    """Louder and louder, so that the floor moves."""
    swell = np.linspace(0.01, 1, length)
    return (np.random.default_rng(seed).standard_normal(length) * swell).astype(np.float32)


def advanced(
    samples: FloatArray, state: EncoderState | None, *, begin: int = 320, last: bool = False
) -> Encoded | None:
    return BLOCKS.advance(nano(), samples, begin, state, first_round=FIRST, is_last=last)


def streamed(samples: FloatArray, cuts: list[int]) -> tuple[FloatArray, EncoderState]:
    """The first layer's cross-attention values [frames, ..] after the stream came in these portions."""
    state = None
    for cut in cuts:
        encoded = advanced(samples[:cut], state, last=cut == len(samples))
        if encoded is not None:
            state = encoded.state
    assert state is not None
    assert encoded is not None
    return encoded.cross_v[0].numpy()[..., : state.frames, :], state


def test_block_ends() -> None:
    assert block_ends(40, 5, 30) == (30, 35, 40)
    assert block_ends(41, 5, 30) == (30, 35, 40, 45), "the last block reaches the end"
    assert block_ends(30, 15, 30) == block_ends(7, 15, 30) == (30,)


def test_blocks_end_where_they_end_whatever_came_when() -> None:
    ends = partial(BLOCKS.ends, first_round=30 * FRAME_SAMPLES + 200)
    assert ends(0) == ()
    assert ends(30 * FRAME_SAMPLES) == ()  # the convolutions hear a little more
    assert ends(30 * FRAME_SAMPLES + 200) == (30,)
    assert ends(41 * FRAME_SAMPLES) == (30, 35, 40)
    assert ends(41 * FRAME_SAMPLES, is_last=True) == (30, 35, 40, 45)
    assert ends(40 * FRAME_SAMPLES, is_last=True) == (30, 35, 40)
    assert ends(1, is_last=True) == (30,)
    assert ends(0, is_last=True) == ()


@given(first_round=st.integers(1, 8 * SAMPLE_RATE), rounds=st.integers(0, 50), block_s=st.sampled_from([0.1, 0.3, 1.0]))
def test_rounds_that_follow_one_block_after_the_other_find_nothing_left_over(
    first_round: int, rounds: int, block_s: float
) -> None:
    blocks = Blocks(block_s=block_s)
    samples = first_round + rounds * blocks.block * FRAME_SAMPLES
    ends = blocks.ends(samples, first_round)
    if samples - 200 < (blocks.first + blocks.block) * FRAME_SAMPLES:
        assert len(ends) <= 1
    else:
        # The frames that are whole are all in blocks, and the first block is less than a block longer.
        assert ends[-1] == (samples - 200) // FRAME_SAMPLES
        assert blocks.first <= ends[0] < blocks.first + blocks.block


@cache
def whole() -> tuple[FloatArray, EncoderState]:
    """The noise in one portion."""
    return streamed(noise(), [LENGTH])


@quick(6)
@given(cuts=st.sets(st.integers(1, LENGTH - 1), max_size=30))
def test_in_any_portions_the_same_frames(cuts: set[int]) -> None:
    samples = noise()
    expected, state = whole()
    found, other = streamed(samples, [*sorted(cuts), LENGTH])
    assert other.frames == state.frames == 151
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


def test_the_frames_are_those_of_training() -> None:
    """The masked encoder over the features that training makes of the same audio."""
    samples = noise(1)
    ends = BLOCKS.ends(LENGTH, FIRST, is_last=True)
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
    first = advanced(samples[:30_000], None)
    assert first is not None
    with_state = advanced(samples, first.state, last=True)
    without = advanced(samples, None, last=True)
    of_another = advanced(samples, first.state, begin=640, last=True)
    assert with_state is not None
    for other in (without, of_another):
        assert other is not None
        assert other.valid_frames == with_state.valid_frames
        ours, theirs = (each.cross_k[0].numpy()[..., : other.valid_frames] for each in (with_state, other))
        assert np.abs(ours - theirs).max() < 1e-4 * np.abs(ours).max()


def test_nothing_is_encoded_before_there_is_a_block() -> None:
    samples = noise(3)
    first = advanced(samples[:10_120], None)  # 31 frames, and what they hear
    assert first is not None
    assert advanced(samples[:10_119], None) is None
    assert advanced(samples[:11_319], first.state) is None


@pytest.mark.parametrize(("name", "value"), [("block_s", 0.05), ("first_s", 0.61)])
def test_a_block_is_made_of_whole_frames(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=rf"expected {name} to be a multiple of 0.02 s.*got {value}"):
        replace(Blocks(), **{name: value})
