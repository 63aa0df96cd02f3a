"""Greedy search that does not trust end of text."""

from typing import Any

import numpy as np

from scripted_decoder import EOT, SIZE, SOT, SOT_PREV, SPECIALS, VOCABULARY, ScriptedDecoder
from whispertide.decoding.accept import GREEDY
from whispertide.decoding.end import SecondBest
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import SearchResult, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.types import FloatArray

PROMPT = Prompt((SOT_PREV, 5, SOT), sot_index=2, limit=8)
RULES = Rules(VOCABULARY, suppressed=SPECIALS)
MUTE = 7  # a token that says nothing


def preferring(*pairs: tuple[int, int]) -> Any:
    """A script: at step i the likeliest token is the first of pair i, the next the second."""

    def script(seen: tuple[int, ...]) -> FloatArray:
        first, second = pairs[min(len(seen) - len(PROMPT.tokens), len(pairs) - 1)]
        logits = np.zeros(SIZE, np.float32)
        logits[second], logits[first] = 10, 20
        return logits

    return script


def found(script: Any, **options: Any) -> SearchResult:
    end = SecondBest(lambda token: token not in (MUTE, EOT), EOT, **options)
    search = TokenSearch(PROMPT, RULES, GREEDY, end=end)
    return run_search(search, ScriptedDecoder(script))


def test_the_second_best_takes_the_place_of_the_end() -> None:
    result = found(preferring((1, 9), (EOT, 2), (3, EOT), (EOT, MUTE)))
    assert result.best.tokens == (1, 2, 3)
    assert result.best.stop == "end_of_text"


def test_a_second_best_that_says_nothing_ends_the_text() -> None:
    assert found(preferring((EOT, MUTE))).best.tokens == ()


def test_the_real_end_is_an_option() -> None:
    assert found(preferring((1, 9), (EOT, 2)), real_end=True).best.tokens == (1,)


def test_before_the_least_number_of_tokens_nothing_ends_it() -> None:
    result = found(preferring((EOT, MUTE), (EOT, 2), (EOT, 3)), real_end=True, least=2)
    assert result.best.tokens == (MUTE, 2)


def test_the_limit_holds() -> None:
    result = found(preferring((EOT, 2)))
    assert (len(result.best.tokens), result.best.stop) == (PROMPT.limit, "length")
