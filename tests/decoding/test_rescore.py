"""The first token, decided once more by all of the text."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from whispertide.decoding.ctc_prefix import Sums
from whispertide.decoding.hybrid import END, HybridOptions, hybrid_search
from whispertide.decoding.rescore import with_best_first
from whispertide.types import FloatArray, IntArray

LIGHTS, ALARM, TURN, SET = 1, 2, 3, 4  # two intents and two words
FIRSTS = np.array([LIGHTS, ALARM])
OPTIONS = HybridOptions(beam=1, attention=0.7)


@dataclass(frozen=True)
class Texts:
    tokens: IntArray

    def rows(self, chosen: IntArray) -> "Texts":
        return Texts(self.tokens[chosen])

    def cut(self, length: int) -> "Texts":
        return Texts(self.tokens[:, :length])


@dataclass
class Late:
    """A decoder that finds out at the word "set" that lights cannot be meant."""

    read_rows: list[int] = field(default_factory=list)

    def start(self) -> Texts:
        return Texts(np.zeros((1, 0), np.int64))

    def score(self, state: Texts, tokens: IntArray) -> tuple[FloatArray, Texts]:
        texts = np.concatenate([state.tokens, tokens[:, None]], axis=1)
        return np.array([self._next(text.tolist()) for text in texts]), Texts(texts)

    def read(self, tokens: IntArray) -> tuple[FloatArray, Texts]:
        self.read_rows.append(len(tokens))
        scores = [[self._next(text[: at + 1]) for at in range(len(text))] for text in tokens.tolist()]
        return np.array(scores), Texts(tokens)

    def _next(self, text: list[int]) -> FloatArray:
        wanted = {
            (END,): [0.0, 0.6, 0.4, 0.0, 0.0],
            (END, LIGHTS): [0.0, 0.0, 0.0, 0.8, 0.2],
            (END, ALARM): [0.0, 0.0, 0.0, 0.2, 0.8],
        }.get(tuple(text), [1.0, 0.0, 0.0, 0.0, 0.0])
        scores: FloatArray = np.log(np.array(wanted, np.float32) * np.float32(0.9999) + np.float32(2e-5))
        return scores


def heard(word: int) -> Sums:
    """CTC hears a word, and no intent."""
    scores = np.full((6, 6), 0.002)
    scores[:, 5] = 0.99
    scores[3, [word, 5]] = 0.99, 0.002
    return np.asarray(np.log(scores / scores.sum(axis=1, keepdims=True)))


@pytest.mark.parametrize(("word", "intent"), [(SET, ALARM), (TURN, LIGHTS)])
def test_the_words_decide_what_is_wanted(word: int, intent: int) -> None:
    scores, decoder = heard(word), Late()
    greedy = hybrid_search(scores, decoder, OPTIONS)
    assert greedy.best.tokens == (LIGHTS, word), "one row cannot take the intent back"
    found = with_best_first(greedy, scores, decoder, FIRSTS, OPTIONS)
    assert found.best.tokens == (intent, word)
    assert decoder.read_rows == [2], "what follows the beginning is known from the search"
    assert (found.runs, found.rows) == (greedy.runs + 1, greedy.rows + 2)
    assert found.best.score >= greedy.best.score
    assert len(found.best.said) == 3
    if intent == ALARM:
        assert found.best.perplexity < greedy.best.perplexity
        assert found.sums == (), "they belong to another text"
    else:
        assert found.best == greedy.best
        assert found.sums == greedy.sums


def test_a_text_without_such_a_token_stays() -> None:
    scores, decoder = heard(SET), Late()
    found = hybrid_search(scores, decoder, OPTIONS)
    assert with_best_first(found, scores, decoder, np.array([ALARM]), OPTIONS) is found
    nothing = replace(found, best=replace(found.best, tokens=()))
    assert with_best_first(nothing, scores, decoder, FIRSTS, OPTIONS) is nothing


def test_a_text_that_was_cut_off_does_not_end() -> None:
    scores, decoder = heard(SET), Late()
    whole = hybrid_search(scores, decoder, OPTIONS)
    cut = replace(whole, best=replace(whole.best, said=whole.best.said[:2], ended=False))
    found = with_best_first(cut, scores, decoder, FIRSTS, OPTIONS)
    assert found.best.tokens == (ALARM, SET)
    assert not found.best.ended
    assert len(found.best.said) == 2
