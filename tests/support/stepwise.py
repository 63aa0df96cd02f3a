"""Runs the chunks of unrolled decoding step by step: what such graphs must answer."""

from collections.abc import Sequence

import numpy as np

from whispertide.decoding.rules import Vocabulary, best, log_softmax
from whispertide.model.engine import DecodeRequest, DecoderRun, required
from whispertide.types import FloatArray
from whispertide_lab.npu.chunk_runs import ChunkOutput, ChunkRequest


class Stepwise:
    """Chunks on an ordinary decoder, which must follow each other. Implements `ChunkRun`."""

    def __init__(self, decoder: DecoderRun, vocabulary: Vocabulary) -> None:
        self._decoder = decoder
        self._eot, self._no_speech = vocabulary.eot, vocabulary.no_speech

    def run(self, request: ChunkRequest) -> ChunkOutput:
        """Run the chunk that follows those run so far."""
        chunk = request.chunk
        tokens: list[int] = []
        logprobs: list[float] = []
        margins: list[float] = []
        attention: list[FloatArray] = []
        no_speech_prob = float("nan")
        fed: Sequence[int] = request.forced[: chunk.block]
        for step in range(chunk.steps):
            logits, seen = self._step(fed)
            if step == 0 and chunk.start == 0:
                no_speech_prob = float(np.exp(log_softmax(logits[0])[self._no_speech]))
            allowed = logits[-1:] + request.suppress[0 if step == request.first else 1]
            ids, values = best(log_softmax(allowed), 1)
            tokens.append(int(ids[0, 0]))
            logprobs.append(float(values[0, 0]))
            margins.append(float(logits[-1, self._eot] - allowed.max()))
            attention += [] if seen is None else [seen[:, 0]]
            place = chunk.block + step
            fed = request.forced[place : place + 1] or tokens[-1:]
        return ChunkOutput(
            tuple(tokens),
            tuple(logprobs),
            tuple(margins),
            np.concatenate(attention, axis=1) if attention else None,
            no_speech_prob,
        )

    def _step(self, fed: Sequence[int]) -> tuple[FloatArray, FloatArray | None]:
        """Raw logits [1 or 2, vocab] after the first and the last of the tokens; attention [heads, 1, fed, frames]."""
        places = (0,) if len(fed) == 1 else (0, len(fed) - 1)
        request = DecodeRequest(np.array([list(fed)], dtype=np.int64), logits_at=places, need="logits")
        output = self._decoder.run(request)
        return required(output.logits, "logits")[0], output.attention
