"""A graph builder that stays within the standard operators: what a compiler for an NPU understands.

Knows nothing of Whisper. Attention is written out, because the fused kinds are ONNX Runtime's own; the operators used
are on the list of ONNX Runtime's QNN provider (its documentation, "Supported ONNX operators").
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whispertide.graphs.builder import GraphBuilder, LinearKind


class PortableBuilder(GraphBuilder):
    """Writes static graphs of standard operators. Floats go in and out in the graph's own type, without casts."""

    def float_input(self, name: str, shape: Sequence[int | str]) -> str:
        """Declare an input of the graph's own float type."""
        return self.input(name, self.float_type, shape)

    def float_output(self, value: str, name: str, shape: Sequence[int | str]) -> None:
        """Declare an output of the graph's own float type."""
        self.output(value, name, self.float_type, shape)

    def gelu(self, value: str) -> str:
        """The exact (erf) GELU, standard since opset 20."""
        return self.node("Gelu", value, approximate="none")

    def part(self, value: str, first: int, end: int, axis: int) -> str:
        """`value[first:end]` along one axis."""
        return self.node("Slice", value, self.ints([first]), self.ints([end]), self.ints([axis]))

    def joined(self, values: list[str], axis: int) -> str:
        """The values side by side; a single one as it is, under a new name."""
        # Also of a single one, because an output of the graph needs a name that nothing else has.
        return self.node("Concat", *values, axis=axis)

    def attend(self, query: str, keys: str, values: str, bias: str) -> tuple[str, str]:
        """Attention over heads: query [1, heads, length, size], keys [1, heads, size, total], scaled already.

        Returns the mixed values [1, length, heads * size] and the weights [1, heads, length, total]. `bias` may be "".
        """
        scores = self.node("MatMul", query, keys)
        if bias:
            scores = self.node("Add", scores, bias)
        weights = self.node("Softmax", scores, axis=-1)
        mixed = self.transpose(self.node("MatMul", weights, values), 0, 2, 1, 3)
        return self.reshape(mixed, 0, 0, -1), weights


class ConvolvedBuilder(PortableBuilder):
    """Writes linear layers as convolutions of 1x1, which Qualcomm's compiler runs faster on its NPU (NPUsper, arXiv
    2607.01108, table 7). On a processor that gains nothing.
    """

    def linear(
        self,
        value: str,
        name: str,
        weight: np.ndarray[Any, Any],
        bias: np.ndarray[Any, Any] | None,
        kind: LinearKind,
        *,
        block: int = 128,
    ) -> str:
        """`value @ weight.T + bias` for `value` [1, rows, in] and a weight [out, in]; floats alone are convolved."""
        if kind != "float":
            return super().linear(value, name, weight, bias, kind, block=block)
        # [out, in, 1]: a kernel that is one column wide.
        tensors = [self.weight(f"{name}.1x1", weight[..., None])]
        tensors += [self.weight(f"{name}.bias", bias)] if bias is not None else []
        return self.transpose(self.node("Conv", self.transpose(value, 0, 2, 1), *tensors, kernel_shape=[1]), 0, 2, 1)
