"""Whatever was heard, checking it in blocks finds exactly what following it finds; with a beam of one, greedy's."""

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
    SIZE,
    SOT,
    SOT_PREV,
    SPECIALS,
    TIME,
    VOCABULARY,
    ScriptedDecoder,
    random_script,
    telling,
)
from whispertide.decoding.accept import GREEDY, Beam
from whispertide.decoding.draft import Align, Expected, Follower, Reference
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import Steps, run_search
from whispertide.decoding.token_search import TokenSearch, build_search
from whispertide.options import DecodeOptions
from whispertide.types import FloatArray

PROMPT = Prompt((SOT_PREV, 2, SOT), sot_index=2, limit=9)
PLAIN = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,))
TIMED = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,), timestamps=True, max_initial_index=3)


class KeepTwo:
    """Ends at four tokens."""

    def check(self, tokens: Any, attention: FloatArray | None, logprob: float) -> int | None:
        return 2 if len(tokens) >= 4 else None


def verified(script: Any, rules: Rules, reference: Any, **options: Any) -> tuple[Any, Expected, ScriptedDecoder]:
    decoder = ScriptedDecoder(script)
    draft = Expected(tuple(reference))
    return run_search(TokenSearch(PROMPT, rules, GREEDY, draft=draft, **options), decoder), draft, decoder


def test_greedy_search_has_no_patience_where_it_verifies() -> None:
    script = random_script(1, eot_bonus=2.0)
    expected = run_search(build_search(PROMPT, PLAIN, DecodeOptions()), ScriptedDecoder(script))
    for patience in (0.4, 2.0):
        search = build_search(PROMPT, PLAIN, DecodeOptions(patience=patience), draft=Expected((1, 2, 3)))
        assert run_search(search, ScriptedDecoder(script)).best.tokens == expected.best.tokens


@quick(50)
@given(data=st.data(), seed=st.integers(0, 100_000), timed=st.booleans(), guarded=st.booleans())
def test_the_result_is_greedy_searchs(data: st.DataObject, seed: int, timed: bool, guarded: bool) -> None:
    rules, script = TIMED if timed else PLAIN, random_script(seed, eot_bonus=2.0)
    guards = [KeepTwo()] if guarded else []
    expected = run_search(TokenSearch(PROMPT, rules, GREEDY, guards=guards), ScriptedDecoder(script))
    right = data.draw(st.integers(0, len(expected.best.tokens)))
    wrong = data.draw(st.lists(st.integers(0, SIZE - 1), max_size=12))
    result, draft, _ = verified(script, rules, [*expected.best.tokens[:right], *wrong], guards=guards)
    assert result.best.tokens == expected.best.tokens
    assert result.best.stop == expected.best.stop
    assert result.no_speech_prob == pytest.approx(expected.no_speech_prob)
    np.testing.assert_allclose(result.best.logprobs, expected.best.logprobs, atol=1e-5)
    assert result.best.sum_logprob == pytest.approx(expected.best.sum_logprob, abs=1e-4)
    if not guarded:
        assert draft.matched >= right


def test_a_right_reference_takes_one_run() -> None:
    result, draft, decoder = verified(telling(PROMPT.tokens, [3, 1, 4, 1]), PLAIN, [3, 1, 4, 1])
    assert result.best.tokens == (3, 1, 4, 1)
    assert draft.matched == 4
    assert [request.tokens.tolist() for request in decoder.requests] == [[[*PROMPT.tokens, 3, 1, 4, 1]]]
    assert result.steps == Steps(1, 1, 1, prompts=1)


def test_rejected_tokens_leave_the_cache() -> None:
    _, draft, decoder = verified(telling(PROMPT.tokens, [3, 1, 4, 1]), PLAIN, [3, 1, 9, 9, 9])
    assert draft.matched == 2
    assert decoder.requests[0].tokens.tolist() == [[*PROMPT.tokens, 3, 1, 9, 9, 9]]
    assert decoder.requests[1].tokens.tolist() == [[4]]
    assert decoder.cache == [(*PROMPT.tokens, 3, 1, 4, 1)]


def test_a_reference_that_is_wrong_at_once_costs_no_run() -> None:
    result, draft, decoder = verified(telling(PROMPT.tokens, [3, 1]), PLAIN, [8, 3, 1])
    assert result.best.tokens == (3, 1)
    assert draft.matched == 0
    assert decoder.cache == [(*PROMPT.tokens, 3, 1)]
    assert result.steps.runs == 3
    assert all(request.tokens.shape[1] == 1 for request in decoder.requests[1:])


def test_a_reference_that_is_too_short_is_continued() -> None:
    result, draft, _ = verified(telling(PROMPT.tokens, [3, 1, 4, 1, 5]), PLAIN, [3, 1])
    assert result.best.tokens == (3, 1, 4, 1, 5)
    assert draft.matched == 2


