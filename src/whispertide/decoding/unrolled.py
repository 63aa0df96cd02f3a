"""Greedy search in chunks: K tokens are found in one run, then judged one by one, so a guard may cut inside a chunk.

It stands beside `search.Search` with the same three calls, but asks for chunks (`model.unrolled`), because what is fed
next is decided inside the graph. Token for token it is `GreedySearch` without timestamps. Text can be shown after every
chunk: `tokens` is what has been accepted. Source: NPUsper (arXiv 2607.01108), "controlled unrolling".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whispertide.decoding.distribution import best, required
from whispertide.decoding.hypothesis import Trail
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules, Vocabulary, log_softmax, suppressed_tokens
from whispertide.decoding.search import DecodeRequest, DecoderRun, Guard, Hypothesized, SearchResult, Steps, Verdict
from whispertide.errors import OptionError
from whispertide.graphs.chunks import UnrolledLayout
from whispertide.model.unrolled import ChunkOutput, ChunkRequest, ChunkRun
from whispertide.types import FloatArray

if TYPE_CHECKING:
    from whispertide.checkpoint import Checkpoint


class UnrolledSearch:
    """One row, the likeliest token each time, K at a time, until end of text, a guard, or the end of the last chunk.

    The prompt is the start sequence of the graphs with a forced prefix behind it; previous text has no place in the
    static graphs, nor have timestamps. Raises `OptionError` for those, and for a prompt that leaves no room.
    """

    def __init__(self, prompt: Prompt, rules: Rules, layout: UnrolledLayout, *, guards: Sequence[Guard] = ()) -> None:
        chunks = layout.plan(len(prompt.tokens))
        if rules.timestamps or prompt.sot_index:
            raise OptionError("expected neither timestamps nor previous text in an unrolled search: leave them out")
        if not layout.block <= len(prompt.tokens) <= chunks[-1].end:
            raise OptionError(
                f"expected a prompt of {layout.block} to {chunks[-1].end} tokens for the unrolled graphs; got "
                f"{len(prompt.tokens)}: shorten the prefix"
            )
        self._chunks = chunks
        self._limit = prompt.limit
        self._eot = rules.vocabulary.eot
        self._suppress = np.stack([rules.suppression([()]), rules.suppression([(0,)])])
        self._guards = guards
        self._known = prompt.tokens  # tokens that are to be fed next whatever the graph finds
        self._trail = Trail()
        self._runs = 0
        self._no_speech_prob = float("nan")
        self._done: Hypothesized | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """What has been accepted so far."""
        return self._done.tokens if self._done else tuple(self._trail.tokens)

    def next(self) -> ChunkRequest:
        """The next chunk, with what is known of it."""
        chunk = self._chunks[self._runs]
        sampling = len(self._known) - chunk.block  # the step that samples behind the last known token
        first = sampling if not self._trail.tokens and 0 <= sampling < chunk.steps else None
        return ChunkRequest(chunk, self._known[: chunk.length], self._suppress, first)

    def feed(self, output: ChunkOutput) -> Verdict:
        """Accept the tokens of a chunk, up to where the text ends or a guard objects."""
        chunk = self._chunks[self._runs]
        if self._runs == 0:
            self._no_speech_prob = output.no_speech_prob
        self._runs += 1
        shown = 0
        for step in range(chunk.steps):
            fed = chunk.block + step  # tokens of the chunk before this prediction
            self._trail.see(None if output.attention is None else output.attention[:, shown:fed])
            shown = fed
            if fed < len(self._known):
                continue  # what follows was known
            found = self._choose(output.tokens[step], output.logprobs[step], output.end_margins[step])
            self._done = self._trail.take(*found, eot=self._eot, limit=self._limit, guards=self._guards)
            if self._done is not None:
                return Verdict(stop=True, keep=fed)
        self._known = self._known[chunk.length :] or output.tokens[-1:]
        if self._runs == len(self._chunks):
            self._done = self._trail.close("length")
        return Verdict(stop=self._done is not None)

    def result(self) -> SearchResult:
        """The hypothesis found; if the search was broken off, what there was until then."""
        done = self._done or self._trail.close("aborted")
        return SearchResult(done, self._no_speech_prob, Steps(self._runs, self._runs, self._runs))

    def _choose(self, token: int, logprob: float, end_margin: float) -> tuple[int, float]:
        """The token that counts, and its log-probability."""
        return token, logprob


class EndlessUnrolled(UnrolledSearch):
    """`endless.EndlessSearch` in chunks: the graph never takes end of text, and the search ends where it was due.

    That is where end of text was likelier than the token, unless the token `speaks`; before `least` tokens it is not
    accepted at all, afterwards it is where `real_end`.
    """

    def __init__(
        self,
        prompt: Prompt,
        rules: Rules,
        layout: UnrolledLayout,
        *,
        speaks: Callable[[int], bool],
        least: int = 0,
        real_end: bool = False,
        guards: Sequence[Guard] = (),
    ) -> None:
        super().__init__(prompt, rules, layout, guards=guards)
        self._speaks = speaks
        self._least = least
        self._real_end = real_end
        self._end_may_come_first = bool(np.isfinite(self._suppress[0, self._eot]))
        self._suppress[:, self._eot] = -np.inf

    def _choose(self, token: int, logprob: float, end_margin: float) -> tuple[int, float]:
        if not self._trail.tokens and not self._end_may_come_first:
            return token, logprob
        with_end = -float(np.logaddexp(-logprob, end_margin))  # end of text back among the probabilities
        if end_margin <= 0 or (len(self._trail.tokens) < self._least and token < self._eot):
            return token, with_end
        if self._real_end or not self._speaks(token):
            return self._eot, with_end + end_margin
        return token, with_end


def run_unrolled(
    search: UnrolledSearch, decoder: ChunkRun, emit: Callable[[tuple[int, ...]], None] | None = None
) -> SearchResult:
    """Drive `search` to its end; `emit` is shown the accepted tokens after every chunk."""
    while True:
        verdict = search.feed(decoder.run(search.next()))
        if emit is not None:
            emit(search.tokens)
        if verdict.stop:
            return search.result()


class Stepwise:
    """Runs chunks on an ordinary decoder, one step after the other: the same answers where there are no such graphs.

    Raises nothing of its own; chunks must follow each other.
    """

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
        """Raw logits [1 or 2, vocab] behind the first and the last of the tokens; attention [heads, 1, fed, frames]."""
        places = (0,) if len(fed) == 1 else (0, len(fed) - 1)
        request = DecodeRequest(np.array([list(fed)], dtype=np.int64), logits_at=places, need="logits")
        output = self._decoder.run(request)
        return required(output.logits, "logits")[0], output.attention


def token_rules(checkpoint: Checkpoint) -> dict[str, Any]:
    """The ids that a user of exported graphs needs: what ends the text, and what may not be sampled."""
    tokenizer, generation = checkpoint.tokenizer, checkpoint.generation
    return {
        "end": tokenizer.eot,
        "no_speech": tokenizer.no_speech,
        "languages": dict(generation.lang_to_id),
        "never": list(suppressed_tokens(tokenizer, None, generation.suppress_tokens)),
        "not_first": list(tokenizer.blank_tokens),
    }
