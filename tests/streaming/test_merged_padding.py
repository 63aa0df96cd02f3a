"""Padding of which a few frames stand for all: where they lie, and how much they count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripted_model import ScriptedModel
from whispertide.api import Transcriber, load
from whispertide.features import log_mel
from whispertide.model.engine import LAST_LAYER
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import parse_overrides
from whispertide.streaming.framing import PAD30, Merged, taught_framing
from whispertide.streaming.merged_padding import merge_padding
from whispertide.types import FloatArray


@given(near=st.integers(1, 1000), count=st.integers(1, 400))
def test_the_frames_stand_for_all_of_thirty_seconds(near: int, count: int) -> None:
    positions, bias = merge_padding(near, count, 1500)
    assert len(positions) == near + count
    assert bias.shape == (near + count, near + count)
    assert (np.diff(positions) > 0).all()
    assert (positions[0], positions[-1]) <= (0, 1499)
    assert (positions[:near] == np.arange(near)).all()
    np.testing.assert_allclose(np.exp(bias.astype(np.float64)).sum(axis=1), 1500, rtol=1e-5)
    assert (bias[:, :near] == 0).all()
    assert (bias == bias[0]).all()


def test_the_name_says_how_many() -> None:
    """`tune` tries two of them: that of any checkpoint, and that of an adapter."""
    assert Merged().name == "merged padding of 128 frames"
    assert taught_framing(16).name == "merged padding of 16 frames"


@pytest.mark.parametrize(
    ("mel_frames", "frames"), [(200, 100 + 25 + 128), (201, 101 + 25 + 128), (2600, 1300 + 25 + 128), (2800, 1500)]
)
def test_a_window_has_its_silence_and_so_many_frames(mel_frames: int, frames: int) -> None:
    model = ScriptedModel(lambda encoded: [])
    encoded = Merged()(model, np.ones((80, mel_frames), np.float32))  # type: ignore[arg-type]
    assert (encoded.frames, encoded.valid_frames) == (frames, frames)
    assert (model.mels[0][:, mel_frames:] == -1).all()  # 80 dB below, as zeros after the audio would be


def test_its_length() -> None:
    assert Merged().length_s(2.0) == pytest.approx(2.0 + 0.5 + 128 / 50)
    assert Merged().length_s(29.0) == 30.0


def test_it_can_be_asked_for() -> None:
    assert parse_overrides(get_recipe("tide"), ["framing=merged", "stand_for_all=64"]).framing == Merged(
        stand_for_all=64
    )


@pytest.fixture(scope="module")
def exact() -> Transcriber:
    return load("nano.en", threads=1, provider="cpu", precision="fp32")


def _hidden(transcriber: Transcriber, framing: Merged, mel: FloatArray) -> FloatArray:
    return framing(transcriber.model, mel, taps=(LAST_LAYER,)).taps[LAST_LAYER]


@pytest.mark.slow
def test_where_each_frame_stands_for_itself_it_is_padding(exact: Transcriber) -> None:
    mel = log_mel(np.random.default_rng(1).normal(0, 0.1, 32_000).astype(np.float32), exact.model.dims.n_mels)
    padded = PAD30(exact.model, mel, taps=(LAST_LAYER,)).taps[LAST_LAYER]
    every = merge_padding(125, 1374, 1500)  # one frame fewer than there are, so that the framing does not just pad
    assert np.exp(every[1][0]).max() == pytest.approx(2)
    heard = _hidden(exact, Merged(stand_for_all=1374), mel)
    np.testing.assert_allclose(heard[:100], padded[:100], atol=0.02)


@pytest.mark.slow
def test_fewer_frames_are_further_from_it_and_uncounted_ones_further_still(exact: Transcriber) -> None:
    mel = log_mel(np.random.default_rng(1).normal(0, 0.1, 32_000).astype(np.float32), exact.model.dims.n_mels)
    padded = PAD30(exact.model, mel, taps=(LAST_LAYER,)).taps[LAST_LAYER]
    positions, bias = merge_padding(125, 128, 1500)

    def distance(heard: FloatArray) -> float:
        return float(np.abs(heard[:100] - padded[:100]).mean())

    many, few = (distance(_hidden(exact, Merged(stand_for_all=count), mel)) for count in (512, 8))
    silence = np.full((exact.model.dims.n_mels, 2 * 253 - mel.shape[1]), mel.min(), np.float32)
    window = np.concatenate([mel, silence], axis=1)
    uncounted = exact.model.encode(window, attention=np.zeros_like(bias), positions=positions, taps=(LAST_LAYER,))
    assert many < few
    assert distance(_hidden(exact, Merged(), mel)) < distance(uncounted.taps[LAST_LAYER])
