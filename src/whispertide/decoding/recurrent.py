"""Drafts from a small recurrent network over the decoder's last hidden state (ReDrafter, arXiv 2403.09919).

One gated recurrent unit (GRU) begins with what the decoder knew when it chose the newest token, takes in that token and
then its own drafts one by one. It knows a few thousand tokens only, because the product with the vocabulary is about
half of a decoder step: any other token is one class, with which a draft ends. Inputs and outputs are projections of the
decoder's own token embedding, so the file holds the projections alone.

    s_0 = tanh(hidden @ start)      s_i = GRU(embedding[token_i] @ inner, s_{i-1})
    scores of token_{i+1} = embedding @ outer @ s_i + prior

Numpy only; training is the laboratory's business (`training.drafter`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from whispertide.checkpoint import Checkpoint, attachments
from whispertide.checkpoint.attachments import Attachment, Kind
from whispertide.checkpoint.layout import EMBEDDING
from whispertide.decoding.draft import Always
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import log_softmax
from whispertide.decoding.search import NO_DRAFT, Tree
from whispertide.errors import CheckpointError
from whispertide.types import FloatArray, IntArray

KIND = Kind("a drafter", "drafter.npz", "whispertide train drafter {model}")

# A run of two tokens costs half as much again as a run of one (lab/log). So unless this many tokens are gained on
# average, nothing is fed ahead.
WORTH = 0.5

LEARNED = ("start", "inner", "cell", "bias", "outer", "other", "prior")


def _shapes(width: int, size: int | None, known: int | None) -> dict[str, tuple[int | None, ...]]:
    """Of the arrays, by name; None: not known yet."""
    three, classes = None if size is None else 3 * size, None if known is None else known + 1
    return {
        "tokens": (known,),
        "start": (width, size),
        "inner": (width, three),
        "cell": (size, three),
        "bias": (2, three),
        "outer": (width, size),
        "other": (size,),
        "prior": (classes,),
    }


@dataclass(frozen=True, slots=True)
class CellWeights:
    """What is learned, and for which checkpoint.

    tokens  [n] those that it knows            start   [width, size]       prior  [n + 1]
    inner   [width, 3 * size]                  cell    [size, 3 * size]    bias   [2, 3 * size] of inputs and of states
    outer   [width, size]                      other   [size] stands for all tokens that it does not know
    """

    tokens: IntArray
    start: FloatArray
    inner: FloatArray
    cell: FloatArray
    bias: FloatArray
    outer: FloatArray
    other: FloatArray
    prior: FloatArray
    content_hash: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arrays(self) -> dict[str, Any]:
        """As a file holds them: half precision."""
        halves = {name: np.asarray(getattr(self, name), np.float16) for name in LEARNED}
        return {"tokens": np.asarray(self.tokens, np.int32), **halves}

    def save(self, path: Path) -> None:
        """Write it as a `.npz`. Raises OSError."""
        attachments.save(path, Attachment(self.arrays, self.content_hash, self.report))

    @classmethod
    def load(cls, path: Path, checkpoint: Checkpoint) -> Self:
        """Read a drafter of this checkpoint.

        Raises `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is damaged or belongs to
        another checkpoint.
        """
        width = checkpoint.dims.n_text_state
        found = attachments.load(KIND, path, _shapes(width, None, None), checkpoint.content_hash)
        tokens = np.asarray(found.arrays["tokens"], np.int64)
        shapes = _shapes(width, len(found.arrays["cell"]), len(tokens))
        fits = all(found.arrays[name].shape == shape for name, shape in shapes.items())
        if not fits or not len(tokens) or not 0 <= tokens.min() <= tokens.max() < checkpoint.dims.n_vocab:
            raise CheckpointError(
                f"expected {KIND.title} whose arrays fit each other; those of {path} do not: make it again with "
                f"{KIND.making(checkpoint.argument)}"
            )
        learned = {name: np.asarray(found.arrays[name], np.float32) for name in LEARNED}
        return cls(tokens, **learned, content_hash=found.content_hash, report=found.report)

    @classmethod
    def of_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        """The one next to the checkpoint. Raises as `load` does."""
        path = attachments.find(checkpoint, KIND, instead="source=ngram or search=greedy")
        return cls.load(path, checkpoint)


@dataclass(frozen=True)
class Cell:
    """The network, ready to run: weights, and the decoder's embedding of its tokens [n, width]."""

    weights: CellWeights
    embedding: FloatArray

    @classmethod
    def of(cls, checkpoint: Checkpoint, weights: CellWeights | None = None) -> Self:
        """That of a checkpoint; without `weights` the one next to it. Raises as `CellWeights.load` does."""
        weights = weights or CellWeights.of_checkpoint(checkpoint)
        # Indexing copies these rows, so that the whole embedding need not stay in memory.
        return cls(weights, np.asarray(checkpoint.tensors.get(EMBEDDING)[weights.tokens], np.float32))

    @cached_property
    def inputs(self) -> FloatArray:
        """[n + 1, 3 * size] what each token adds to the gates; the last row is of all others."""
        # The row of zeros: a token that it does not know adds the bias alone.
        known = self.embedding @ self.weights.inner
        return np.asarray(np.pad(known, [(0, 1), (0, 0)]) + self.weights.bias[0], np.float32)

    @cached_property
    def outputs(self) -> FloatArray:
        """[size, n + 1] states to scores; the last column is of all others."""
        rows = np.concatenate([self.embedding @ self.weights.outer, self.weights.other[None]])
        # In the order in which it is read, since every token of a draft is multiplied with it.
        return np.ascontiguousarray(rows.T)

    @cached_property
    def rows(self) -> dict[int, int]:
        """Token -> row."""
        return {token: row for row, token in enumerate(self.weights.tokens.tolist())}

    def begin(self, hidden: FloatArray) -> FloatArray:
        """The first state [1, size], of the decoder's hidden state [width]."""
        return np.asarray(np.tanh(hidden[None] @ self.weights.start), np.float32)

    def step(self, states: FloatArray, rows: Sequence[int]) -> FloatArray:
        """The next states [drafts, size], each after one more token."""
        size = states.shape[1]
        given, kept = self.inputs[list(rows)], states @ self.weights.cell + self.weights.bias[1]
        # Clipped, so that exp cannot overflow; at 30 a gate is open or shut for all purposes.
        gates = 1.0 / (1.0 + np.exp(-np.clip(given[:, : 2 * size] + kept[:, : 2 * size], -30, 30)))
        reset, update = gates[:, :size], gates[:, size:]
        # The reset gate also acts on the bias of the states, as in torch; so that cannot be added to the bias of the
        # inputs.
        new = np.tanh(given[:, 2 * size :] + reset * kept[:, 2 * size :])
        return np.asarray(new + update * (states - new), np.float32)

    def logprobs(self, states: FloatArray) -> FloatArray:
        """[drafts, n + 1] of the token after each."""
        return log_softmax(states @ self.outputs + self.weights.prior)


@dataclass(frozen=True)
class Recurrent:
    """A `draft.Drafter`: a beam of `width` drafts of at most `length` tokens.

    Tokens that are less likely than `least`, those in front of them included, are not fed, and if it is above 0 nothing
    is where less than `WORTH` tokens are gained on average. With 0 the whole beam is always fed.
    """

    cell: Cell
    width: int = 4
    length: int = 4
    least: float = 0.1

    def draft(self, prompt: Prompt) -> RecurrentDraft:
        """That of any search: each run's hidden state tells all that counts."""
        return RecurrentDraft(self)

    def tree(self, newest: int, hidden: FloatArray) -> Tree:
        """What is likely after `newest`, which the decoder's state `hidden` [width] predicted."""
        cell = self.cell
        unknown = len(cell.weights.tokens)
        # numpy would warn of the logarithm of 0.
        floor = np.log(self.least) if self.least else -np.inf
        drafts: list[tuple[int, ...]] = [()]
        found: list[tuple[int, ...]] = []
        states, rows, totals, gain = cell.begin(hidden), [cell.rows.get(newest, unknown)], np.zeros(1, np.float32), 0.0
        for _ in range(self.length):
            states = cell.step(states, rows)
            scores = (totals[:, None] + cell.logprobs(states)).ravel()
            # All tokens that it does not know are one class, and that cannot be fed.
            scores[unknown :: unknown + 1] = -np.inf
            # The place to partition at must exist, also where there are fewer scores than drafts.
            likely = np.argpartition(-scores, min(self.width, len(scores) - 1))[: self.width]
            # A partition has no order of its own, and the likeliest draft goes first (`Tree.merged`).
            likely = likely[np.argsort(-scores[likely], kind="stable")]
            likely = likely[(scores[likely] > -np.inf) & (scores[likely] >= floor)]
            if not len(likely):
                break
            parents, rows = (likely // (unknown + 1)).tolist(), (likely % (unknown + 1)).tolist()
            totals, states = scores[likely], states[parents]
            # The expected number of tokens that will be accepted: the sum of the chances of all that would be fed.
            gain += float(np.exp(totals).sum())
            drafts = [
                (*drafts[parent], int(cell.weights.tokens[row])) for parent, row in zip(parents, rows, strict=True)
            ]
            found += drafts
        return NO_DRAFT if self.least and gain < WORTH else Tree.merged(found)


class RecurrentDraft(Always):
    """The draft of one search. Implements `draft.Draft`."""

    wants_hidden = True

    def __init__(self, how: Recurrent) -> None:
        self._how = how

    def propose(self, sampled: Sequence[int], hidden: FloatArray | None = None) -> Tree:
        """A beam of drafts; nothing before the first run."""
        return self._how.tree(sampled[-1], hidden) if sampled and hidden is not None else NO_DRAFT
