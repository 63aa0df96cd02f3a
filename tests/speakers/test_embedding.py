"""The network: another one by a path, the published one's graph, and what is no such network."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from whispertide.errors import CheckpointError, CheckpointNotFoundError
from whispertide.graphs.builder import GraphBuilder, WeightFile
from whispertide.graphs.onnx_file import ElementType
from whispertide.speakers import embedding
from whispertide.speakers.embedding import OWN_FILE, find_embedding, find_network
from whispertide.speakers.features import filter_banks
from whispertide.types import FloatArray


@pytest.fixture(autouse=True)
def opened_anew() -> Iterator[None]:
    embedding._open.cache_clear()
    yield
    embedding._open.cache_clear()


def tiny_network(folder: Path, bands: int = 80) -> Path:
    """A file as WeSpeaker exports them: the vector is the mean over time."""
    with (folder / "tiny.weights").open("wb") as file:
        graph = GraphBuilder("tiny", WeightFile("tiny.weights", file))
        feats = graph.input("feats", ElementType.FLOAT, ("B", "T", bands))
        squared = graph.node("Mul", feats, feats)
        mean = graph.node("ReduceMean", squared, graph.ints([1]), keepdims=0)
        graph.output(mean, "embs", ElementType.FLOAT, ("B", bands))
        graph.save(folder)
    return folder / "tiny.onnx"


def noise(seconds: float, seed: int = 0) -> FloatArray:
    return (0.1 * np.random.default_rng(seed).standard_normal(round(16_000 * seconds))).astype(np.float32)


def test_another_network_is_named_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWN_FILE, str(tiny_network(tmp_path)))
    vector = find_embedding().vector(noise(1.5))
    squared = (filter_banks(noise(1.5), "hamming") ** 2).mean(axis=0)
    np.testing.assert_allclose(vector, squared / np.linalg.norm(squared), rtol=1e-4)
    np.testing.assert_array_equal(find_embedding().vector(noise(1.5)), vector)
    assert find_network() == tmp_path / "tiny.onnx"


def test_it_is_not_opened_before_it_hears_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no network")
    monkeypatch.setenv(OWN_FILE, str(broken))
    later = find_embedding()
    with pytest.raises(CheckpointError, match="does not load"):
        later.vector(noise(1))


def test_a_network_of_another_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWN_FILE, str(tiny_network(tmp_path, bands=40)))
    with pytest.raises(CheckpointError, match=r"filter banks \[batch, frames, 80\]"):
        find_embedding().vector(noise(1))


def test_a_path_with_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for gone in (str(tmp_path / "gone.onnx"), "~no-such-user/gone.onnx"):
        monkeypatch.setenv(OWN_FILE, gone)
        with pytest.raises(CheckpointNotFoundError, match=OWN_FILE):
            find_embedding()


def test_without_a_network_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OWN_FILE, raising=False)
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    assert find_network() is None
    with pytest.raises(CheckpointNotFoundError, match="whispertide models pull speakers"):
        find_embedding()
