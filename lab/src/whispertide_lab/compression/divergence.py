"""How far a model is from the original one when some of its weights are others.

Both float graphs are opened once; replaced weights are fed like inputs, so nothing is built again. The encoder is
compared by the mean squared error of its output, everything by the Kullback-Leibler divergence of the decoder's
distributions over the text that the original writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.layout import EMBEDDING
from whispertide.checkpoint.weights import Weights
from whispertide.decoding.rules import log_softmax
from whispertide.graphs.contract import DECODER, ENCODER, GraphKind
from whispertide.graphs.store import GraphFiles
from whispertide.model.engine import LAST_LAYER, DecodeRequest, Encoded, required
from whispertide.model.onnx_engine import Decoder, DecoderState, KVCache
from whispertide.model.runtime import GraphSession, open_session, run_encoder
from whispertide.options import EngineOptions
from whispertide.types import FloatArray
from whispertide_lab.compression.samples import Sample

Changes = Mapping[str, Weights]  # by canonical name


@dataclass(frozen=True, slots=True)
class Divergence:
    """Means over all samples.

    kl   of the decoder's distributions, the original's against these, in nats per token
    mse  of the encoder's output, squared; 0 where the encoder is the same
    """

    kl: float
    mse: float


@dataclass(frozen=True, slots=True)
class _OpenGraph(GraphSession):
    """A graph that takes other weights than its own with a run."""

    weights: dict[str, FloatArray] = field(default_factory=dict)

    def run(self, outputs: Sequence[str], inputs: dict[str, Any]) -> list[Any]:
        return GraphSession.run(self, outputs, inputs | self.weights)


@dataclass(frozen=True, slots=True)
class _Original:
    """What the original model makes of a sample. `logprobs` [tokens, vocab]."""

    sample: Sample
    encoded: Encoded
    logprobs: FloatArray


class Comparison:
    """A checkpoint's float graphs, and what they make of the samples.

    `folder` takes the graphs, 4 bytes for each weight. Raises `GraphError` and `DiskSpaceError`.
    """

    def __init__(self, checkpoint: Checkpoint, samples: Sequence[Sample], folder: Path, threads: int = 0) -> None:
        self._tensors, self._dims = checkpoint.tensors, checkpoint.dims
        options = EngineOptions(precision="fp32", provider="cpu", threads=threads)
        files = GraphFiles(checkpoint, "fp32", folder)
        names = [self._fed(name) for name in checkpoint.tensors.names() if can_be_changed(self._tensors.shape(name))]
        self._encoder, self._decoder = (
            _opened(files[kind], {fed for part, fed in names if part is kind}, options) for kind in (ENCODER, DECODER)
        )
        self._originals = [self._original(sample) for sample in samples]

    def divergence(self, changes: Changes) -> Divergence:
        """Of the checkpoint with these tensors in place of its own."""
        encoder, decoder = self._weights(changes, ENCODER), self._weights(changes, DECODER)
        kl, mse, tokens, cells = 0.0, 0.0, 0, 0
        for original in self._originals:
            encoded = self._encode(original.sample, encoder) if encoder else original.encoded
            logprobs = self._logprobs(original.sample, encoded, decoder)
            exact = original.logprobs.astype(np.float64)
            kl += float((np.exp(exact) * (exact - logprobs)).sum())
            tokens += len(logprobs)
            error = encoded.taps[LAST_LAYER] - original.encoded.taps[LAST_LAYER]
            mse += float(np.square(error, dtype=np.float64).sum())
            cells += error.size
        return Divergence(kl / max(1, tokens), mse / max(1, cells))

    # -- the model ---------------------------------------------------------------------------------------------------

    def _original(self, sample: Sample) -> _Original:
        encoded = self._encode(sample, {})
        return _Original(sample, encoded, self._logprobs(sample, encoded, {}))

    def _encode(self, sample: Sample, weights: dict[str, FloatArray]) -> Encoded:
        frames = sample.mel.shape[1] // 2
        inputs = {"mel": np.ascontiguousarray(sample.mel[None]), "positions": np.arange(frames)}
        graph = _OpenGraph(self._encoder.session, self._encoder.path, weights=weights)
        return run_encoder(graph, inputs, self._dims, frames=frames, valid_frames=frames, taps=(LAST_LAYER,))

    def _logprobs(self, sample: Sample, encoded: Encoded, weights: dict[str, FloatArray]) -> FloatArray:
        graph = _OpenGraph(self._decoder.session, self._decoder.path, weights=weights)
        state = DecoderState(Decoder(graph, self._dims, "fp32"), encoded, (), KVCache.empty(self._dims))
        tokens = np.array([sample.tokens], np.int64)
        wanted = tuple(range(sample.first, tokens.shape[1]))
        found = state.run(DecodeRequest(tokens, wanted, need="logits"))
        return log_softmax(required(found.logits, "logits")[0])

    # -- its weights -------------------------------------------------------------------------------------------------

    def _fed(self, name: str) -> tuple[GraphKind, str]:
        """The graph in which a tensor is, and what holds it there (`graphs.layers`)."""
        stem = name.removesuffix(".weight")
        cross = ".encoder_attn.k_proj" in stem or ".encoder_attn.v_proj" in stem
        kind = ENCODER if cross or stem.startswith("encoder.") else DECODER
        if ".self_attn." in stem and not stem.endswith("out_proj"):
            return kind, f"{stem.rpartition('.')[0]}.qkv.t"
        if stem.startswith("encoder.conv"):
            return kind, name
        return kind, stem if stem.endswith("embed_positions") else f"{stem}.t"

    def _weights(self, changes: Changes, kind: GraphKind) -> dict[str, FloatArray]:
        places = {self._fed(name): name for name in changes}
        return {fed: self._weight(name, changes) for (part, fed), name in places.items() if part is kind}

    def _weight(self, name: str, changes: Changes) -> FloatArray:
        """What stands in a graph in place of the tensor, and of those that stand there with it."""

        def now(name: str) -> FloatArray:
            return np.asarray(changes[name] if name in changes else self._tensors.get(name), np.float32)

        _, fed = self._fed(name)
        if fed.endswith(".qkv.t"):
            prefix = fed.removesuffix(".qkv.t")
            return np.ascontiguousarray(np.concatenate([now(f"{prefix}.{part}_proj.weight") for part in "qkv"]).T)
        if ".encoder_attn.k_proj" in name:  # the scale of attention is in the keys
            size = self._dims.n_text_state // self._dims.n_text_head
            return np.ascontiguousarray(now(name).T) * np.float32(size**-0.5)
        transposed = name == EMBEDDING or fed.endswith(".t")
        return np.ascontiguousarray(now(name).T if transposed else now(name))


def can_be_changed(shape: tuple[int, ...]) -> bool:
    """Whether a tensor of that shape is one that a comparison can replace: no bias, no norm."""
    return len(shape) > 1


def _opened(path: Path, weights: set[str], options: EngineOptions) -> GraphSession:
    """The graph with these weights as inputs that have a default."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            weights = weights - {tensor.name}
            model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    if weights:
        raise AssertionError(f"the graph {path.name} has no {sorted(weights)[0]}")
    changeable = path.with_stem(f"{path.stem}-changeable")
    onnx.save(model, changeable)
    return open_session(changeable, options)
