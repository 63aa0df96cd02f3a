"""An encoder that hears a stream piece by piece computes what it computes of the whole under a block-causal mask.

Tolerance: relative error (largest difference over largest value) of 1e-4 at fp32.
"""

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_models import TRUE_WIDTHS, random_whisper
from reference import nano
from whispertide.checkpoint import Checkpoint
from whispertide.errors import GraphError
from whispertide.graphs.contract import masked_value
from whispertide.graphs.store import GraphFiles
from whispertide.model.engine import LAST_LAYER, Encoded
from whispertide.model.incremental import START, block_bias
from whispertide.model.onnx_engine import OnnxEngine
from whispertide.options import EngineOptions
from whispertide.types import FloatArray, IntArray

TOLERANCE = 1e-4
FRAMES = 400
MASKED = masked_value("fp32")
SIZES = st.lists(st.sampled_from([1, 2, 5, 10, 15, 30, 50, 150]), min_size=1, max_size=40)


def engine_of(checkpoint: Checkpoint) -> OnnxEngine:
    options = EngineOptions(precision="fp32", provider="cpu", threads=1)
    return OnnxEngine(GraphFiles(checkpoint, "fp32"), options)


@cache
def of_nano() -> OnnxEngine:
    return engine_of(nano().checkpoint)


@pytest.fixture(scope="module")
def engine() -> OnnxEngine:
    return of_nano()


def mel_of(seed: int, frames: int = FRAMES) -> FloatArray:
    noise = np.random.default_rng(seed).standard_normal((80, 2 * frames + 1)).astype(np.float32)
    return np.asarray(np.clip(noise, -1.0, 1.5), np.float32)


def ends_of(sizes: list[int], frames: int = FRAMES) -> list[int]:
    ends = np.cumsum(sizes * frames)
    return [int(end) for end in ends if end < frames] + [frames]


def in_pieces(engine: OnnxEngine, mel: FloatArray, ends: list[int]) -> tuple[Encoded, FloatArray]:
    """What the last piece gave, and the hidden states of all."""
    state, hidden = START, []
    for first, end in pairwise([0, *ends]):
        columns = mel[:, 2 * first + (first > 0) : 2 * end + 1]
        encoded = engine.encode(columns, state=state, taps=(LAST_LAYER,))
        assert encoded.state is not None
        state = encoded.state
        hidden.append(encoded.taps[LAST_LAYER])
    return encoded, np.concatenate(hidden)


def whole(engine: OnnxEngine, mel: FloatArray, bias: FloatArray | None) -> Encoded:
    """The same audio as a window, and a frame more, which the last convolutions hear and nobody attends to."""
    wide = np.pad(mel, ((0, 0), (0, 1)))
    if bias is not None:
        bias = np.pad(bias, ((0, 1), (0, 1)), constant_values=MASKED)
        bias[-1, -1] = 0
    return engine.encode(wide, taps=(LAST_LAYER,), attention=bias)


def error(ours: FloatArray, reference: FloatArray) -> float:
    return float(np.abs(ours - reference).max() / np.abs(reference).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["nano.en", pytest.param("tiny.en", marks=pytest.mark.slow), pytest.param("base", marks=pytest.mark.soak)]
)
def test_pieces_are_the_masked_whole(name: str, tmp_path: Path) -> None:
    engine = of_nano() if name == "nano.en" else engine_of(random_whisper(tmp_path / "hf", TRUE_WIDTHS[name]))
    for sizes in ([5], [30, 5], [50, 7, 1]):
        check_pieces(engine, mel_of(1), ends_of(sizes))


def check_pieces(engine: OnnxEngine, mel: FloatArray, ends: list[int]) -> None:
    encoded, hidden = in_pieces(engine, mel, ends)
    reference = whole(engine, mel, block_bias(ends, MASKED))
    assert error(hidden, reference.taps[LAST_LAYER][:FRAMES]) < TOLERANCE
    assert encoded.valid_frames == FRAMES
    for ours, theirs in zip(encoded.cross_k, reference.cross_k, strict=True):
        assert error(ours.numpy()[..., :FRAMES], theirs.numpy()[..., :FRAMES]) < TOLERANCE
    for ours, theirs in zip(encoded.cross_v, reference.cross_v, strict=True):
        assert error(ours.numpy()[..., :FRAMES, :], theirs.numpy()[..., :FRAMES, :]) < TOLERANCE
    control = whole(engine, mel, None)
    assert error(hidden, control.taps[LAST_LAYER][:FRAMES]) > 100 * TOLERANCE


