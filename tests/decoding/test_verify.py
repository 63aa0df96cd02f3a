"""Whatever the reference, block verification gives exactly what greedy search gives."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripted_decoder import (
    EOT,
    SIZE,
    SOT,
    SOT_PREV,
    SPECIALS,
    VOCABULARY,
    ScriptedDecoder,
    random_script,
    telling,
)
from whispertide.decoding.greedy import GreedySearch
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import run_search
from whispertide.decoding.verify import VerifySearch
from whispertide.types import FloatArray

PROMPT = Prompt((SOT_PREV, 2, SOT), sot_index=2, limit=9)
PLAIN = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,))
TIMED = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,), timestamps=True, max_initial_index=3)


class KeepTwo:
    """Ends at four tokens."""

    def check(self, tokens: Any, attention: FloatArray | None) -> int | None:
        return 2 if len(tokens) >= 4 else None


def verified(script: Any, rules: Rules, reference: Any, **options: Any) -> tuple[Any, VerifySearch, ScriptedDecoder]:
    decoder = ScriptedDecoder(script)
    search = VerifySearch(PROMPT, rules, reference, **options)
    return run_search(search, decoder), search, decoder


@settings(max_examples=200, deadline=None)
@given(data=st.data(), seed=st.integers(0, 100_000), timed=st.booleans(), guarded=st.booleans())
def test_the_result_is_greedy_searchs(data: st.DataObject, seed: int, timed: bool, guarded: bool) -> None:
    rules, script = TIMED if timed else PLAIN, random_script(seed, eot_bonus=2.0)
    guards = [KeepTwo()] if guarded else []
    expected = run_search(GreedySearch(PROMPT, rules, guards=guards), ScriptedDecoder(script))
    right = data.draw(st.integers(0, len(expected.best.tokens)))
    wrong = data.draw(st.lists(st.integers(0, SIZE - 1), max_size=12))
    result, search, _ = verified(script, rules, [*expected.best.tokens[:right], *wrong], guards=guards)
    assert result.best.tokens == expected.best.tokens
    assert result.best.stop == expected.best.stop
    assert result.no_speech_prob == pytest.approx(expected.no_speech_prob)
    np.testing.assert_allclose(result.best.logprobs, expected.best.logprobs, atol=1e-5)
    assert result.best.sum_logprob == pytest.approx(expected.best.sum_logprob, abs=1e-4)
    if not guarded:
        assert search.accepted >= right


def test_a_right_reference_takes_two_runs() -> None:
    result, search, decoder = verified(telling(PROMPT.tokens, [3, 1, 4, 1]), PLAIN, [3, 1, 4, 1])
    assert result.best.tokens == (3, 1, 4, 1)
    assert search.accepted == 4
    assert [request.tokens.tolist() for request in decoder.requests] == [[list(PROMPT.tokens)], [[3, 1, 4, 1]]]
    assert result.steps == 2


def test_rejected_tokens_leave_the_cache() -> None:
    _, search, decoder = verified(telling(PROMPT.tokens, [3, 1, 4, 1]), PLAIN, [3, 1, 9, 9, 9])
    assert search.accepted == 2
    assert decoder.requests[1].tokens.tolist() == [[3, 1, 9, 9, 9]]
    assert decoder.requests[2].tokens.tolist() == [[4]]
    assert decoder.cache == [(*PROMPT.tokens, 3, 1, 4, 1)]


def test_a_reference_that_is_wrong_at_once_costs_nothing() -> None:
    result, search, decoder = verified(telling(PROMPT.tokens, [3, 1]), PLAIN, [8, 3, 1])
    assert result.best.tokens == (3, 1)
    assert search.accepted == 0
    assert all(request.tokens.shape[1] == 1 for request in decoder.requests[1:])


def test_a_reference_that_is_too_short_is_continued() -> None:
    result, search, _ = verified(telling(PROMPT.tokens, [3, 1, 4, 1, 5]), PLAIN, [3, 1])
    assert result.best.tokens == (3, 1, 4, 1, 5)
    assert search.accepted == 2


def test_a_reference_longer_than_the_limit_is_cut() -> None:
    result, _, decoder = verified(lambda seen: np.eye(SIZE, dtype=np.float32)[3] * 9, PLAIN, [3] * 50)
    assert result.best.tokens == (3,) * PROMPT.limit
    assert result.best.stop == "length"
    assert decoder.requests[1].tokens.shape == (1, PROMPT.limit)
