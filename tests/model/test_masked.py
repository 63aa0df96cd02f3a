"""Windows under a mask of blocks: what is kept and what is cached is what the whole masked encoder computes.

Tolerance: largest difference of 1e-5 at fp32 between ways to the same window, relative error of 1e-4 to torch.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_models import TRUE_WIDTHS, random_whisper
from reference import nano
from slow_rows import slow_but
from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.mask import Mask
from whispertide.errors import GraphError
from whispertide.features import padded
from whispertide.graphs.store import GraphFiles
from whispertide.model.engine import LAST_LAYER, Encoded
from whispertide.model.masked import start
from whispertide.model.onnx_engine import OnnxEngine
from whispertide.options import EngineOptions
from whispertide.types import FloatArray

MASKS = ("d750", "d500", "d250", "c250", "c500")
NAMES = st.sampled_from(MASKS)


def engine_of(checkpoint: Checkpoint) -> OnnxEngine:
    return OnnxEngine(GraphFiles(checkpoint, "fp32"), EngineOptions(precision="fp32", provider="cpu", threads=1))


@cache
def of_nano() -> OnnxEngine:
    return engine_of(nano().checkpoint)


@pytest.fixture
def engine() -> OnnxEngine:
    """With nothing in its silence cache."""
    return engine_of(nano().checkpoint)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, OnnxEngine]:
    checkpoint = random_whisper(tmp_path_factory.mktemp("tiny") / "hf", TRUE_WIDTHS["tiny.en"])
    return checkpoint, engine_of(checkpoint)


def speech(columns: int, seed: int = 0, loudest: float = 1.5) -> FloatArray:
    noise = np.random.default_rng(seed).standard_normal((80, columns)).astype(np.float32)
    found = np.asarray(np.clip(0.3 * noise, -1.0, 1.4), np.float32)
    found[0, 0] = loudest
    return found


def fresh(engine: OnnxEngine, mel: FloatArray, mask: str) -> Encoded:
    return engine.encode(mel, state=start(Mask.parse(mask)), taps=(LAST_LAYER,))


def grown(engine: OnnxEngine, mel: FloatArray, mask: str, cuts: Sequence[int]) -> Encoded:
    """The window as it is after it grew to these columns, one after the other."""
    state = start(Mask.parse(mask))
    for cut in cuts:
        encoded = engine.encode(mel[:, :cut], state=state, taps=(LAST_LAYER,))
        assert encoded.state is not None
        state = encoded.state
    return encoded


def apart(one: Encoded, other: Encoded) -> float:
    """The largest difference in anything that a decoder or a detector is given."""
    assert one.valid_frames == other.valid_frames == 1500
    pairs = [*zip(one.cross_k, other.cross_k, strict=True), *zip(one.cross_v, other.cross_v, strict=True)]
    values = [(ours.numpy(), theirs.numpy()) for ours, theirs in pairs]
    values.append((one.taps[LAST_LAYER], other.taps[LAST_LAYER]))
    return max(float(np.abs(ours - theirs).max()) for ours, theirs in values)


def by_torch(checkpoint: Checkpoint, mel: FloatArray, name: str) -> FloatArray:
    """The whole window through every layer at once under the mask's matrix; only the convolutions are cut."""
    import torch

    from whispertide_lab.training.masks import mask_bias
    from whispertide_lab.training.network import load_network

    mask, encoder = Mask.parse(name), load_network(checkpoint).encoder.eval()
    window = torch.from_numpy(padded(mel, 3000))[None]
    gelu = torch.nn.functional.gelu
    with torch.no_grad():
        stems = [gelu(encoder.conv2(gelu(encoder.conv1(part)))) for part in window.split(mask.columns, dim=2)]
        x = torch.cat(stems, dim=2).transpose(1, 2) + encoder.embed_positions.weight
        bias = mask_bias(mask, 1500)
        for layer in encoder.layers:
            normed = layer.self_attn_layer_norm(x)
            x = layer.feed_forward(x + layer.self_attn(normed, normed, bias)[0])
        found: FloatArray = encoder.layer_norm(x)[0].numpy()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mask", MASKS)
def test_blocks_are_the_whole_under_the_matrix(mask: str) -> None:
    mel = speech(1800)
    expected = by_torch(nano().checkpoint, mel, mask)
    found = fresh(of_nano(), mel, mask).taps[LAST_LAYER]
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["d250", pytest.param("c500", marks=pytest.mark.soak)])
def test_at_the_true_shape_of_tiny(mask: str, tiny: tuple[Checkpoint, OnnxEngine]) -> None:
    """Kept, cached, and whole, with random weights whose attention is peaked."""
    (checkpoint, engine), mel = tiny, speech(1100)
    whole = fresh(engine, mel, mask)
    assert apart(grown(engine, mel, mask, [300, 1040, 1100]), whole) < 1e-5
    expected = by_torch(checkpoint, mel, mask)
    assert np.abs(whole.taps[LAST_LAYER] - expected).max() < 1e-4 * np.abs(expected).max()


