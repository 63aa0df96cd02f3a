"""A beam search that ends when its text is as long as expected, and how unsure a search is of its first token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripted_decoder import (
    EOT,
    NO_TIMESTAMPS,
    SIZE,
    SOT,
    SPECIALS,
    VOCABULARY,
    ScriptedDecoder,
    random_script,
    telling,
)
from whispertide.decoding.accept import Beam
from whispertide.decoding.draft import Reference
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import SearchResult, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.methods.pilot.first_entropy import FirstEntropy
from whispertide.methods.pilot.length_cap import Capped, expected_length

PROMPT = Prompt((SOT,), sot_index=0, limit=12)
RULES = Rules(VOCABULARY, suppressed=(*SPECIALS, NO_TIMESTAMPS, *range(NO_TIMESTAMPS + 1, SIZE)))
seeds = st.integers(0, 5000)


def searched(seed: int, cap: int | None, beam: int = 4, reference: Reference | None = None) -> SearchResult:
    draft = None if reference is None else reference.draft(None, RULES)  # type: ignore[arg-type]
    decoder = ScriptedDecoder(random_script(seed))
    return run_search(
        TokenSearch(PROMPT, RULES, Beam(beam), end=None if cap is None else Capped(cap), draft=draft), decoder
    )


def test_the_expected_length_grows_with_the_audio() -> None:
    assert expected_length(8, 16_000, 32_000) == 21
    assert expected_length(8, 16_000, 16_000, allowance=0) == 8


@pytest.mark.slow
@given(seed=seeds)
def test_without_a_cap_or_with_a_far_one_it_is_the_plain_search(seed: int) -> None:
    plain = run_search(TokenSearch(PROMPT, RULES, Beam(4)), ScriptedDecoder(random_script(seed)))
    assert searched(seed, None) == searched(seed, 99) == plain


@given(seed=seeds, cap=st.integers(1, 8))
def test_from_the_cap_on_the_first_text_that_ends_is_enough(seed: int, cap: int) -> None:
    plain, capped = searched(seed, None), searched(seed, cap)
    assert capped.steps.runs <= plain.steps.runs
    lengths = sorted(len(each.tokens) for each in (plain.best, *plain.others) if each.stop == "end_of_text")
    if lengths:  # it goes on to the cap, or to the first text after that
        assert capped.steps.runs <= max(cap, lengths[0]) + 1
        assert capped.best.stop == "end_of_text"


def test_a_cap_saves_runs() -> None:
    runs = [(searched(seed, None).steps.runs, searched(seed, 2).steps.runs) for seed in range(40)]
    assert sum(capped for _, capped in runs) < 0.7 * sum(plain for plain, _ in runs)


@pytest.mark.slow
@given(seed=seeds, wrong=st.integers(0, 19))
def test_a_wrong_reference_leaves_the_full_beam(seed: int, wrong: int) -> None:
    """Where it diverges at the first token nothing is lost by it."""
    plain = searched(seed, None)
    first = min((each.tokens[:1] for each in (plain.best, *plain.others)), default=())
    if first == (wrong,):
        return
    likeliest = int(np.argmax(random_script(seed)(PROMPT.tokens)[:20]))
    if likeliest != wrong:
        assert searched(seed, None, reference=Reference.exactly((wrong,))).best == plain.best


def test_a_right_reference_is_checked_in_one_run() -> None:
    decoder = ScriptedDecoder(telling(PROMPT.tokens, (3, 4, 5, 6)))
    draft = Reference.exactly((3, 4, 5, 6)).draft(None, RULES)  # type: ignore[arg-type]
    found = run_search(TokenSearch(PROMPT, RULES, Beam(4), draft=draft, end=Capped(4)), decoder)
    assert found.best.tokens == (3, 4, 5, 6)
    assert found.steps.runs == 1  # the end is in it: one hypothesis has ended, and that is as long as expected


@pytest.mark.parametrize("tokens", [(), (3, 4)])
def test_the_entropy_of_the_first_token_is_that_of_all_that_it_could_have_been(tokens: tuple[int, ...]) -> None:
    script = random_script(7)
    draft = Reference.exactly(tokens).draft(None, RULES)  # type: ignore[arg-type]
    search = FirstEntropy(TokenSearch(PROMPT, RULES, Beam(3), draft=draft), PROMPT)
    run_search(search, ScriptedDecoder(script))
    shares = np.exp(script(PROMPT.tokens).astype(np.float64))
    shares /= shares.sum()
    assert search.entropy == pytest.approx(-(shares * np.log(shares)).sum(), rel=1e-4)
    assert EOT < SIZE
