"""ONNX Runtime over the graphs of one checkpoint."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.generation import Head
from whispertide.checkpoint.mask import Mask
from whispertide.errors import ProviderError
from whispertide.graphs.contract import DECODER, ENCODER, ENCODER_INCREMENTAL, ENCODER_MASKED, GraphKind
from whispertide.graphs.store import GraphFiles
from whispertide.model.decoder import Decoder, DecoderState, KVCache
from whispertide.model.engine import Encoded, EncoderState, Engine, check_heads, check_mel
from whispertide.model.incremental import encode_piece
from whispertide.model.masked import Silence, encode_window, is_masked
from whispertide.model.runtime import GraphSession, in_runtime, open_session, padding_bias, run_encoder
from whispertide.options import EngineOptions
from whispertide.types import FloatArray


class OnnxEngine:
    """Satisfies `engine.Engine`. Each graph is opened when it is first used. One object may serve many streams.

    `speaker`: the engine whose decoder it has, in place of one of its own.
    """

    def __init__(self, graphs: GraphFiles, options: EngineOptions, speaker: "OnnxEngine | None" = None) -> None:
        self.options = options
        self._speaker = speaker
        self._graphs = graphs
        self._dims = graphs.checkpoint.dims
        self._silence: Silence = {}
        self._sessions: dict[GraphKind, GraphSession] = {}
        self._opening = Lock()

    def _session(self, kind: GraphKind) -> GraphSession:
        """The graph, open, once for all threads."""
        with self._opening:
            if kind not in self._sessions:
                self._sessions[kind] = open_session(self._graphs[kind], self.options)
            return self._sessions[kind]

    def _blockwise(self, mask: Mask) -> GraphSession:
        return self._session(ENCODER_INCREMENTAL if mask.causal else ENCODER)

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder graph, open."""
        if self._speaker is not None:
            return self._speaker.decoder
        return Decoder(self._session(DECODER), self._dims, self.options.precision)

    def encode(
        self,
        mel: FloatArray,
        *,
        state: EncoderState | None = None,
        taps: Sequence[int] = (),
        valid_frames: int | None = None,
        mask_padding: bool = True,
        attention: FloatArray | None = None,
    ) -> Encoded:
        """Encode one window, or what comes after a state (`incremental`, `masked`); the last layer alone can be
        tapped.
        """
        precision = self.options.precision
        if state is not None and is_masked(state):
            return encode_window(self._blockwise, mel, state, self._dims, precision, self._silence, taps)
        if state is not None:
            graph = self._session(ENCODER_INCREMENTAL)
            return encode_piece(graph, mel, state, self._dims, precision, taps=taps, attention=attention)
        frames, valid = check_mel(mel, self._dims, valid_frames)
        inputs: dict[str, Any] = {"mel": np.ascontiguousarray(mel[None]), "positions": np.arange(frames)}
        if attention is None and mask_padding:
            attention = padding_bias(frames, valid, precision)
        # Without a bias ONNX Runtime takes its flash attention (`graphs.encoder`).
        graph = self._session(ENCODER if attention is None else ENCODER_MASKED)
        if attention is not None:
            inputs["attention_bias"] = np.ascontiguousarray(attention[None, None])
        return run_encoder(graph, inputs, self._dims, frames=frames, valid_frames=valid, taps=taps)

    def start(self, encoded: Encoded, heads: Sequence[Head] = ()) -> DecoderState:
        """A fresh decoder over `encoded`, whichever engine made it."""
        check_heads(heads, self._dims)
        return DecoderState(self.decoder, in_runtime(encoded), tuple(heads), KVCache.empty(self._dims))

    def hearing(self, checkpoint: Checkpoint) -> "OnnxEngine":
        """The same decoder after the encoder of `checkpoint`; its graph is built now, and opened when it is used.

        What the decoder attends to, the encoder's graph makes (`graphs.encoder`): so its changes are heard, too.
        """
        graphs = replace(self._graphs, checkpoint=checkpoint)
        graphs.build(ENCODER)
        return OnnxEngine(graphs, self.options, self)


def of_onnx_runtime(engine: Engine) -> OnnxEngine:
    """`engine`, for what only sessions of ONNX Runtime can do. Raises `ProviderError` for any other."""
    if not isinstance(engine, OnnxEngine):
        raise ProviderError(f"expected a provider of ONNX Runtime for this; got {engine.options.provider!r}")
    return engine