def test_a_reference_longer_than_the_limit_is_cut() -> None:
    result, _, decoder = verified(lambda seen: np.eye(SIZE, dtype=np.float32)[3] * 9, PLAIN, [3] * 50)
    assert result.best.tokens == (3,) * PROMPT.limit
    assert result.best.stop == "length"
    assert decoder.requests[0].tokens.shape == (1, len(PROMPT.tokens) + PROMPT.limit - 1)  # the last one is never fed


class SeesAll:
    """Notes what it is shown, and never ends anything."""

    def __init__(self) -> None:
        self.shown: list[tuple[tuple[int, ...], FloatArray]] = []

    def check(self, tokens: Sequence[int], attention: FloatArray | None, logprob: float) -> int | None:
        assert attention is not None
        self.shown.append((tuple(tokens), attention))
        return None


@pytest.mark.parametrize("reference", [[3, 1, 4, 1], [3, 1, 9, 9], [8], [3]])
def test_guards_see_the_attention_that_a_search_in_steps_shows_them(reference: list[int]) -> None:
    script = telling(PROMPT.tokens, [3, 1, 4, 1])

    def attend(tokens: tuple[int, ...]) -> FloatArray:
        return np.array([[len(tokens), tokens[-1]]], dtype=np.float32)

    in_steps, in_blocks = SeesAll(), SeesAll()
    run_search(TokenSearch(PROMPT, PLAIN, GREEDY, guards=[in_steps]), ScriptedDecoder(script, attend=attend))
    search = TokenSearch(PROMPT, PLAIN, GREEDY, draft=Expected(tuple(reference)), guards=[in_blocks])
    run_search(search, ScriptedDecoder(script, attend=attend))
    assert [tokens for tokens, _ in in_blocks.shown] == [tokens for tokens, _ in in_steps.shown]
    for (_, found), (_, expected) in zip(in_blocks.shown, in_steps.shown, strict=True):
        np.testing.assert_array_equal(found, expected)


# --- the beam form, and texts without timestamps ----------------------------------------------------------------------

MARK = 16  # tokens from here on are punctuation
TIMES = st.lists(st.integers(-20, 20), min_size=14, max_size=14)
ALIGNMENTS: tuple[Align, ...] = ("bigram", "time", "first")


def heard(
    tokens: Sequence[int],
    rules: Rules,
    how: Reference | None = None,
    times: Sequence[int] = (),
    opening: int | None = None,
) -> Follower | None:
    """A draft; none where nothing speaks, as `Reference.draft` has it."""

    def key(token: int) -> int | None:
        return token % 8 if token < MARK else None

    how = how or Reference(block=True)
    draft = Follower(tokens, rules, how, key, times=times[: len(tokens)], opening=opening)
    return draft if draft.speaks else None


def blocks(decoder: ScriptedDecoder) -> list[list[int]]:
    """What was fed in one row after the prompt, run by run."""
    first, *later = (request.tokens[0].tolist() for request in decoder.requests)
    return [first[len(PROMPT.tokens) :], *later]


@given(
    data=st.data(),
    seed=st.integers(0, 100_000),
    timed=st.booleans(),
    beam=st.integers(1, 9),
    how=st.builds(Reference, align=st.sampled_from(ALIGNMENTS), recover=st.booleans()),
    opening=st.none() | st.integers(TIME, SIZE - 1),
    ranking=st.sampled_from([(1.0, None), (1.6, None), (1.0, 0.0), (1.0, 1.0)]),
)
def test_blocks_change_nothing_but_the_number_of_runs(
    data: st.DataObject,
    seed: int,
    timed: bool,
    beam: int,
    how: Reference,
    opening: int | None,
    ranking: tuple[float, float | None],
) -> None:
    rules, script = TIMED if timed else PLAIN, random_script(seed, eot_bonus=2.0)
    greedy = run_search(TokenSearch(PROMPT, rules, GREEDY), ScriptedDecoder(script)).best.tokens
    right = [token for token in greedy if token < EOT][: data.draw(st.integers(0, 9))]
    before, after = (data.draw(st.lists(st.integers(0, 19), max_size=3)) for _ in range(2))
    was = [*before, *right, *after, *right][:14]
    times, (patience, penalty) = data.draw(TIMES), ranking
    drafts = [heard(was, rules, replace(how, block=block), times, opening) for block in (True, False)]
    found, expected = (
        run_search(
            TokenSearch(PROMPT, rules, Beam(beam, patience), draft=draft, length_penalty=penalty),
            ScriptedDecoder(script),
        )
        for draft in drafts
    )
    assert found.best.tokens == expected.best.tokens
    assert found.best.stop == expected.best.stop
    assert found.no_speech_prob == pytest.approx(expected.no_speech_prob)
    assert found.best.sum_logprob == pytest.approx(expected.best.sum_logprob, abs=1e-4)
    assert [other.tokens for other in found.others] == [other.tokens for other in expected.others]
    assert found.steps.runs <= expected.steps.runs
    if beam == 1:
        assert found.best.tokens == greedy


