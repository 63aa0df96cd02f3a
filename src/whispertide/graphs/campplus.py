"""CAM++ (Alibaba, 3D-Speaker): a stretch of speech -> one vector, near for one voice and far for two.

Its layers (Wang et al., "CAM++", 2023): residual convolutions over time and frequency, then three blocks of densely
connected convolutions over time, each of which is masked by what the whole stretch sounds like, then mean and standard
deviation over time. The mask also looks at segments of 100 steps of 20 ms; a stretch of up to `MOST_FRAMES` is one such
segment, so the graph takes its mean for both. Knows nothing of audio: it takes mel filter banks.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from whispertide.graphs.builder import GraphBuilder, WeightFile
from whispertide.graphs.onnx_file import ElementType
from whispertide.types import FloatArray

NAME = "campplus"
BANDS = 80
MOST_FRAMES = 200  # of 10 ms
SIZE = 192
_BLOCKS = ((12, 1), (24, 2), (16, 2))  # layers and dilation
_EPSILON = 1e-5

Tensors = Mapping[str, FloatArray]  # by the names of the checkpoint


def build(tensors: Tensors, folder: Path) -> None:
    """Write the graph and its weights: `features` [batch, frames, 80] -> `vector` [batch, 192], not of unit length.

    Raises `KeyError` for a tensor that is not there.
    """
    with (folder / f"{NAME}.weights").open("wb") as file:
        layers = _Layers(GraphBuilder(NAME, WeightFile(f"{NAME}.weights", file)), tensors)
        graph = layers.graph
        features = graph.input("features", ElementType.FLOAT, ("batch", "frames", BANDS))
        vector = _pooled(layers, _blocks(layers, _front(layers, graph.transpose(features, 0, 2, 1))))
        graph.output(vector, "vector", ElementType.FLOAT, ("batch", SIZE))
        graph.save(folder)


class _Layers:
    """Adds layers by the names of their tensors."""

    def __init__(self, graph: GraphBuilder, tensors: Tensors) -> None:
        self.graph = graph
        self._tensors = tensors

    def tensor(self, name: str) -> str:
        return self.graph.weight(name, self._tensors[name])

    def conv(
        self, value: str, name: str, *, stride: tuple[int, ...] = (1,), dilation: int = 1, pad: int | None = None
    ) -> str:
        """A convolution that keeps the length, but for its stride."""
        kernel = list(self._tensors[f"{name}.weight"].shape[2:])
        inputs = [value, self.tensor(f"{name}.weight")]
        if f"{name}.bias" in self._tensors:
            inputs.append(self.tensor(f"{name}.bias"))
        pads = [size // 2 * dilation if pad is None else pad for size in kernel]
        return self.graph.node(
            "Conv",
            *inputs,
            kernel_shape=kernel,
            strides=list(stride),
            dilations=[dilation] * len(kernel),
            pads=[*pads, *pads],
        )

    def norm(self, value: str, name: str) -> str:
        """A batch norm with what it learned; one without scale and bias has ones and zeros."""
        mean = self._tensors[f"{name}.running_mean"]
        if f"{name}.weight" in self._tensors:
            scale, bias = self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias")
        else:
            scale = self.graph.weight(f"{name}.ones", np.ones_like(mean))
            bias = self.graph.weight(f"{name}.zeros", np.zeros_like(mean))
        known = self.tensor(f"{name}.running_mean"), self.tensor(f"{name}.running_var")
        return self.graph.node("BatchNormalization", value, scale, bias, *known, epsilon=_EPSILON)

    def relu(self, value: str) -> str:
        return self.graph.node("Relu", value)

    def mean(self, value: str) -> str:
        """Over time, the last dimension, which stays as one."""
        return self.graph.node("ReduceMean", value, self.graph.ints([-1]), keepdims=1)


def _front(layers: _Layers, value: str) -> str:
    """[batch, 80, frames] -> [batch, 320, frames]: the convolutions over time and frequency."""
    graph = layers.graph
    value = graph.node("Unsqueeze", value, graph.ints([1]))
    value = layers.relu(layers.norm(layers.conv(value, "head.conv1", stride=(1, 1)), "head.bn1"))
    for name, stride in (("layer1.0", 2), ("layer1.1", 1), ("layer2.0", 2), ("layer2.1", 1)):
        value = _residual(layers, value, f"head.{name}", stride)
    value = layers.relu(layers.norm(layers.conv(value, "head.conv2", stride=(2, 1)), "head.bn2"))
    return graph.node("Reshape", value, graph.ints([0, 32 * BANDS // 8, -1]))


def _residual(layers: _Layers, value: str, name: str, stride: int) -> str:
    inner = layers.relu(layers.norm(layers.conv(value, f"{name}.conv1", stride=(stride, 1)), f"{name}.bn1"))
    inner = layers.norm(layers.conv(inner, f"{name}.conv2", stride=(1, 1)), f"{name}.bn2")
    if stride != 1:
        short = layers.conv(value, f"{name}.shortcut.0", stride=(stride, 1))
        value = layers.norm(short, f"{name}.shortcut.1")
    return layers.relu(layers.graph.node("Add", inner, value))


def _blocks(layers: _Layers, value: str) -> str:
    """[batch, 320, frames] -> [batch, 512, frames / 2]: the dense blocks, with half the channels after each."""
    first = layers.conv(value, "xvector.tdnn.linear", stride=(2,))
    value = layers.relu(layers.norm(first, "xvector.tdnn.nonlinear.batchnorm"))
    for number, (count, dilation) in enumerate(_BLOCKS, 1):
        for layer in range(1, count + 1):
            added = _dense(layers, value, f"xvector.block{number}.tdnnd{layer}", dilation)
            value = layers.graph.node("Concat", value, added, axis=1)
        name = f"xvector.transit{number}"
        value = layers.conv(layers.relu(layers.norm(value, f"{name}.nonlinear.batchnorm")), f"{name}.linear")
    return layers.relu(layers.norm(value, "xvector.out_nonlinear.batchnorm"))


def _dense(layers: _Layers, value: str, name: str, dilation: int) -> str:
    """A layer's 32 new channels, masked by the context."""
    graph = layers.graph
    inner = layers.conv(layers.relu(layers.norm(value, f"{name}.nonlinear1.batchnorm")), f"{name}.linear1")
    inner = layers.relu(layers.norm(inner, f"{name}.nonlinear2.batchnorm"))
    mean, cam = layers.mean(inner), f"{name}.cam_layer"
    context = graph.node("Add", mean, mean)  # of everything, and of its only segment
    mask = layers.conv(layers.relu(layers.conv(context, f"{cam}.linear1")), f"{cam}.linear2")
    local = layers.conv(inner, f"{cam}.linear_local", dilation=dilation)
    return graph.node("Mul", local, graph.node("Sigmoid", mask))


def _pooled(layers: _Layers, value: str) -> str:
    """[batch, 512, steps] -> [batch, 192]: mean and standard deviation (of a sample) over time, and the last layer."""
    graph = layers.graph
    mean = layers.mean(value)
    off = graph.node("Sub", value, mean)
    steps = graph.cast(graph.node("Shape", value, start=2), ElementType.FLOAT)
    share = graph.node("Div", steps, graph.node("Sub", steps, graph.scalar(1.0)))
    deviation = graph.node("Sqrt", graph.node("Mul", layers.mean(graph.node("Mul", off, off)), share))
    both = graph.node("Concat", mean, deviation, axis=1)
    last = layers.norm(layers.conv(both, "xvector.dense.linear"), "xvector.dense.nonlinear.batchnorm")
    return graph.node("Squeeze", last, graph.ints([2]))
