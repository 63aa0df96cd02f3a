"""The decoder's cache written in place against the one that grows: `python benchmarks/kv_cache.py --out FOLDER`.

One decoder step of one token, whole, at base.en's true shape with random weights, a window of 1,500 frames, so many
positions cached:

    growing   as we run it: every step copies keys and values into tensors that are one position longer
    gathered  as we ran it: a Gather gives each row of a beam its parent's cache first, which is a second copy
    scatter   [layers, 2, heads, 448, 64] is allocated once and bound as input and output; the graph writes one position
              (ScatterND) and attends to all 448 with a mask
    grouped   likewise, by ONNX Runtime's GroupQueryAttention, which attends to what is there

Processor seconds of the whole process, medians. They are asked in turn, so ratios are of one machine. Before that
it is checked that they say the same. A table, then a JSON line.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from random_checkpoint import random_checkpoint

from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.graphs.arithmetic import linear_kind
from whispertide.graphs.builder import CONTRIB, GraphBuilder, WeightFile
from whispertide.graphs.decoder import DecoderGraph
from whispertide.graphs.onnx_file import ElementType
from whispertide.options import PRECISIONS, EngineOptions, Precision

POSITIONS = (50, 200, 447)  # cached; the token that is fed is the next one
FRAMES = 1500


class Gathered(DecoderGraph):
    """Any row may continue any cached one."""

    def build(self) -> GraphBuilder:
        """With the rows' parents as an input."""
        self.parents = self.graph.input("parents", ElementType.INT64, ["rows"])
        return super().build()

    def _past(self, name: str) -> str:
        cached = self.graph.float_input(name, ["cached_rows", self.heads, "past", self.size])
        return self.graph.node("Gather", cached, self.parents, axis=0)


class Scattered(DecoderGraph):
    """Writes the new position into the whole cache and attends to all of it."""

    def _self_attention(self, value: str, layer: int) -> str:
        graph, name = self.graph, f"decoder.layers.{layer}.self_attn"
        query, *new = self.layers.queries_keys_values(value, name)
        if layer == 0:  # the places [1, heads, 1, 3] of the one new position
            self.places = graph.input("places", ElementType.INT64, [1, self.heads, 1, 3])
        cached = []
        for which, part in zip("kv", new, strict=True):
            shape = [1, self.heads, self.dims.n_text_ctx, self.size]
            past = graph.float_input(f"past_{which}.{layer}", shape)
            part = graph.split_heads(part, self.heads, self.size, 0, 2, 1, 3)
            present = graph.node("ScatterND", past, self.places, part)
            graph.float_output(present, f"present_{which}.{layer}", shape)
            cached.append(present)
        mixed = graph.node(
            "MultiHeadAttention", query, *cached, "", "", self.self_bias, domain=CONTRIB, num_heads=self.heads
        )
        return self.layers.linear(mixed, f"{name}.out_proj")


class Grouped(DecoderGraph):
    """The same with the operator that large language models run with."""

    def _self_attention(self, value: str, layer: int) -> str:
        graph, name = self.graph, f"decoder.layers.{layer}.self_attn"
        query, key, content = self.layers.queries_keys_values(value, name)
        if layer == 0:
            self.lengths = graph.input("lengths", ElementType.INT32, [1])
            self.total = graph.input("total", ElementType.INT32, [])
        shape = [1, self.heads, self.dims.n_text_ctx, self.size]
        past = [graph.float_input(f"past_{which}.{layer}", shape) for which in "kv"]
        mixed, *present = graph.nodes(
            "GroupQueryAttention",
            *(query, key, content, *past, self.lengths, self.total),
            outputs=3,
            domain=CONTRIB,
            num_heads=self.heads,
            kv_num_heads=self.heads,
        )
        for which, tensor in zip("kv", present, strict=True):
            graph.float_output(tensor, f"present_{which}.{layer}", shape)
        return self.layers.linear(mixed, f"{name}.out_proj")


GROWING = ("growing", "gathered")
KINDS: dict[str, type[DecoderGraph]] = {
    "growing": DecoderGraph,
    "gathered": Gathered,
    "scatter": Scattered,
    "grouped": Grouped,
}


def opened(checkpoint: Checkpoint, kind: str, precision: Precision, threads: int, folder: Path) -> Any:
    """The session of a decoder of that kind, which is built if it is not there."""
    place = folder / f"{kind}-{precision}"
    if not (place / "decoder.onnx").exists():
        place.mkdir(parents=True, exist_ok=True)
        with (place / "decoder.bin").open("wb") as file:
            builder = GraphBuilder("decoder", WeightFile("decoder.bin", file))
            KINDS[kind](checkpoint, builder, linear_kind(precision)).build().save(place)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(place / "decoder.onnx"), settings, providers=["CPUExecutionProvider"])