def test_a_draft_from_another_place_seeds_the_full_beam() -> None:
    """The block is drafted from the text's start; by time the first match is further on, so what follows leaves it."""
    rules, script = TIMED, random_script(394, eot_bonus=2.0)
    how, times = Reference(align="time", recover=False), [1, *[0] * 13]
    drafts = [heard([0, 8, 11, 0, 8, 11], rules, replace(how, block=block), times) for block in (True, False)]
    found, expected = (
        run_search(TokenSearch(PROMPT, rules, Beam(3), draft=draft), ScriptedDecoder(script)) for draft in drafts
    )
    assert [other.tokens for other in found.others] == [other.tokens for other in expected.others]


def test_a_window_takes_a_run_for_each_segment() -> None:
    prompt = Prompt(PROMPT.tokens, PROMPT.sot_index, limit=20)
    said = [TIME, 0, 1, TIME + 4, TIME + 4, 2, 3, TIME + 9]
    decoder = ScriptedDecoder(telling(prompt.tokens, said))
    found = run_search(TokenSearch(prompt, TIMED, Beam(5), draft=heard([0, 1, 2, 3], TIMED)), decoder)
    assert found.best.tokens == tuple(said)
    assert blocks(decoder) == [[], [TIME, 0, 1, 2, 3], [TIME + 4, TIME + 4, 2, 3], [TIME + 9]]
    assert found.steps == Steps(4, 4, 4, prompts=1)


def test_a_text_of_one_word_is_drafted_too() -> None:
    for opening, first in ((TIME + 1, [TIME + 1, 0]), (None, [])):
        decoder = ScriptedDecoder(telling(PROMPT.tokens, [TIME + 1, 0, TIME + 4]))
        found = run_search(TokenSearch(PROMPT, TIMED, GREEDY, draft=heard([0], TIMED, opening=opening)), decoder)
        assert found.best.tokens == (TIME + 1, 0, TIME + 4)
        assert blocks(decoder)[0] == first


def test_a_later_block_is_cut_at_the_limit_too() -> None:
    decoder = ScriptedDecoder(telling(PROMPT.tokens, [TIME, *[0] * 30]))
    found = run_search(TokenSearch(PROMPT, TIMED, GREEDY, draft=heard([0] * 30, TIMED)), decoder)
    assert found.best.stop == "length"
    assert blocks(decoder) == [[], [TIME, *[0] * (PROMPT.limit - 2)]]  # the last token sampled is never fed


def test_a_known_opening_goes_with_the_prompt() -> None:
    said = [TIME + 1, 0, 1, TIME + 4]
    decoder = ScriptedDecoder(telling(PROMPT.tokens, said))
    found = run_search(TokenSearch(PROMPT, TIMED, Beam(5), draft=heard([0, 1], TIMED, opening=TIME + 1)), decoder)
    assert found.best.tokens == tuple(said)
    assert blocks(decoder) == [[TIME + 1, 0, 1], [TIME + 4]]
    decoder = ScriptedDecoder(telling(PROMPT.tokens, said))
    found = run_search(TokenSearch(PROMPT, TIMED, Beam(5), draft=heard([0, 1], TIMED, opening=TIME + 2)), decoder)
    assert found.best.tokens == tuple(said)
    assert blocks(decoder) == [[TIME + 2, 0, 1], [TIME + 1, 0, 1], [TIME + 4]]


def test_the_first_departure_seeds_the_full_beam() -> None:
    decoder = ScriptedDecoder(telling(PROMPT.tokens, [0, 1, 2, 7, 5, 6]))
    draft = heard([0, 1, 2, 3, 4], PLAIN, Reference(recover=False, block=True))
    found = run_search(TokenSearch(PROMPT, PLAIN, Beam(3), draft=draft), decoder)
    assert found.best.tokens == (0, 1, 2, 7, 5, 6)
    assert blocks(decoder)[:2] == [[0, 1, 2, 3, 4], [7]]
    assert decoder.requests[1].parents == (0, 0, 0)
    assert {row[: len(PROMPT.tokens) + 3] for row in decoder.cache} == {(*PROMPT.tokens, 0, 1, 2)}


def test_what_is_left_is_the_next_block_once_the_leader_is_back() -> None:
    decoder = ScriptedDecoder(telling(PROMPT.tokens, [0, 7, 2, 3, 4, 5]))
    found = run_search(TokenSearch(PROMPT, PLAIN, Beam(3), draft=heard([0, 1, 2, 3, 4, 5], PLAIN)), decoder)
    assert found.best.tokens == (0, 7, 2, 3, 4, 5)
    assert [len(request.tokens) for request in decoder.requests] == [1, 3, 3, 1]
    assert blocks(decoder)[3] == [3, 4, 5]


def test_a_mark_more_or_less_costs_one_run() -> None:
    decoder = ScriptedDecoder(telling(PROMPT.tokens, [0, MARK, 1, 2, 3]))
    found = run_search(TokenSearch(PROMPT, PLAIN, Beam(3), draft=heard([0, 1, 2, MARK, 3], PLAIN)), decoder)
    assert found.best.tokens == (0, MARK, 1, 2, 3)
    assert found.steps.rows == found.steps.runs
    assert blocks(decoder) == [[0, 1, 2, MARK, 3], [MARK, 1, 2, MARK, 3], [3]]
