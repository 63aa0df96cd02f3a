"""The unrolled graphs against the ordinary decoder, at random weights with peaked attention; and that they are static.

Tolerance: 1e-4 of the largest value, with controls that must exceed a hundred times that (see test_parity.py).
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from unrolled_models import Pair, random_pair
from whispertide.graphs.builder import WeightFile
from whispertide.model.engine import DecodeRequest
from whispertide.types import FloatArray
from whispertide_lab.npu.chunk_runs import ChunkOutput, ChunkRequest, start_chunks
from whispertide_lab.npu.chunks import Chunk, UnrolledLayout, layout_for
from whispertide_lab.npu.decoder import UnrolledGraph
from whispertide_lab.npu.portable import PortableBuilder
from whispertide_lab.npu.search import run_unrolled

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4
CONTROL = 100 * TOLERANCE
# ONNX Runtime documentation, "QNN Execution Provider", supported operators (Reshape is there as a matter of course)
QNN_OPERATORS = {
    "Add",
    "ArgMax",
    "Cast",
    "Concat",
    "Conv",
    "Gather",
    "Gelu",
    "GreaterOrEqual",
    "LayerNormalization",
    "LogSoftmax",
    "MatMul",
    "Mul",
    "ReduceMax",
    "Reshape",
    "Slice",
    "Softmax",
    "Split",
    "Sub",
    "Transpose",
    "Where",
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return random_pair(tmp_path_factory.mktemp("unrolled"), UnrolledLayout(2, buckets=(1,)))


def relative_error(ours: Any, reference: Any) -> float:
    ours, reference = np.asarray(ours), np.asarray(reference)
    return float(np.abs(ours - reference).max() / np.abs(reference).max())


def all_heads(pair: Pair) -> list[tuple[int, int]]:
    return [(layer, head) for layer in range(2) for head in range(2)]


def run_chunks(pair: Pair, forced: tuple[int, ...], plan: tuple[Chunk, ...], valid: int = 50) -> list[ChunkOutput]:
    """All chunks, fed with `forced` and then with what they find themselves."""
    state = start_chunks(pair.unrolled, pair.window(1, valid=valid), all_heads(pair))
    suppress = np.stack([pair.rules.suppression([()]), pair.rules.suppression([(0,)])])
    outputs = []
    for chunk in plan:
        outputs.append(state.run(ChunkRequest(chunk, forced[: chunk.length], suppress, None)))
        forced = forced[chunk.length :] or outputs[-1].tokens[-1:]
    return outputs


def ordinary(pair: Pair, fed: list[int], valid: int = 50) -> tuple[FloatArray, FloatArray]:
    """Logits [n, vocab] under the rules, and attention [heads, n, frames], of all tokens fed at once."""
    state = pair.model.decoder(pair.window(1, valid=valid), heads=all_heads(pair))
    request = DecodeRequest(
        np.array([fed]), tuple(range(len(fed))), suppress=pair.rules.suppression([(0,)]), need="logits"
    )
    output = state.run(request)
    assert output.logits is not None
    assert output.attention is not None
    return output.logits[0], output.attention[:, 0]


@pytest.mark.parametrize("valid", [50, 33])
@pytest.mark.parametrize("known", [2, 3, 6, 9])
def test_every_step_is_the_ordinary_decoders(pair: Pair, known: int, valid: int) -> None:
    start = pair.model.tokenizer.sot_sequence(None, "transcribe", False)
    forced = (*start, 400, 401, 402, 403, 404, 405, 406)[:known]
    plan = pair.unrolled.layout.plan(known)
    outputs = run_chunks(pair, forced, plan, valid)
    found = [token for output in outputs for token in output.tokens]  # found[i] is predicted after fed[i + 1]
    fed = [*forced, *found[known - 2 :]][: plan[-1].end]
    logits, attention = ordinary(pair, fed, valid)
    assert found == logits[1:].argmax(axis=-1).tolist()
    logprobs = np.concatenate([output.logprobs for output in outputs])
    peaks = logits[1:].max(axis=-1)
    expected = peaks - np.log(np.exp(logits[1:] - peaks[:, None]).sum(axis=-1)) - peaks
    np.testing.assert_allclose(logprobs, expected, atol=1e-3)
    margins = np.concatenate([output.end_margins for output in outputs])
    np.testing.assert_allclose(margins, logits[1:, pair.model.tokenizer.eot] - peaks, atol=1e-2)
    seen = np.concatenate([output.attention for output in outputs if output.attention is not None], axis=1)
    assert seen.shape == (4, 30, valid)
    assert relative_error(seen, attention) < TOLERANCE


def attention_of(pair: Pair, forced: tuple[int, ...]) -> FloatArray:
    outputs = run_chunks(pair, forced, pair.unrolled.layout.plan(6))
    return np.concatenate([output.attention for output in outputs if output.attention is not None], axis=1)


def test_control_another_token_is_noticed(pair: Pair) -> None:
    right, wrong = (attention_of(pair, (50257, 50362, 9, 8, token, 7)) for token in (5, 6))
    assert relative_error(wrong[:, :4], right[:, :4]) < TOLERANCE
    assert relative_error(wrong[:, 5:], right[:, 5:]) > CONTROL


@pytest.mark.parametrize("prefix", [(), (400,), (400, 401, 402, 403, 404)])
def test_searches_agree_at_random_weights(pair: Pair, prefix: tuple[int, ...]) -> None:
    for seed in range(2):
        encoded, prompt = pair.window(seed, valid=40), pair.prompt(*prefix)
        greedy = pair.greedy(encoded, prompt)
        found = run_unrolled(prompt, pair.rules, pair.unrolled.layout, start_chunks(pair.unrolled, encoded))
        count = len(found.best.tokens)
        assert found.best.tokens == greedy.best.tokens[:count]
        assert count == len(greedy.best.tokens) or (found.best.stop == "length" and count == 31 - len(prompt.tokens))
        assert found.no_speech_prob == pytest.approx(greedy.no_speech_prob, rel=1e-3)
        np.testing.assert_allclose(found.best.logprobs, greedy.best.logprobs[:count], atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 4])
def test_a_start_sequence_of_another_length(tmp_path: Path, block: int) -> None:
    """Four tokens are what multilingual models have."""
    layout = UnrolledLayout(block, plans=((4, 6),), buckets=(1,))
    pair = random_pair(tmp_path, layout)
    encoded, prompt = pair.window(3), pair.prompt(400, 401)
    found = run_unrolled(prompt, pair.rules, layout, start_chunks(pair.unrolled, encoded))
    assert len(found.best.tokens) == 7
    assert found.best.tokens == pair.greedy(encoded, prompt).best.tokens[:7]


def first_chunk(pair: Pair, folder: Path, *, masked: bool) -> Any:
    """The opening chunk with or without its mask, run with a dummy of 7s and with one of 0s: the two logprobs."""
    import onnxruntime

    checkpoint = pair.model.checkpoint
    with (folder / "w.bin").open("wb") as file:
        graph = UnrolledGraph(checkpoint, PortableBuilder("graph", WeightFile("w.bin", file)), Chunk(0, 4, 2), 50)
        graph.masked = graph.masked if masked else 0.0
        graph.build().save(folder)
    session = onnxruntime.InferenceSession(str(folder / "graph.onnx"), providers=["CPUExecutionProvider"])
    types = {"tensor(float)": np.float32, "tensor(int32)": np.int32}
    rng = np.random.default_rng(0)
    inputs = {
        value.name: (0.1 * rng.standard_normal(value.shape)).astype(types[value.type]) for value in session.get_inputs()
    }
    inputs["forced"] = np.array([[50257, 50362, 5, 6]], np.int32)
    results = []
    for content in (0, 7):
        dummy = {name: np.full_like(value, content) for name, value in inputs.items() if name.startswith("past")}
        results.append(session.run(["logprobs"], {**inputs, **dummy})[0])
    return results


def test_the_dummy_position_is_never_attended_to(pair: Pair, tmp_path: Path) -> None:
    zeros, sevens = first_chunk(pair, tmp_path, masked=True)
    np.testing.assert_array_equal(zeros, sevens)
    zeros, sevens = first_chunk(pair, tmp_path, masked=False)
    assert relative_error(sevens, zeros) > CONTROL


def test_the_manifest_has_heads_where_the_checkpoint_names_none(pair: Pair) -> None:
    assert pair.model.generation.alignment_heads == ()
    manifest = json.loads((pair.folder / "manifest.json").read_text())
    assert manifest["alignment_heads"] == [[1, 0], [1, 1]] == [list(head) for head in pair.model.alignment_heads]


@pytest.mark.parametrize("half", [False, True])
def test_all_shapes_are_static_and_all_operators_standard(pair: Pair, tmp_path: Path, half: bool) -> None:
    checkpoint = pair.model.checkpoint
    layout = layout_for(checkpoint, buckets=(1,))
    with (tmp_path / "decoder.bin").open("wb") as file:
        weights = WeightFile("decoder.bin", file)
        for chunk in layout.chunks:
            builder = PortableBuilder(f"chunk-{chunk.start}-{chunk.end}", weights, half=half)
            UnrolledGraph(checkpoint, builder, chunk, 50).build().save(tmp_path)
    paths = sorted(tmp_path.glob("*.onnx"))
    assert len(paths) == 8
    for path in [*paths, *(sorted(pair.folder.glob("encoder-*.onnx")) if not half else [])]:
        assert_static(path)


def assert_static(path: Path) -> None:
    onnx.checker.check_model(str(path), full_check=False)
    graph = onnx.shape_inference.infer_shapes(onnx.load(path, load_external_data=False), strict_mode=True).graph
    assert {node.op_type for node in graph.node} <= QNN_OPERATORS
    assert {node.domain for node in graph.node} == {""}
    known = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
    for node in graph.node:
        for name in node.output:
            shape = known[name].type.tensor_type.shape
            assert shape.dim or known[name].type.tensor_type.HasField("shape"), name
            assert all(size.HasField("dim_value") and size.dim_value > 0 for size in shape.dim), name
