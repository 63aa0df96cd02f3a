"""Trained offramps: what numpy computes is what torch does, and a file belongs to its checkpoint."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import whispertide
from whispertide.cli.bundled import bundled_audio
from whispertide.errors import CheckpointError
from whispertide.methods.pilot.pilot import HeardUtterance
from whispertide.recipes.catalogue import get_recipe
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation.trained_offramp import (
    TRAINED,
    Asking,
    Trained,
    TrainedOfframp,
    padded,
    shapes_of,
    signs,
)
from whispertide_lab.training.offramp import network_of

pytestmark = pytest.mark.slow

WIDTH = 24


def random_one(kind: Trained, width: int = WIDTH, seed: int = 0) -> tuple[Any, TrainedOfframp]:
    """The same network for torch and for us."""
    torch.manual_seed(seed)
    network = network_of(kind, width).eval()
    arrays = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    return network, TrainedOfframp(kind, arrays, "abc")


@settings(max_examples=20)
@given(st.lists(st.floats(-30, 0, width=32), max_size=40), st.integers(0, 3))
def test_the_recurrent_one_is_that_of_torch(logprobs: list[float], seed: int) -> None:
    network, ours = random_one("bilstm", seed=seed)
    with torch.no_grad():
        theirs = float(torch.sigmoid(network([torch.from_numpy(signs(logprobs))])))
    assert ours.offload_probability(logprobs, None) == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("kind", ["cnn", "linear"])
@pytest.mark.parametrize("frames", [0, 1, 39, 40, 41, 300, 1500])
def test_those_that_hear_are_those_of_torch(frames: int, kind: Trained) -> None:
    network, ours = random_one(kind)
    states = np.random.default_rng(frames).standard_normal((frames, WIDTH)).astype(np.float32)
    with torch.no_grad():
        theirs = float(torch.sigmoid(network([torch.from_numpy(padded(states))])))
    assert ours.offload_probability((), states) == pytest.approx(theirs, abs=1e-5)


def test_texts_in_a_batch_do_not_change_each_other() -> None:
    network, ours = random_one("bilstm")
    texts = [[-0.1] * 3, [-2.0, -0.1] * 6, []]
    with torch.no_grad():
        together = torch.sigmoid(network([torch.from_numpy(signs(text)) for text in texts])).tolist()
    assert together == pytest.approx([ours.offload_probability(text, None) for text in texts], abs=1e-5)


@pytest.mark.parametrize("kind", TRAINED)
def test_a_file_comes_back(kind: Trained, tmp_path: Path) -> None:
    _, ours = random_one(kind)
    path = ours.save(tmp_path)
    back = TrainedOfframp.load(path, kind, width=WIDTH, content_hash="abc")
    assert {name: array.shape for name, array in back.arrays.items()} == shapes_of(kind, WIDTH)
    states = np.ones((50, WIDTH), np.float32)
    assert back.offload_probability((-0.5,), states) == ours.offload_probability((-0.5,), states)
    with pytest.raises(CheckpointError, match="another checkpoint"):
        TrainedOfframp.load(path, kind, width=WIDTH, content_hash="other")
    with pytest.raises(CheckpointError, match="something else"):
        TrainedOfframp.load(path, "cnn" if kind != "cnn" else "bilstm", width=WIDTH, content_hash="")


@pytest.mark.parametrize("kind", TRAINED)
def test_it_is_asked_of_every_pilot(kind: Trained) -> None:
    """On the bundled model: about the tokens of every round, or about what the encoder gave out."""
    model = whispertide.load("nano.en", threads=1)
    asked: list[tuple[tuple[float, ...], Any]] = []

    @dataclass
    class Watched:
        hears: bool = kind in TrainedOfframp.by_states

        def offload_probability(self, logprobs: Any, states: Any) -> float:
            asked.append((tuple(logprobs), states))
            return 0.0

    recipe = model.framed(get_recipe("pilot").replace(vad=False)).recipe
    session = model.session(recipe.replace(executor="serial"), vad=False)
    assert isinstance(session.executor, SerialExecutor)
    executor = Asking.of(session.executor.resources, Watched())
    seen = []
    session.ingest(bundled_audio()[: 3 * SAMPLE_RATE])
    while plan := session.due():
        result = executor.run(plan, session.window(plan), session.options)
        assert isinstance(result.heard, HeardUtterance)
        seen.append(result.heard.scores)
        session.apply(result)
    assert [scores.logprobs for scores in seen] == [logprobs for logprobs, _ in asked] != []
    if kind == "bilstm":
        assert all(states is None for _, states in asked)
    else:
        assert asked[0][1].shape == (150, model.dims.n_audio_state), "20 ms a frame"
