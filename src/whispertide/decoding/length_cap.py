"""A beam search that ends when its text is as long as was expected.

Whisper's beam search goes on until as many hypotheses have ended as there are rows, though the best of them has usually
ended long before. Where an earlier search over part of the audio says how long the text is going to be, a search that
has come so far ends with the first hypothesis that does. Source: pilot inference (arXiv 2311.17065), 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from whispertide.decoding.accept import Accept
from whispertide.decoding.draft import Draft
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import Guard
from whispertide.decoding.token_search import TokenSearch

ALLOWANCE = 5  # tokens that a text may be longer than expected


def expected_length(tokens: int, heard: int, whole: int, allowance: int = ALLOWANCE) -> int:
    """How long the text of `whole` samples is expected to be, when `heard` of them gave so many tokens."""
    return round(tokens * whole / heard) + allowance


class CappedSearch(TokenSearch):
    """From `cap` tokens on it ends as soon as any hypothesis has ended; None: it ends when enough have."""

    def __init__(
        self,
        prompt: Prompt,
        rules: Rules,
        accept: Accept,
        *,
        cap: int | None = None,
        draft: Draft | None = None,
        length_penalty: float | None = None,
        guards: Sequence[Guard] = (),
    ) -> None:
        super().__init__(prompt, rules, accept, draft=draft, length_penalty=length_penalty, guards=guards)
        self._cap = cap

    def _is_over(self) -> bool:
        if super()._is_over():
            return True
        if self._cap is None or not self._finished or len(self._live[0].tokens) < self._cap:
            return False
        self._live = []  # what has not ended is no candidate
        return True