@pytest.mark.slow
@settings(max_examples=4)
@given(name=NAMES, length=st.integers(2, 3000), cuts=st.sets(st.integers(1, 3000), max_size=5), seed=st.integers(0, 9))
def test_in_any_portions_the_same_window(name: str, length: int, cuts: set[int], seed: int) -> None:
    mel = speech(length, seed)
    portions = [cut for cut in sorted(cuts) if cut < length]
    assert apart(grown(of_nano(), mel, name, [*portions, length]), fresh(of_nano(), mel, name)) < 1e-5


@settings(max_examples=3)
@given(name=st.sampled_from(["d750", "d500", "d250"]), blocks=st.integers(1, 5), seed=st.integers(0, 9))
@pytest.mark.slow
def test_speech_then_silence_is_the_cached_form(name: str, blocks: int, seed: int) -> None:
    """Whatever was said before it, a block of padding is the block that was encoded for another window."""
    mask = Mask.parse(name)
    mel = speech(min(blocks * mask.columns, 3000), seed)
    cached, without = of_nano(), engine_of(nano().checkpoint)
    fresh(cached, speech(10, seed + 1), name)
    assert apart(fresh(cached, mel, name), fresh(without, mel, name)) < 1e-5


@pytest.mark.slow
def test_silence_is_encoded_once(engine: OnnxEngine) -> None:
    assert fresh(engine, speech(900), "d250").fresh == 6 * ((250, None),)
    assert fresh(engine, speech(900, 1), "d250").fresh == 2 * ((250, None),)
    assert fresh(engine, speech(400, 2), "d250").fresh == 2 * ((250, None),)  # block 1 was never silent before
    assert fresh(engine, speech(400, 3), "d250").fresh == ((250, None),)
    assert fresh(engine, speech(400, 3, loudest=1.75), "d250").fresh == 6 * ((250, None),)  # its silence lies higher
    all_after_another = tuple((250, start) for start in range(0, 1500, 250))
    assert fresh(engine, speech(900), "c250").fresh == all_after_another
    assert fresh(engine, speech(900, 1), "c250").fresh == all_after_another  # there it depends on the speech


@pytest.mark.parametrize(
    ("mask", "computed"), slow_but([("d250", [None]), ("c250", [500, 750, 1000, 1250])], ("d250", [None]))
)
def test_only_blocks_with_new_audio_are_encoded(mask: str, computed: list[int | None], engine: OnnxEngine) -> None:
    mel = speech(1300)
    first = fresh(engine, mel[:, :1100], mask)
    assert first.state is not None
    second = engine.encode(mel, state=first.state)
    assert second.fresh == tuple(
        (250, past) for past in computed
    )  # under the causal mask what follows the new audio too
    assert second.state is not None
    assert engine.encode(mel, state=second.state).fresh == ()


@pytest.mark.parametrize("mask", slow_but(["d750", "c750"], "d750"))
def test_padding_is_silence(mask: str) -> None:
    """A zero among normalised frames is a sound, 30 dB above silence in a window as loud as this."""
    mel = speech(700)
    whole = np.full((80, 3000), 1.5 - 2.0, np.float32)
    whole[:, :700] = mel
    assert apart(fresh(of_nano(), mel, mask), fresh(of_nano(), whole, mask)) < 1e-5


@pytest.mark.slow
def test_a_state_is_a_value(engine: OnnxEngine) -> None:
    """Two windows go on from one state; another window's, or none, costs time alone."""
    mel = speech(1600)
    other = np.concatenate([mel[:, :1100], speech(500, 5)], axis=1)
    for mask in ("d500", "c250"):
        first = fresh(engine, mel[:, :1200], mask)
        assert first.state is not None
        for window in (mel, other, speech(1600, 7)):
            again = engine.encode(window, state=first.state, taps=(LAST_LAYER,))
            assert apart(again, fresh(engine, window, mask)) < 1e-5


def test_what_is_refused() -> None:
    engine, state = of_nano(), start(Mask.parse("d750"))
    with pytest.raises(GraphError, match=r"1 to 3000\] and a mask whose blocks fill 3000 columns; got .80, 3002. and"):
        engine.encode(speech(3002), state=state)
    with pytest.raises(GraphError, match="d700"):
        engine.encode(speech(100), state=start(replace(Mask.parse("d750"), block=700)))
    with pytest.raises(GraphError, match="taps"):
        engine.encode(speech(100), state=state, taps=(0,))
