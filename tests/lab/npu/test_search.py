"""However tokens are cut into chunks, the search finds what greedy search finds, and its guards see the same."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from scripted_decoder import (
    EOT,
    NO_SPEECH,
    SOT,
    SOT_PREV,
    SPECIALS,
    TEXT,
    VOCABULARY,
    ScriptedDecoder,
    random_script,
    telling,
)
from scripted_model import bundled, multilingual
from stepwise import Stepwise
from whispertide.decoding.accept import GREEDY
from whispertide.decoding.end import SecondBest
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules, suppressed_tokens
from whispertide.decoding.search import SearchResult, Steps, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.errors import GraphError, OptionError
from whispertide.types import FloatArray
from whispertide_lab.npu.chunks import UnrolledLayout
from whispertide_lab.npu.export import token_rules
from whispertide_lab.npu.search import ComputedAhead, run_unrolled

PLAIN = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,))
LAYOUT = UnrolledLayout(1, plans=((2, 3, 4), (4, 1, 4)))
START = Prompt((SOT,), sot_index=0, limit=40)


class Recorder:
    """Notes what it is shown; keeps `keep` tokens once there are `count`."""

    def __init__(self, count: int = 99, keep: int = 0) -> None:
        self.count, self.keep = count, keep
        self.shown: list[tuple[tuple[int, ...], FloatArray | None]] = []

    def check(self, tokens: Sequence[int], attention: FloatArray | None, logprob: float) -> int | None:
        self.shown.append((tuple(tokens), attention))
        return self.keep if len(tokens) >= self.count else None


def attend(seen: tuple[int, ...]) -> FloatArray:
    return np.random.default_rng(seen).random((2, 5)).astype(np.float32)


def unrolled(prompt: Prompt, script: Any, rules: Rules = PLAIN, layout: Any = LAYOUT, **options: Any) -> SearchResult:
    return run_unrolled(prompt, rules, layout, Stepwise(ScriptedDecoder(script, attend), VOCABULARY), **options)


def same(found: SearchResult, expected: SearchResult) -> None:
    assert found.best.tokens == expected.best.tokens
    assert found.best.stop == expected.best.stop
    assert found.no_speech_prob == pytest.approx(expected.no_speech_prob)
    np.testing.assert_allclose(found.best.logprobs, expected.best.logprobs, atol=1e-4)
    assert found.best.sum_logprob == pytest.approx(expected.best.sum_logprob, abs=1e-3)


FLAGS = st.tuples(st.booleans(), st.booleans())
layouts = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=6), min_size=1, max_size=3)


@given(data=st.data(), plans=layouts, seed=st.integers(0, 100_000), count=st.integers(1, 12))
def test_the_result_is_greedy_searchs(data: st.DataObject, plans: list[list[int]], seed: int, count: int) -> None:
    block = data.draw(st.integers(1, min(plan[0] for plan in plans)))
    layout = UnrolledLayout(block, tuple(tuple(plan) for plan in plans))
    known = data.draw(st.integers(block, max(block, layout.plan(99)[-1].end)))
    if known > layout.plan(known)[-1].end:
        known = block
    room = layout.plan(known)[-1].end - known + 1
    limit = min(room, data.draw(st.integers(1, 40)))
    prompt = Prompt((SOT, *range(3, 2 + known)), sot_index=0, limit=limit)
    script = random_script(seed, eot_bonus=data.draw(st.floats(-3, 3)))
    keep = data.draw(st.integers(0, count))
    one, other = Recorder(count, keep), Recorder(count, keep)
    expected = run_search(TokenSearch(prompt, PLAIN, GREEDY, guards=[one]), ScriptedDecoder(script, attend))
    same(unrolled(prompt, script, layout=layout, guards=[other]), expected)
    assert [tokens for tokens, _ in other.shown] == [tokens for tokens, _ in one.shown]
    for (_, ours), (_, theirs) in zip(other.shown, one.shown, strict=True):
        assert ours is not None
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
@quick(50)
@given(
    seed=st.integers(0, 100_000),
    bonus=st.floats(-2, 5),
    least=st.integers(0, 4),
    real=st.booleans(),
    blank=st.booleans(),
)
def test_second_best_tokens_in_chunks(seed: int, bonus: float, least: int, real: bool, blank: bool) -> None:
    rules = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,) if blank else ())
    script = random_script(seed, eot_bonus=bonus)
    prompt = Prompt((SOT,), sot_index=0, limit=9)

    def speaks(token: int) -> bool:
        return token < TEXT and token % 3 > 0

    end = SecondBest(speaks, EOT, least, real)
    expected = run_search(TokenSearch(prompt, rules, GREEDY, end=end), ScriptedDecoder(script))
    same(unrolled(prompt, script, rules, end=end), expected)


def test_a_guard_cuts_inside_a_chunk() -> None:
    guard = Recorder(count=3, keep=2)
    result = unrolled(START, telling((SOT,), [3, 1, 4, 1, 5, 9]), guards=[guard])
    assert result.best.tokens == (3, 1)
    assert result.best.stop == "guard"
    assert result.steps == Steps(2, 2, 2, prompts=1)  # the third is the second chunk's first
    assert len(guard.shown) == 3


def test_it_ends_with_the_last_chunk() -> None:
    result = unrolled(START, telling((SOT,), [1] * 30))
    assert result.best.tokens == (1,) * 9
    assert result.best.stop == "length"


def test_broken_off() -> None:
    chunks = Stepwise(ScriptedDecoder(telling((SOT,), [1, 2, 3])), VOCABULARY)
    decoder, search = (
        ComputedAhead(chunks, LAYOUT.plan(1), PLAIN, 1, without_end=False),
        TokenSearch(START, PLAIN, GREEDY),
    )
    for _ in range(2):
        search.feed(decoder.run(search.next()))
    assert decoder.runs == 1
    assert search.result().best.tokens == (1, 2)
    assert search.result().best.stop == "aborted"


def test_a_chunk_cannot_be_undone() -> None:
    chunks = Stepwise(ScriptedDecoder(telling((SOT,), [1])), VOCABULARY)
    with pytest.raises(GraphError, match="taken back"):
        ComputedAhead(chunks, LAYOUT.plan(1), PLAIN, 1, without_end=False).rewind(1)


def test_no_speech_comes_from_the_first_chunk() -> None:
    def script(seen: tuple[int, ...]) -> FloatArray:
        logits = np.zeros(VOCABULARY.size, np.float32)
        logits[NO_SPEECH if seen == (SOT,) else EOT] = 4.0
        return logits

    found = unrolled(START, script)
    same(found, run_search(TokenSearch(START, PLAIN, GREEDY), ScriptedDecoder(script)))
    assert found.no_speech_prob > 0.5


def test_what_does_not_fit_into_static_graphs() -> None:
    script = telling((SOT,), [1])
    timed = Rules(VOCABULARY, suppressed=SPECIALS, timestamps=True)
    with pytest.raises(OptionError, match="timestamps"):
        unrolled(START, script, timed)
    with pytest.raises(OptionError, match="previous text"):
        unrolled(Prompt((SOT_PREV, 1, SOT), sot_index=2, limit=5), script)
    with pytest.raises(OptionError, match="shorten the prefix"):
        unrolled(Prompt((SOT, *[1] * 9), sot_index=0, limit=5), script)


def test_what_a_user_of_exported_graphs_is_told() -> None:
    checkpoint = bundled()
    assert token_rules(checkpoint) == {
        "end": 50_256,
        "no_speech": checkpoint.tokenizer.no_speech,
        "languages": {},
        "never": list(suppressed_tokens(checkpoint.tokenizer, None, checkpoint.generation.suppress_tokens)),
        "not_first": [*checkpoint.tokenizer.encode(" "), 50_256],
    }
    own = replace(checkpoint, generation=replace(checkpoint.generation, suppress_tokens=(7, 9)))
    assert {7, 9} <= set(token_rules(own)["never"]) < set(range(51_864))
    spoken = multilingual()
    assert token_rules(replace(checkpoint, tokenizer=spoken))["languages"] == spoken.language_tokens != {}
