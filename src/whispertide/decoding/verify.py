"""Block verification: an earlier text is fed in one run; its longest prefix that the search would have found stands.

What an earlier round heard in the same audio is mostly right, and running n tokens at once costs little more than
running one. The result is that of the pruned search by construction, and with a beam of one that of greedy search: a
token is accepted only where it is the likeliest. Rejected tokens leave the cache again by `Verdict.keep`. It is
speculative decoding (arXiv 2211.17192) whose drafts cost nothing. Quantised graphs round a block a little differently
than single steps, the prompt too if a draft goes with it, so there a near-tie may fall the other way, and the
probability of no speech is a little different.

Where a round writes timestamps the earlier text has none: they are what changes most from round to round, as the window
moves and its last segment grows. The search puts them in as it finds them, each ends a block, and what is left of the
text is the next block; so a window takes about as many runs as it has segments. One that closes a segment is followed
by one that opens the next, nearly always at the same time, and that one is drafted. So is the first of all, if it is
known, and then the first block goes with the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whispertide.decoding.distribution import best, no_speech, opening_request, required
from whispertide.decoding.earlier import EarlierText
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.pruned import PrunedSearch
from whispertide.decoding.rules import Rules, pairing
from whispertide.decoding.search import TOP, DecodeOutput, DecodeRequest, Guard, Steps, Verdict
from whispertide.types import FloatArray, IntArray


class VerifySearch(PrunedSearch):
    """The pruned search in fewer runs: wherever one row follows the earlier text, what is left of it is one block."""

    def __init__(
        self,
        prompt: Prompt,
        rules: Rules,
        earlier: EarlierText,
        *,
        beam: int = 1,
        patience: float = 1.0,
        length_penalty: float | None = None,
        guards: Sequence[Guard] = (),
    ) -> None:
        super().__init__(
            prompt, rules, earlier, beam=beam, patience=patience, length_penalty=length_penalty, guards=guards
        )
        self._opening = earlier.opening
        self._draft: tuple[int, ...] = ()  # what was fed last behind the newest token, or behind the prompt

    def next(self) -> DecodeRequest:
        """The prompt, later the newest token, with what the text has behind it; or the newest token of every beam."""
        self._draft = self._drafted()
        if not self._draft:
            return super().next()
        if not self._steps.runs:
            return opening_request(self._prompt, self._draft)
        newest = self._live[0]
        block = (newest.tokens[-1], *self._draft)
        # Under timestamp rules every position forbids other tokens, but the graph suppresses by row: see `_likeliest`.
        whole = self._rules.timestamps or self._beam >= TOP
        return DecodeRequest(
            tokens=np.array([block], dtype=np.int64),
            logits_at=tuple(range(len(block))),
            parents=(newest.parent,),
            suppress=None if whole else self._rules.suppression([block[:1]]),
            need="logits" if whole else "top",
            draft=len(self._draft),
        )

    def feed(self, output: DecodeOutput) -> Verdict:
        """Extend all beams; of a block as far as each token of it is the likeliest."""
        if not self._draft:
            return super().feed(output)
        before = 0  # tokens that were fed in front of the newest one
        if not self._steps.runs:
            before = len(self._prompt.tokens) - 1
            self._no_speech_prob = no_speech(output, self._rules)
        self._steps += Steps.run(1)
        for position in range(len(self._draft) + 1):
            ids, scores = self._likeliest(output, position)
            queries = slice(before + position if position else 0, before + position + 1)
            attention = None if output.attention is None else output.attention[:, :, queries]
            self._extend(ids, scores, attention)
            is_over = self._is_over()
            if is_over or not self._narrow or self._live[0].tokens[-1:] != self._draft[position : position + 1]:
                return Verdict(stop=is_over, keep=before + position + 1)
        raise AssertionError("nothing in a block can agree with the token after its end")

    def _drafted(self) -> tuple[int, ...]:
        """What is likely to come next; empty where nobody knows."""
        if not self._narrow or not (draft := self._tracker.ahead()):
            return ()
        sampled, vocabulary = self._live[0].tokens, self._rules.vocabulary
        if self._rules.timestamps and not sampled and not vocabulary.is_timestamp(draft[0]):
            if self._opening is None:
                return ()
            draft = (self._opening, *draft)
        must_be_time = self._rules.timestamps and pairing(sampled, vocabulary) == ((0, vocabulary.eot),)
        if must_be_time and not vocabulary.is_timestamp(draft[0]):
            draft = (sampled[-1], *draft)
        return draft[: self._prompt.limit - len(sampled) - 1]  # the last token sampled is never fed

    def _likeliest(self, output: DecodeOutput, position: int) -> tuple[IntArray, FloatArray]:
        """The best next tokens behind `position` tokens of the draft; one where the text is sure to be followed."""
        count = self._beam + 1
        if output.logits is None:
            ids, logprobs = required(output.top_ids, "top_ids"), required(output.top_logprobs, "top_logprobs")
            return ids[:, position, :count], logprobs[:, position, :count]
        from_end = position - len(self._draft) - 1  # an opening has the start of the transcript in front
        logits = output.logits[:, from_end] + self._rules.suppression([self._live[0].tokens])
        of_all = self._rules.log_probabilities(logits)
        likeliest = best(of_all, 1)
        # Not the draft counts but the place in the text, which may have been found elsewhere (`align="time"`).
        is_next = self._tracker.matched and tuple(likeliest[0][0].tolist()) == self._tracker.ahead()[:1]
        return likeliest if is_next else best(of_all, count)
