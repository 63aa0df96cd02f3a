"""CAM++'s graph: from tensors of the published names and shapes to vectors, whatever the length and the batch."""

from pathlib import Path

import numpy as np
import pytest

from whispertide.graphs import campplus
from whispertide.model.runtime import GraphSession, open_session
from whispertide.options import EngineOptions
from whispertide.types import FloatArray


def tensors() -> dict[str, FloatArray]:
    """Random ones, with the names and shapes of the published checkpoint."""
    dice, made = np.random.default_rng(7), dict[str, FloatArray]()

    def conv(name: str, *shape: int) -> None:
        made[f"{name}.weight"] = (dice.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    def norm(name: str, size: int, *, learned: bool = True) -> None:
        made[f"{name}.running_mean"] = (0.1 * dice.standard_normal(size)).astype(np.float32)
        made[f"{name}.running_var"] = dice.uniform(0.5, 1.5, size).astype(np.float32)
        if learned:
            made[f"{name}.weight"] = dice.uniform(0.5, 1.5, size).astype(np.float32)
            made[f"{name}.bias"] = (0.1 * dice.standard_normal(size)).astype(np.float32)

    conv("head.conv1", 32, 1, 3, 3)
    norm("head.bn1", 32)
    for block, part in ((block, part) for block in ("layer1", "layer2") for part in (0, 1)):
        for number in (1, 2):
            conv(f"head.{block}.{part}.conv{number}", 32, 32, 3, 3)
            norm(f"head.{block}.{part}.bn{number}", 32)
        if part == 0:
            conv(f"head.{block}.0.shortcut.0", 32, 32, 1, 1)
            norm(f"head.{block}.0.shortcut.1", 32)
    conv("head.conv2", 32, 32, 3, 3)
    norm("head.bn2", 32)
    conv("xvector.tdnn.linear", 128, 320, 5)
    norm("xvector.tdnn.nonlinear.batchnorm", 128)
    channels = 128
    for number, count in enumerate((12, 24, 16), 1):
        for layer in range(1, count + 1):
            name = f"xvector.block{number}.tdnnd{layer}"
            norm(f"{name}.nonlinear1.batchnorm", channels)
            conv(f"{name}.linear1", 128, channels, 1)
            norm(f"{name}.nonlinear2.batchnorm", 128)
            conv(f"{name}.cam_layer.linear_local", 32, 128, 3)
            for part, out, into in ((1, 64, 128), (2, 32, 64)):
                conv(f"{name}.cam_layer.linear{part}", out, into, 1)
                made[f"{name}.cam_layer.linear{part}.bias"] = np.zeros(out, np.float32)
            channels += 32
        norm(f"xvector.transit{number}.nonlinear.batchnorm", channels)
        conv(f"xvector.transit{number}.linear", channels // 2, channels, 1)
        channels //= 2
    norm("xvector.out_nonlinear.batchnorm", channels)
    conv("xvector.dense.linear", 192, 2 * channels, 1)
    norm("xvector.dense.nonlinear.batchnorm", 192, learned=False)
    return made


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> GraphSession:
    folder = tmp_path_factory.mktemp("campplus")
    campplus.build(tensors(), folder)
    return open_session(folder / "campplus.onnx", EngineOptions(provider="cpu", threads=1))


def vectors(graph: GraphSession, features: FloatArray) -> FloatArray:
    (value,) = graph.run(["vector"], {"features": features})
    found: FloatArray = value.numpy()
    return found


@pytest.mark.slow
def test_a_vector_for_each_of_a_batch(graph: GraphSession) -> None:
    features = np.random.default_rng(1).standard_normal((2, 100, 80)).astype(np.float32)
    both = vectors(graph, features)
    assert both.shape == (2, campplus.SIZE)
    assert np.isfinite(both).all()
    np.testing.assert_allclose(vectors(graph, features[1:])[0], both[1], atol=1e-4)
    assert not np.allclose(both[0], both[1], atol=1e-3)


def test_any_length(graph: GraphSession) -> None:
    for frames in (20, 98, 151, campplus.MOST_FRAMES):
        features = np.random.default_rng(frames).standard_normal((1, frames, 80)).astype(np.float32)
        assert np.isfinite(vectors(graph, features)).all()


def test_a_checkpoint_without_one_of_its_tensors_is_none(tmp_path: Path) -> None:
    made = tensors()
    del made["xvector.transit2.linear.weight"]
    with pytest.raises(KeyError, match="transit2"):
        campplus.build(made, tmp_path)