@pytest.mark.slow
@settings(max_examples=5)
@given(sizes=SIZES, seed=st.integers(0, 100))
def test_any_pieces_are_the_masked_whole(sizes: list[int], seed: int) -> None:
    engine, ends = of_nano(), ends_of(sizes, 160)
    mel = mel_of(seed, 160)
    reference = whole(engine, mel, block_bias(ends, MASKED))
    assert error(in_pieces(engine, mel, ends)[1], reference.taps[LAST_LAYER][:160]) < TOLERANCE


def test_several_blocks_may_be_one_piece(engine: OnnxEngine) -> None:
    mel = mel_of(2, 60)
    one_by_one = in_pieces(engine, mel, [30, 35, 40, 45, 60])[1]
    state = engine.encode(mel[:, :61], state=START).state
    bias = block_bias([5, 10, 15, 30], MASKED)
    at_once = engine.encode(mel[:, 61:], state=state, taps=(LAST_LAYER,), attention=bias)
    assert error(at_once.taps[LAST_LAYER], one_by_one[30:]) < TOLERANCE


def test_later_audio_changes_no_earlier_frame(engine: OnnxEngine) -> None:
    mel, other = mel_of(3, 60), mel_of(3, 60)
    other[:, 61:] = mel_of(4, 60)[:, 61:]
    one, two = (in_pieces(engine, each, [30, 35, 60])[1] for each in (mel, other))
    assert np.array_equal(one[:30], two[:30])
    assert not np.allclose(one[30:], two[30:])


def test_a_state_is_a_value(engine: OnnxEngine) -> None:
    mel, other = mel_of(5, 60), mel_of(6, 60)
    state = engine.encode(mel[:, :61], state=START).state
    first = engine.encode(mel[:, 61:], state=state, taps=(LAST_LAYER,))
    kept = [np.array(keys.numpy()) for keys in first.cross_k]
    engine.encode(other[:, 61:], state=state)  # another way to go on
    again = engine.encode(mel[:, 61:], state=state, taps=(LAST_LAYER,))
    assert np.array_equal(first.taps[LAST_LAYER], again.taps[LAST_LAYER])
    assert all(np.array_equal(before, keys.numpy()) for before, keys in zip(kept, first.cross_k, strict=True))


def test_a_decoder_hears_the_stream_as_far_as_it_goes(engine: OnnxEngine) -> None:
    """What the room does not hold yet is padding, whatever is in it."""
    from whispertide.model.engine import DecodeRequest

    mel = mel_of(7, 60)
    state = engine.encode(mel[:, :61], state=START).state
    encoded = engine.encode(mel[:, 61:81], state=state)
    tokens: IntArray = np.array([[50257, 50362]])
    request = DecodeRequest(tokens, logits_at=(1,), need="logits")
    early = engine.start(encoded).run(request).logits
    engine.encode(mel[:, 81:], state=encoded.state)
    late = engine.start(encoded).run(request).logits
    assert early is not None
    assert late is not None
    assert np.array_equal(early, late)


@pytest.mark.parametrize("columns", [0, 2, 4])
def test_a_first_piece_has_a_column_more(engine: OnnxEngine, columns: int) -> None:
    with pytest.raises(GraphError, match="odd number from 3"):
        engine.encode(np.zeros((80, columns), np.float32), state=START)


@pytest.mark.slow
def test_a_stream_ends_where_the_positions_do(engine: OnnxEngine) -> None:
    state = engine.encode(np.zeros((80, 2 * 1490 + 1), np.float32), state=START).state
    with pytest.raises(GraphError, match="at most 1500 frames in a stream; got 1490 and 20 more"):
        engine.encode(np.zeros((80, 40), np.float32), state=state)
