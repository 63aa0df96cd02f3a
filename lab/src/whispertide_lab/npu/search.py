"""Greedy search on static graphs of several steps each: a decoder run that computes ahead what greedy search asks for.

K tokens are found in one run, then handed out one by one, so a guard may cut inside a chunk. Source: NPUsper (arXiv
2607.01108), "controlled unrolling".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from whispertide.decoding.accept import GREEDY
from whispertide.decoding.end import End
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import Guard, SearchResult, Steps, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.errors import GraphError, OptionError
from whispertide.model.engine import DecodeOutput, DecodeRequest
from whispertide.types import FloatArray
from whispertide_lab.npu.chunk_runs import ChunkOutput, ChunkRequest, ChunkRun
from whispertide_lab.npu.chunks import Chunk, UnrolledLayout


def run_unrolled(
    prompt: Prompt,
    rules: Rules,
    layout: UnrolledLayout,
    decoder: ChunkRun,
    *,
    end: End | None = None,
    guards: Sequence[Guard] = (),
) -> SearchResult:
    """What greedy search finds, until the end of the last chunk at most; `steps` counts the chunks.

    The prompt is the start sequence of the graphs with a forced prefix after it; previous text has no place in the
    static graphs, nor have timestamps. Raises `OptionError` for those, and for a prompt that leaves no room.
    """
    chunks = layout.plan(len(prompt.tokens))
    if rules.timestamps or prompt.sot_index:
        raise OptionError("expected neither timestamps nor previous text in an unrolled search: leave them out")
    if not layout.block <= len(prompt.tokens) <= chunks[-1].end:
        raise OptionError(
            f"expected a prompt of {layout.block} to {chunks[-1].end} tokens for the unrolled graphs; got "
            f"{len(prompt.tokens)}: shorten the prefix"
        )
    ahead = ComputedAhead(decoder, chunks, rules, len(prompt.tokens), without_end=end is not None)
    # One token more than positions are left: the last is predicted and need not be fed.
    held = min(prompt.limit, chunks[-1].end - len(prompt.tokens) + 1)
    found = run_search(TokenSearch(replace(prompt, limit=held), rules, GREEDY, end=end, guards=guards), ahead)
    return replace(found, steps=Steps(ahead.runs, ahead.runs, ahead.runs, prompts=1))


class ComputedAhead:
    """Answers the requests of greedy search from `chunks`, which it runs when one goes beyond them.

    `without_end`: the graph never takes end of text, so that the text goes on where the search refuses it; the search
    sees both, and their probabilities as if nothing had been suppressed. Implements `model.engine.DecoderRun`.
    """

    def __init__(
        self, decoder: ChunkRun, chunks: Sequence[Chunk], rules: Rules, prompt: int, *, without_end: bool
    ) -> None:
        self._decoder = decoder
        self._chunks = chunks
        self._eot = rules.vocabulary.eot
        self._prompt = prompt  # tokens
        self._without_end = without_end
        # What is forbidden at first, and afterwards: without timestamps nothing that is said changes it.
        # Any token stands for a text that has begun.
        self._suppress = np.stack([rules.suppression([()]), rules.suppression([(0,)])])
        self._end_may_come_first = bool(np.isfinite(self._suppress[0, self._eot]))
        if without_end:
            self._suppress[:, self._eot] = -np.inf
        self._fed: tuple[int, ...] = ()
        self._outputs: list[ChunkOutput] = []

    @property
    def runs(self) -> int:
        """Chunks that were run."""
        return len(self._outputs)

    def run(self, request: DecodeRequest) -> DecodeOutput:
        """The likeliest token after those fed now, and end of text where that was left out."""
        before = len(self._fed)
        self._fed += tuple(request.tokens[0].tolist())
        # A forced prefix may be longer than the first chunk, and each chunk needs the cache of the one before.
        while not self.runs or self._chunks[self.runs - 1].end < len(self._fed):
            self._run_next()
        ids, logprobs = self._likeliest()
        return DecodeOutput(
            top_ids=np.array([[ids]], np.int64),
            top_logprobs=np.array([[logprobs]], np.float32),
            attention=self._attention(before),
            no_speech_prob=self._outputs[0].no_speech_prob,
        )

    def rewind(self, drop: int) -> None:
        """Raises `GraphError`: a chunk cannot be undone."""
        raise GraphError(f"expected no token to be taken back from an unrolled decoder; got {drop}")

    def _run_next(self) -> None:
        chunk = self._chunks[self.runs]
        known = self._fed[chunk.start : chunk.end]
        first = self._prompt - chunk.start - chunk.block  # the step that samples after the prompt
        request = ChunkRequest(chunk, known, self._suppress, first if 0 <= first < chunk.steps else None)
        self._outputs.append(self._decoder.run(request))

    def _likeliest(self) -> tuple[list[int], list[float]]:
        chunk, output = self._chunks[self.runs - 1], self._outputs[-1]
        step = len(self._fed) - chunk.start - chunk.block
        token, logprob, margin = output.tokens[step], output.logprobs[step], output.end_margins[step]
        is_first = len(self._fed) == self._prompt
        if not self._without_end or (is_first and not self._end_may_come_first):
            return [token], [logprob]
        # `margin` is the logit of end of text less that of the token.
        with_end = -float(np.logaddexp(-logprob, margin))  # end of text back among the probabilities
        if margin > 0:
            return [self._eot, token], [with_end + margin, with_end]
        return [token, self._eot], [with_end, with_end + margin]

    def _attention(self, before: int) -> FloatArray | None:
        """[heads, 1, queries, frames] of the tokens fed after the first `before` ones."""
        pieces = [
            output.attention[:, max(before - chunk.start, 0) : len(self._fed) - chunk.start]
            # Chunks that were not run have no output yet.
            for chunk, output in zip(self._chunks, self._outputs, strict=False)
            if output.attention is not None and chunk.end > before
        ]
        return np.concatenate(pieces, axis=1)[:, None] if pieces else None
