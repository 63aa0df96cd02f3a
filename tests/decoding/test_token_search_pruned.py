"""A text to follow prunes the beam: greedy along what was heard, the full beam where that ends. On scripted logits."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from scripted_decoder import (
    EOT,
    SIZE,
    SOT,
    SOT_PREV,
    SPECIALS,
    TIME,
    VOCABULARY,
    Script,
    ScriptedDecoder,
    one_hot,
    random_script,
    telling,
)
from whispertide.decoding.accept import GREEDY, Beam, Sampling
from whispertide.decoding.draft import Align, Draft, Expected, Follower, Reference
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import SearchResult, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.types import FloatArray

PROMPT = Prompt((SOT_PREV, 2, SOT), sot_index=2, limit=9)
PLAIN = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,))
TIMED = Rules(VOCABULARY, suppressed=SPECIALS, blank=(EOT,), timestamps=True, max_initial_index=3)
CAPITAL, MARK = 8, 16  # 0 to 7 are pieces, 8 to 15 the same ones with a capital letter, 16 to 19 punctuation

ALIGNMENTS: tuple[Align, ...] = ("bigram", "time", "first")
RANKINGS = st.fixed_dictionaries(
    {"patience": st.sampled_from([1.0, 1.6]), "length_penalty": st.sampled_from([None, 0.0, 1.0])}
)
HOW = st.builds(Reference, align=st.sampled_from(ALIGNMENTS), recover=st.booleans())
DraftOf = Callable[[Rules], Draft | None]


def key(token: int) -> int | None:
    return token % CAPITAL if token < MARK else None


def heard(tokens: Sequence[int], how: Reference | None = None, times: Sequence[int] = ()) -> DraftOf:
    """A draft for each search; none where nothing speaks, as `Reference.draft` has it."""

    def draft(rules: Rules) -> Follower | None:
        follower = Follower(tokens, rules, how or Reference(), key, times=times)
        return follower if follower.speaks else None

    return draft


def pruned(
    script: Script, was: DraftOf, rules: Rules = PLAIN, beam: int = 3, patience: float = 1.0, **options: Any
) -> tuple[SearchResult, list[int]]:
    """The result, and the rows of every run."""
    decoder = ScriptedDecoder(script)
    search = TokenSearch(PROMPT, rules, Beam(beam, patience), draft=was(rules), **options)
    result = run_search(search, decoder)
    return result, [len(request.tokens) for request in decoder.requests]


def full_beam(script: Script, rules: Rules, beam: int, patience: float, **ranking: Any) -> SearchResult:
    return run_search(TokenSearch(PROMPT, rules, Beam(beam, patience), **ranking), ScriptedDecoder(script))


def same(found: SearchResult, expected: SearchResult) -> None:
    assert found.best.tokens == expected.best.tokens
    assert found.best.stop == expected.best.stop
    assert found.best.sum_logprob == pytest.approx(expected.best.sum_logprob, abs=1e-4)
    assert found.no_speech_prob == pytest.approx(expected.no_speech_prob)


# --- what it promises -------------------------------------------------------------------------------------------------


@quick(50)
@given(seed=st.integers(0, 100_000), timed=st.booleans(), beam=st.integers(1, 5), how=HOW)
def test_the_truth_prunes_everything(seed: int, timed: bool, beam: int, how: Reference) -> None:
    rules, script = TIMED if timed else PLAIN, random_script(seed, eot_bonus=2.0)
    greedy = run_search(TokenSearch(PROMPT, rules, GREEDY), ScriptedDecoder(script))
    said = [token for token in greedy.best.tokens if token < EOT]  # words have no timestamps
    assume(heard(said)(rules))
    found, rows = pruned(script, heard(said, how), rules, beam)
    same(found, greedy)
    assert set(rows) == {1}
    assert found.steps == greedy.steps


@given(
    seed=st.integers(0, 100_000),
    timed=st.booleans(),
    beam=st.integers(1, 5),
    nothing=st.lists(st.integers(MARK, 19), max_size=2),
    ranking=RANKINGS,
)
def test_nothing_heard_is_the_full_beam(
    seed: int, timed: bool, beam: int, nothing: list[int], ranking: dict[str, Any]
) -> None:
    rules, script = TIMED if timed else PLAIN, random_script(seed, spread=1.5, eot_bonus=2.0)
    full = full_beam(script, rules, beam, **ranking)
    found, _ = pruned(script, heard(nothing), rules, beam, **ranking)
    same(found, full)
    assert found.steps == full.steps
    assert [other.tokens for other in found.others] == [other.tokens for other in full.others]


@given(data=st.data(), seed=st.integers(0, 100_000), beam=st.integers(1, 5))
def test_after_what_was_heard_it_is_the_full_beam(data: st.DataObject, seed: int, beam: int) -> None:
    rules, script = Rules(VOCABULARY, suppressed=SPECIALS), random_script(seed, spread=1.5, eot_bonus=1.0)
    greedy = run_search(TokenSearch(PROMPT, rules, GREEDY), ScriptedDecoder(script)).best.tokens
    assume(greedy)
    known = greedy[: data.draw(st.integers(1, len(greedy)))]
    # A penalty of 0 ranks by the sum alone, which a common beginning does not change.
    found, _ = pruned(script, lambda _: Expected(tuple(known)), rules, beam, length_penalty=0.0)
    prompt = Prompt((*PROMPT.tokens, *known), PROMPT.sot_index, PROMPT.limit - len(known))
    if prompt.limit:
        forced = TokenSearch(prompt, rules, Beam(beam), length_penalty=0.0)
        rest = run_search(forced, ScriptedDecoder(script)).best.tokens
    else:
        rest = ()
    assert found.best.tokens == (*known, *rest)


# --- selective matching -----------------------------------------------------------------------------------------------


@each_row("said", [[0, 1, 2], [0, MARK, 1, 2], [0, 1 + CAPITAL, 2], [MARK, 0 + CAPITAL, 1, MARK, MARK + 1, 2, MARK]])
@each_row("was", [[0, 1, 2], [0, MARK + 2, 1, 2 + CAPITAL], [0, 1, 2, MARK]])
def test_case_and_punctuation_cause_no_fallback(said: list[int], was: list[int]) -> None:
    found, rows = pruned(telling(PROMPT.tokens, said), heard(was))
    assert found.best.tokens == tuple(said)
    assert set(rows) == {1}


def test_timestamps_are_the_searchs_own_affair() -> None:
    said = [TIME, 0, 1, TIME + 4, TIME + 4, 2, 3, TIME + 9]
    found, rows = pruned(telling(PROMPT.tokens, said), heard([0, 1, 2, 3]), TIMED)
    assert found.best.tokens == tuple(said)
    assert set(rows) == {1}


@pytest.mark.parametrize("was", [[0, 1], [0, 1, 2, 3]])
def test_end_of_text_is_accepted_and_ends_the_search(was: list[int]) -> None:
    found, rows = pruned(telling(PROMPT.tokens, [0, 1]), heard(was))
    assert found.best.tokens == (0, 1)
    assert found.best.stop == "end_of_text"
    assert rows == [1, 1, 1]


# --- leaving and coming back ------------------------------------------------------------------------------------------


def test_a_word_that_was_not_heard_widens_the_beam_until_two_that_were() -> None:
    story = telling(PROMPT.tokens, [0, 1, 7, 3, 4, 5, 6])
    _, rows = pruned(story, heard([0, 1, 2, 3, 4, 5, 6]))
    assert rows == [1, 1, 1, 3, 3, 1, 1, 1]  # the run after 1 finds 7; the one after 3 finds 4, the second of "3 4"
    _, rows = pruned(story, heard([0, 1, 2, 3, 4, 5, 6], Reference(recover=False)))
    assert rows[:3] == [1, 1, 1]
    assert set(rows[3:]) == {3}


@pytest.mark.parametrize("align", ["time", "first"])
def test_the_step_that_left_is_wide_even_where_its_token_is_elsewhere_in_the_text(align: Align) -> None:
    _, rows = pruned(telling(PROMPT.tokens, [0, 3, 4, 5]), heard([0, 1, 2, 3, 4, 5], Reference(align=align)))
    assert rows == [1, 1, 3, 1, 1]  # the run after 0 finds 3; the one after that finds its place again


def test_the_candidates_of_the_step_that_left_seed_the_beam() -> None:
    def script(seen: tuple[int, ...]) -> FloatArray:
        logits = np.full(SIZE, -9.0, np.float32)
        said = seen[len(PROMPT.tokens) :]
        if not said:
            logits[0] = 5.0
        elif said == (0,):
            logits[[6, 2]] = 0.1, 0.0  # 6 looks better at first
        elif said == (0, 2):
            logits[EOT] = 5.0
        else:
            logits[:10] = 0.0  # but nobody knows how to go on from it
        return logits

    assert pruned(script, heard([0, 1]), beam=2)[0].best.tokens == (0, 2)
    assert pruned(script, heard([0, 6]), beam=2)[0].best.tokens[:2] == (0, 6)


@pytest.mark.parametrize(("align", "widest"), [("first", 3), ("bigram", 1), ("time", 1)])
def test_a_common_word_misleads_the_first_match_alone(align: Align, widest: int) -> None:
    was = heard([0, 1, 2, 0, 3, 4], Reference(align=align, recover=False), times=(-140, -130, -120, 2, 8, 12))
    found, rows = pruned(telling(PROMPT.tokens, [TIME + 2, 0, 3, 4, TIME + 9]), was, TIMED)
    assert found.best.tokens == (TIME + 2, 0, 3, 4, TIME + 9)
    assert max(rows) == widest


def test_a_word_that_nobody_heard_widens_the_beam_at_once() -> None:
    _, rows = pruned(telling(PROMPT.tokens, [5, 6]), heard([0, 1], Reference(recover=False)))
    assert rows[0] == 1
    assert set(rows[1:]) == {3}


# --- the rest of a search ---------------------------------------------------------------------------------------------


def test_a_narrow_search_stops_at_its_limit() -> None:
    found, rows = pruned(lambda seen: one_hot(3), heard([3] * 20))
    assert found.best.tokens == (3,) * PROMPT.limit
    assert found.best.stop == "length"
    assert set(rows) == {1}


def test_guards_watch_the_one_row() -> None:
    class KeepTwo:
        def check(self, tokens: Any, attention: FloatArray | None, logprob: float) -> int | None:
            return 2 if len(tokens) == 3 else None

    story, was = telling(PROMPT.tokens, [3, 1, 4, 5]), heard([3, 1, 4, 5])
    for found, _ in (pruned(story, was, guards=[KeepTwo()]), sampled(story, was, guards=[KeepTwo()])):
        assert found.best.tokens == (3, 1)
        assert found.best.stop == "guard"


# --- sampling ---------------------------------------------------------------------------------------------------------


def sampled(
    script: Script, was: DraftOf | None = None, seed: int = 0, **options: Any
) -> tuple[SearchResult, list[int]]:
    decoder = ScriptedDecoder(script)
    accept = Sampling(1.0, 4, np.random.default_rng(seed))
    search = TokenSearch(PROMPT, PLAIN, accept, draft=was and was(PLAIN), **options)
    result = run_search(search, decoder)
    return result, [len(request.tokens) for request in decoder.requests]


@each_row("seed", range(5))
def test_sampling_with_nothing_heard_is_plain_sampling(seed: int) -> None:
    script = random_script(11, eot_bonus=4.0)
    for penalty in (None, 0.0, 1.0):
        found, rows = sampled(script, heard([]), seed=seed, length_penalty=penalty)
        plain, expected = sampled(script, seed=seed, length_penalty=penalty)
        assert (found.best.tokens, rows) == (plain.best.tokens, expected)


def test_sampling_takes_one_row_along_what_was_heard() -> None:
    found, rows = sampled(telling(PROMPT.tokens, [3, 1, 4]), heard([3, 1, 4]))
    assert found.best.tokens == (3, 1, 4)
    assert rows == [1, 1, 1, 1]


def test_sampling_takes_all_rows_from_where_it_leaves() -> None:
    found, rows = sampled(telling(PROMPT.tokens, [3, 1, 4, 5]), heard([3, 1, 7]))
    assert found.best.tokens == (3, 1, 4, 5)
    assert rows == [1, 1, 1, 4, 4]
    assert len(found.others) == 3


@pytest.mark.slow
def test_a_pruned_sample_is_drawn_as_fairly_as_any() -> None:
    def script(seen: tuple[int, ...]) -> FloatArray:
        if len(seen) > len(PROMPT.tokens):
            return one_hot(EOT)
        logits = np.full(SIZE, -np.inf, np.float32)
        logits[[3, 5]] = np.log([0.3, 0.7])
        return logits

    first = []
    for seed in range(600):
        accept = Sampling(1.0, 2, np.random.default_rng(seed))
        search = TokenSearch(PROMPT, PLAIN, accept, draft=heard([3])(PLAIN))
        decoder = ScriptedDecoder(script)
        search.feed(decoder.run(search.next()))
        first.append(search.next().tokens[0, 0])
    assert np.mean(np.array(first) == 3) == pytest.approx(0.3, abs=0.06)
