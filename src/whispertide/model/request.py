"""One run of the decoder, as a value: what a search asks for and what it gets back."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from whispertide.types import FloatArray, IntArray

Head = tuple[int, int]  # (decoder layer, attention head)


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """One decoder run for all rows of one search.

    tokens     [rows, length]  ids to feed after what is cached
    parents    [rows]          which cached row each row continues; None = row i continues row i
    logits_at  [n]             positions within `tokens` whose next-token distribution is wanted
    suppress   [vocab] or [rows, vocab]   added to the logits (0 or -inf) before anything is computed from them
    need       "top": the best `TOP` candidates, "times": those and the best timestamps, "logits": the whole
    distribution
    draft      how many of the tokens, the last ones, are a guess: they may leave the cache again
    follows    [length]        where the tokens are a tree: the place within `tokens` of the one that each comes after
               (-1: what is cached), which stands before it; None: each comes after the one before it
    hidden     whether the hidden states are wanted too
    """

    tokens: IntArray
    logits_at: tuple[int, ...]
    parents: tuple[int, ...] | None = None
    suppress: FloatArray | None = None
    need: Literal["top", "times", "logits"] = "top"
    draft: int = 0
    follows: tuple[int, ...] | None = None
    hidden: bool = False

    @property
    def depths(self) -> IntArray:
        """[length] how far after the cache each token stands."""
        if self.follows is None:
            return np.arange(self.tokens.shape[1])
        depths: list[int] = []
        for before in self.follows:
            depths.append(0 if before < 0 else depths[before] + 1)
        return np.array(depths, np.int64)

    @property
    def sees(self) -> npt.NDArray[np.bool_]:
        """[length, length] which of the tokens each may attend to: itself and those that it comes after."""
        length = self.tokens.shape[1]
        if self.follows is None:
            return np.tri(length, dtype=np.bool_)
        seen = np.eye(length, dtype=np.bool_)
        for place, before in enumerate(self.follows):
            if before >= 0:
                seen[place] |= seen[before]
        return seen


@dataclass(frozen=True, slots=True)
class DecodeOutput:
    """What a decoder run gives back; n = len(request.logits_at).

    top_ids      [rows, n, TOP] token ids, best first
    top_logprobs [rows, n, TOP] their log-probabilities (after suppression)
    time_ids     [rows, n, TOP] the best timestamp tokens, best first
    time_logprobs [rows, n, TOP] their log-probabilities among all tokens
    time_mass    [rows, n] log of the probability that the next token is a timestamp
    logits       [rows, n, vocab] after suppression; None unless the request needs them
    attention    [heads, rows, length, frames] softmaxed cross-attention of the chosen heads; None if none chosen.
                 Row k is that of the query which *predicts* the token after fed token k.
    hidden       [rows, length, width] what the decoder gives out after each fed token, before the vocabulary; None
                 unless the request asks for it
    no_speech_prob   where the logits that tell it are not given back; else nan
    """

    top_ids: IntArray | None = None
    top_logprobs: FloatArray | None = None
    time_ids: IntArray | None = None
    time_logprobs: FloatArray | None = None
    time_mass: FloatArray | None = None
    logits: FloatArray | None = None
    attention: FloatArray | None = None
    hidden: FloatArray | None = None
    no_speech_prob: float = float("nan")