class Contender:
    """One decoder with `past` random positions in its cache."""

    def __init__(self, checkpoint: Checkpoint, kind: str, session: Any, past: int) -> None:
        self.session, self.kind, self.dims = session, kind, checkpoint.dims
        dims = checkpoint.dims
        self.layers, heads, size = dims.n_text_layer, dims.n_text_head, dims.n_text_state // dims.n_text_head
        rng = np.random.default_rng(0)

        def tensor(*shape: int) -> np.ndarray:
            return (0.3 * rng.standard_normal(shape)).astype(np.float32)

        values: dict[str, np.ndarray] = {
            "ids": np.array([[1234]]),
            "positions": np.array([[past]]),
            "cross_bias": np.zeros((1, 1, 1, 1), np.float32),
            "logits_at": np.array([[[0]]]),
            "suppress": np.zeros((1, 1, dims.n_vocab), np.float32),
        }
        for layer in range(self.layers):
            values[f"cross_k.{layer}"] = tensor(1, heads, size, FRAMES)
            values[f"cross_v.{layer}"] = tensor(1, heads, FRAMES, size)
            for which in "kv":
                content = tensor(1, heads, past, size)
                if kind not in GROWING:
                    content = np.pad(content, [(0, 0), (0, 0), (0, dims.n_text_ctx - past), (0, 0)])
                values[f"past_{which}.{layer}"] = content
        if kind == "grouped":
            values |= {"lengths": np.array([past], np.int32), "total": np.array(past + 1, np.int32)}
        else:
            bias = np.zeros((1, 1, 1, past + 1 if kind in GROWING else dims.n_text_ctx), np.float32)
            bias[..., past + 1 :] = -1e30
            values["self_bias"] = bias
        if kind == "scatter":
            values["places"] = np.array([[0, head, past] for head in range(heads)])[None, :, None]
        if kind == "gathered":
            values["parents"] = np.array([0])
        there = {entry.name for entry in session.get_inputs()}
        fed = {name: value for name, value in values.items() if name in there}
        self.values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in fed.items()}
        self.present = [f"present_{which}.{layer}" for which in "kv" for layer in range(self.layers)]
        self.run = self._grow if kind in GROWING else self._in_place()

    def _grow(self) -> Any:
        return self.session.run_with_ort_values(["top_ids", "top_logprobs", *self.present], self.values)

    def _in_place(self) -> Callable[[], Any]:
        binding = self.session.io_binding()
        for name, value in self.values.items():
            binding.bind_ortvalue_input(name, value)
        for name in ("top_ids", "top_logprobs"):
            binding.bind_output(name)
        for name in self.present:
            binding.bind_ortvalue_output(name, self.values[name.replace("present", "past")])

        def run() -> Any:
            self.session.run_with_iobinding(binding)
            return binding.get_outputs()

        return run

    def said(self) -> np.ndarray:
        """The log-probabilities of the best tokens."""
        return np.asarray(self.run()[1].numpy())


def measure(contenders: dict[str, Contender], rounds: int) -> dict[str, float]:
    """Processor milliseconds of one step of each."""
    spent: dict[str, list[float]] = {kind: [] for kind in contenders}
    for _ in range(rounds):
        for kind, contender in contenders.items():
            began = time.process_time()
            contender.run()
            spent[kind].append(1e3 * (time.process_time() - began))
    return {kind: statistics.median(times) for kind, times in spent.items()}


def main() -> None:
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoint and the graphs")
    parser.add_argument("--precision", default="int8", choices=PRECISIONS)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    precision = EngineOptions(precision=arguments.precision).precision
    checkpoint = load_checkpoint(str(random_checkpoint(arguments.out / "base.en", "base.en")))
    print("threads  cached" + "".join(f"{kind + ' ms':>13}" for kind in KINDS) + "   over growing")
    results = []
    for threads in arguments.threads:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        sessions = {kind: opened(checkpoint, kind, precision, threads, arguments.out / "kv_cache") for kind in KINDS}
        for past in POSITIONS:
            contenders = {kind: Contender(checkpoint, kind, session, past) for kind, session in sessions.items()}
            expected = contenders["growing"].said()
            for contender in contenders.values():
                np.testing.assert_allclose(contender.said(), expected, atol=0.05 if precision == "int8" else 1e-3)
            spent = measure(contenders, arguments.rounds)
            ratios = {kind: spent[kind] / spent["growing"] for kind in KINDS}
            row = "".join(f"{value:13.2f}" for value in spent.values())
            print(f"{threads:7} {past:7}{row}   " + " ".join(f"{ratio:.3f}" for ratio in ratios.values()))
            results.append({"threads": threads, "cached": past, "ms": spent, "ratios": ratios})
    print(json.dumps({"precision": precision, "steps": results}))


if __name__ == "__main__":
    main()
