"""What all encoders share: the mask over padding, a run, and windows as runtime tensors."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whispertide.checkpoint import ModelDims
from whispertide.graphs.contract import masked_value
from whispertide.model.engine import Encoded, check_taps
from whispertide.model.runtime import GraphSession
from whispertide.types import FloatArray


def in_runtime(encoded: Encoded) -> Encoded:
    """The same window for a decoder of ONNX Runtime, whichever engine encoded it; copied only where it must be."""
    import onnxruntime

    def tensor(values: Any) -> Any:
        if isinstance(values, onnxruntime.OrtValue):
            return values
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(values, np.float32))

    keys, contents = tuple(map(tensor, encoded.cross_k)), tuple(map(tensor, encoded.cross_v))
    return replace(encoded, cross_k=keys, cross_v=contents)


def padding_bias(frames: int, valid: int, precision: str) -> FloatArray | None:
    """The bias [frames, frames] of self-attention that hides the frames from `valid` on; None where there are none."""
    if valid == frames:
        return None
    bias = np.zeros((frames, frames), np.float32)
    bias[:, valid:] = masked_value(precision)
    return bias


def run_encoder(
    graph: GraphSession,
    inputs: dict[str, Any],
    dims: ModelDims,
    *,
    frames: int,
    valid_frames: int,
    taps: Sequence[int] = (),
) -> Encoded:
    """Run an encoder graph over one window; its last layer's output is copied out only where it is asked for.

    Raises `GraphError` for taps of other layers, which the graphs do not give out.
    """
    check_taps(taps, ())
    layers = range(dims.n_text_layer)
    names = [f"cross_k.{i}" for i in layers] + [f"cross_v.{i}" for i in layers] + ["hidden"] * bool(taps)
    values = graph.run(names, inputs)
    count = len(layers)
    return Encoded(
        cross_k=tuple(values[:count]),
        cross_v=tuple(values[count : 2 * count]),
        frames=frames,
        valid_frames=valid_frames,
        taps={tap: values[-1].numpy()[0].astype(np.float32, copy=False) for tap in taps},
    )
