"""A decoder without a model: the next token's logits are a function of the tokens so far. For tests of searches.

It keeps its cache as the real one does (parents, rewinding), so a search that mishandles its rows gets wrong logits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from whispertide.decoding.rules import Vocabulary, log_softmax
from whispertide.graphs.contract import TOP
from whispertide.model.engine import DecodeOutput, DecodeRequest
from whispertide.types import FloatArray, IntArray

# A vocabulary in miniature, laid out as Whisper's: text, end of text, specials, timestamps.
TEXT = 20
EOT, SOT, SOT_PREV, NO_SPEECH, NO_TIMESTAMPS = range(TEXT, TEXT + 5)
TIME = TEXT + 5  # <|0.00|>
TIMES = 15
SIZE = TIME + TIMES
SPECIALS = (SOT, SOT_PREV, NO_SPEECH)
VOCABULARY = Vocabulary(SIZE, EOT, NO_SPEECH, NO_TIMESTAMPS, TIME)

Script = Callable[[tuple[int, ...]], FloatArray]


@dataclass
class ScriptedDecoder:
    """`script` maps all tokens so far (prompt included) to the logits of the next one."""

    script: Script
    attend: Callable[[tuple[int, ...]], FloatArray] | None = None  # tokens so far -> [heads, frames]
    timestamp_begin: int = TIME
    cache: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    requests: list[DecodeRequest] = field(default_factory=list)

    def run(self, request: DecodeRequest) -> DecodeOutput:
        self.requests.append(request)
        rows, length = request.tokens.shape
        parents = request.parents or tuple(range(rows))
        assert len(parents) == rows
        before = [self.cache[parent] for parent in parents]
        self.cache = [(*past, *map(int, fed)) for past, fed in zip(before, request.tokens, strict=True)]
        seen = [
            [(*past, *map(int, fed[: at + 1])) for at in range(length)]
            for past, fed in zip(before, request.tokens, strict=True)
        ]
        logits = np.stack([np.stack([self.script(row[at]) for at in request.logits_at]) for row in seen])
        if request.suppress is not None:
            logits = logits + np.atleast_2d(request.suppress)[:, None]
        attention = None
        if self.attend is not None:
            by_row = [np.stack([self.attend(part) for part in row]) for row in seen]
            attention = np.stack(by_row).transpose(2, 0, 1, 3)
        hidden = np.array(seen, dtype=object) if request.hidden else None  # what was fed so far, for each place
        if request.need == "logits":
            return DecodeOutput(logits=logits.astype(np.float32), attention=attention, hidden=hidden)
        logprobs = log_softmax(logits)
        ids, best = _top(logprobs)
        if request.need == "top":
            return DecodeOutput(ids, best, attention=attention, hidden=hidden)
        assert request.need == "times"
        times = logprobs[..., self.timestamp_begin :]
        time_ids, time_best = _top(times)
        with np.errstate(divide="ignore"):
            mass = np.log(np.exp(times).sum(axis=-1))
        time_ids += self.timestamp_begin
        return DecodeOutput(ids, best, time_ids, time_best, mass, attention=attention, hidden=hidden)

    def rewind(self, drop: int) -> None:
        assert drop <= self.requests[-1].draft  # only these were said to be a guess
        assert all(len(row) >= drop for row in self.cache)
        self.cache = [row[: len(row) - drop] for row in self.cache]


def _top(logprobs: FloatArray) -> tuple[IntArray, FloatArray]:
    ids = np.argsort(-logprobs, axis=-1, kind="stable")[..., :TOP]
    return ids, np.take_along_axis(logprobs, ids, -1)


def one_hot(token: int, sharpness: float = 20.0) -> FloatArray:
    """Logits that are sure of `token`."""
    logits = np.zeros(SIZE, np.float32)
    logits[token] = sharpness
    return logits


def telling(prompt: Sequence[int], tokens: Sequence[int]) -> Script:
    """A script that says `tokens` after `prompt`, then end of text, whatever it is fed."""
    story = [*tokens, EOT]

    def script(seen: tuple[int, ...]) -> FloatArray:
        return one_hot(story[min(max(len(seen) - len(prompt), 0), len(story) - 1)])

    return script


def random_script(seed: int, spread: float = 2.0, eot_bonus: float = 1.0) -> Script:
    """A script with random but repeatable logits for every sequence of tokens."""

    def script(seen: tuple[int, ...]) -> FloatArray:
        rng = np.random.default_rng([seed, *seen])
        logits = rng.normal(0.0, spread, SIZE).astype(np.float32)
        logits[EOT] += eot_bonus
        return logits

    return script
