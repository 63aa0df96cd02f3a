"""A search, and how unsure it was of its first token.

The entropy of one prediction is what an exit of DeeBERT looks at (arXiv 2004.12993). A text has as many predictions as
tokens; the first is the one that a search knows before any other, and the only one that a classifier would have.
"""

import numpy as np

from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import log_softmax
from whispertide.decoding.search import Search, SearchResult, Verdict
from whispertide.model.engine import DecodeOutput, DecodeRequest


class FirstEntropy:
    """`search` itself; `entropy` (nats, over the vocabulary, nothing suppressed) is known after its first run."""

    def __init__(self, search: Search, prompt: Prompt) -> None:
        self.prompt = prompt
        self.entropy = 0.0
        self._search = search
        self._place: int | None = None  # of the first token's prediction, from the end of what was asked for

    def next(self) -> DecodeRequest:
        """That of the search."""
        request = self._search.next()
        # Only the prompt's request is that long; a long draft may be, too, but by then the entropy is known.
        self._place = -1 - request.draft if request.tokens.shape[1] >= len(self.prompt.tokens) else None
        return request

    def feed(self, output: DecodeOutput) -> Verdict:
        """That of the search; from the first run the entropy is taken."""
        if self._place is not None and output.logits is not None and not self.entropy:
            logprobs = log_softmax(output.logits[0, self._place]).astype(np.float64)
            # 0 times -inf would be nan.
            possible = logprobs[np.isfinite(logprobs)]
            self.entropy = float(-(np.exp(possible) * possible).sum())
        return self._search.feed(output)

    def result(self) -> SearchResult:
        """That of the search."""
        return self._search.result()
