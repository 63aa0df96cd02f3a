"""The trials of key terms in a search of one hypothesis: what to feed ahead, and what of it is to be written.

Where a term may come next (`key_terms`) the search feeds its tokens as it feeds a draft, asks again, and takes what is
granted token by token, so that guards see every one. A trial costs a run, and none where the tokens lie ahead anyway:
the draft of an earlier round has the terms that were found then.
"""

from collections.abc import Callable, Sequence

from whispertide.decoding.key_terms import TRIED, KeyTerms, Place
from whispertide.types import FloatArray


class TermTrials:
    """The trials of one search. `trial` is what has to be fed next; empty: nothing."""

    def __init__(self, terms: KeyTerms) -> None:
        self._terms = terms
        self._tried: set[int] = set()  # the first tokens of what was refused at the present place
        self._granted: list[int] = []  # what is still to be taken
        self.trial: tuple[int, ...] = ()

    @property
    def is_granted(self) -> bool:
        """True if the next token is one of a term."""
        return bool(self._granted)

    def look(
        self, place: Place, ahead: Sequence[int], row_after: Callable[[Sequence[int]], FloatArray], room: int
    ) -> bool:
        """Look for a term of at most `room` tokens that comes next; returns whether that is decided. Else `trial` is to
        be fed first.

        place      where the text is in the terms
        ahead      what was fed after it
        row_after  gives the log-probabilities [vocab] of what comes after so much of that
        """
        if self._granted:
            return True
        for found in self._beginnings(place, row_after(())):
            tokens, verdict = found, None
            while verdict is None and tuple(ahead[: len(tokens)]) == tokens:
                tokens, verdict = self._terms.judge(place, tokens, row_after)
            if verdict is None and len(tokens) <= room:
                self.trial = tokens
                return False
            if verdict:
                self._granted = list(tokens)
                break
            self._tried.add(found[0])
        self.trial = ()
        return True

    def take(self, row: FloatArray) -> tuple[int, float]:
        """The next granted token, and its log-probability as it is shown, by those [vocab] of all."""
        token = self._granted.pop(0)
        return token, self._terms.shown(row, token)

    def move(self) -> None:
        """The text goes on by a token: everything may be tried there."""
        self._tried.clear()

    def _beginnings(self, place: Place, row: FloatArray) -> list[tuple[int, ...]]:
        found = self._terms.worth_trying(place, row, self._tried)[: TRIED - len(self._tried)]
        return [self.trial if self.trial[:1] == tokens[:1] else tokens for tokens in found]
