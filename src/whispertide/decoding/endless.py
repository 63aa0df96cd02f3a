"""Greedy search that does not trust end of text (NPUsper): something else has to end the decode.

On short windows without padding a decoder's end of text comes too early or too late. So where it is the likeliest
token the second-best is taken, unless that says nothing (a special token, punctuation): then the text is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whispertide.decoding.greedy import GreedySearch
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import Guard


class EndlessSearch(GreedySearch):
    """`speaks` tells whether a token says anything. Before `least` tokens end of text is not accepted at all;
    afterwards it is where `real_end`.
    """

    candidates = 2

    def __init__(
        self,
        prompt: Prompt,
        rules: Rules,
        *,
        speaks: Callable[[int], bool],
        least: int = 0,
        real_end: bool = False,
        guards: Sequence[Guard] = (),
    ) -> None:
        super().__init__(prompt, rules, guards=guards)
        self._speaks = speaks
        self._least = least
        self._real_end = real_end

    def _choose(self, ids: Sequence[int], logprobs: Sequence[float]) -> tuple[int, float]:
        if ids[0] != self._rules.vocabulary.eot:
            return ids[0], logprobs[0]
        if len(self._trail.tokens) < self._least and ids[1] < self._rules.vocabulary.eot:
            return ids[1], logprobs[1]
        if self._real_end or not self._speaks(ids[1]):
            return ids[0], logprobs[0]
        return ids[1], logprobs[1]
