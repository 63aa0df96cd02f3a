"""The formula against the graph: the encoder is run, and every multiplying node counted by the shapes it had."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whispertide.checkpoint import ModelDims, load_checkpoint
from whispertide.graphs.contract import ENCODER, ENCODER_INCREMENTAL
from whispertide.graphs.store import GraphFiles
from whispertide_lab.evaluation.flops import encoder_gflop

MULTIPLYING = ("Conv", "MatMul", "MultiHeadAttention")


def shapes_in_a_run(path: Path, inputs: dict[str, Any]) -> tuple[list[Any], dict[str, tuple[int, ...]]]:
    """The multiplying nodes, and the shapes of all that they read and write."""
    import onnx
    import onnxruntime

    model = onnx.load(path, load_external_data=False)
    nodes = [node for node in model.graph.node if node.op_type in MULTIPLYING]
    stored = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    wanted = {name for node in nodes for name in (*node.input, *node.output) if name and name not in stored}
    wanted -= inputs.keys()
    given = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(wanted - given))
    exposed = path.with_name("exposed.onnx")
    onnx.save(model, exposed)
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(exposed), settings, providers=["CPUExecutionProvider"])
    values = session.run(sorted(wanted), inputs)
    ran = {name: value.shape for name, value in zip(sorted(wanted), values, strict=True)}
    return nodes, {**stored, **ran, **{name: value.shape for name, value in inputs.items()}}


def flop(node: Any, shapes: dict[str, tuple[int, ...]]) -> int:
    first, second, out = shapes[node.input[0]], shapes[node.input[1]], shapes[node.output[0]]
    if node.op_type == "Conv":
        return 2 * int(np.prod(out)) * second[1] * second[2]
    if node.op_type == "MatMul":
        return 2 * int(np.prod(out)) * first[-1]
    (_, queries, width), (_, keys, _) = first, second
    return 2 * 2 * queries * keys * width  # scores, and the mix of values


@pytest.mark.slow
@pytest.mark.parametrize("frames", [50, 1500])
def test_the_formula_counts_what_the_graph_computes(frames: int, tmp_path: Path) -> None:
    checkpoint = load_checkpoint("nano.en")
    mel = np.zeros((1, checkpoint.dims.n_mels, 2 * frames), np.float32)
    nodes, shapes = shapes_in_a_run(
        GraphFiles(checkpoint, "fp32", tmp_path)[ENCODER], {"mel": mel, "positions": np.arange(frames)}
    )
    assert {node.op_type for node in nodes} == set(MULTIPLYING)
    counted = sum(flop(node, shapes) for node in nodes)
    assert encoder_gflop(checkpoint.dims, frames) == pytest.approx(counted / 1e9, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("frames", "past", "room"), [(30, 0, 128), (5, 128, 128), (15, 257, 384), (50, 1300, 1408), (5, 1450, 1500)]
)
def test_a_piece_is_counted_with_the_past_that_it_attends_to(frames: int, past: int, room: int, tmp_path: Path) -> None:
    checkpoint = load_checkpoint("nano.en")
    dims = checkpoint.dims
    size = dims.n_audio_state // dims.n_audio_head
    held = {"k": (1, dims.n_audio_head, size, room), "v": (1, dims.n_audio_head, room, size)}
    inputs = {
        "mel": np.zeros((1, dims.n_mels, 2 * frames + 3), np.float32),
        "kept": np.ones((1, 1, 2 * frames + 1), np.float32),
        "positions": np.arange(past, past + frames),
        "attention_bias": np.zeros((1, 1, frames, room + frames), np.float32),
        **{
            f"past_{which}.{layer}": np.zeros(shape, np.float32)
            for which, shape in held.items()
            for layer in range(dims.n_audio_layer)
        },
    }
    nodes, shapes = shapes_in_a_run(GraphFiles(checkpoint, "fp32", tmp_path)[ENCODER_INCREMENTAL], inputs)
    counted = sum(flop(node, shapes) for node in nodes)
    assert encoder_gflop(dims, frames, past) == pytest.approx(counted / 1e9, rel=1e-12)


def test_a_piece_by_hand() -> None:
    """Two new frames after three, where one layer of width 4 has room for eight positions, and one decoder layer."""
    dims = ModelDims(10, 8, 4, 1, 1, 100, 20, 4, 1, 1)
    convolutions = 5 * 4 * 10 * 3 + 2 * 4 * 4 * 3
    attention = 2 * 2 * (8 + 2) * 4
    assert encoder_gflop(dims, 2, 3) == pytest.approx(2e-9 * (convolutions + 12 * 2 * 16 + attention + 2 * 2 * 16))


def test_base_at_thirty_seconds() -> None:
    """Published figures leave out the cross-attention keys and values: 87 GFLOP, and 9.4 for these."""
    base = ModelDims(80, 1500, 512, 8, 6, 51864, 448, 512, 8, 6)
    assert encoder_gflop(base, 1500) == pytest.approx(87.4 + 9.44, abs=0.1)
