"""Block verification: a reference is fed in one run; its longest prefix that greedy search would have chosen stands.

What an earlier round heard in the same audio is mostly right, and running n tokens at once costs little more than
running one. The result is greedy search's by construction: a token is accepted only where it is the argmax. Rejected
tokens leave the cache again by `Verdict.keep`. It is speculative decoding (arXiv 2211.17192) whose drafts cost nothing.
Quantised graphs round a block a little differently than single steps, so there a near-tie may fall the other way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whispertide.decoding.distribution import best, required
from whispertide.decoding.greedy import GreedySearch
from whispertide.decoding.hypothesis import row_attention
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import DecodeOutput, DecodeRequest, Guard, Verdict


class VerifySearch(GreedySearch):
    """Greedy search that tries `reference` (sampled tokens only: no prompt, no end of text) as one block first.

    `accepted` counts the tokens of the reference that stood.
    """

    def __init__(self, prompt: Prompt, rules: Rules, reference: Sequence[int], *, guards: Sequence[Guard] = ()) -> None:
        super().__init__(prompt, rules, guards=guards)
        self._reference = tuple(reference)[: prompt.limit]
        self.accepted = 0

    def next(self) -> DecodeRequest:
        """The prompt; the whole reference if its first token is right; then one token at a time."""
        if not self._block_is_due():
            return super().next()
        # Under timestamp rules every position forbids other tokens, but the graph suppresses by row: see `_choice`.
        return DecodeRequest(
            tokens=np.array([self._reference], dtype=np.int64),
            logits_at=tuple(range(len(self._reference))),
            suppress=None if self._rules.timestamps else self._rules.suppression([self._reference[:1]]),
            need="logits" if self._rules.timestamps else "top",
        )

    def feed(self, output: DecodeOutput) -> Verdict:
        """Take the likeliest token, or the reference as far as it is what greedy search would take."""
        if not self._block_is_due():
            return super().feed(output)
        self._steps += 1
        self.accepted = 1
        attention = row_attention(output.attention, 0)
        for position in range(len(self._reference)):
            token, logprob = self._choice(output, position)
            self._trail.see(None if attention is None else attention[:, position : position + 1])
            self._take(token, logprob)
            is_right = self._reference[position + 1 : position + 2] == (token,)
            self.accepted += is_right
            if self._done is not None or not is_right:
                return Verdict(stop=self._done is not None, keep=position + 1)
        raise AssertionError("nothing in a reference can agree with the token behind its end")

    def _block_is_due(self) -> bool:
        return self._steps == 1 and self._trail.tokens == list(self._reference[:1])

    def _choice(self, output: DecodeOutput, position: int) -> tuple[int, float]:
        """The likeliest token behind the block's token at `position`, and its log-probability."""
        if output.logits is None:
            ids, logprobs = required(output.top_ids, "top_ids"), required(output.top_logprobs, "top_logprobs")
            return int(ids[0, position, 0]), float(logprobs[0, position, 0])
        logits = output.logits[:, position] + self._rules.suppression([self._reference[: position + 1]])
        token, logprob = best(self._rules.log_probabilities(logits), 1)
        return int(token[0, 0]), float(logprob[0, 0])
