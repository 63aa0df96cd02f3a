"""CTC prefix scores and the hybrid beam search, against all paths and all texts of toy posteriors."""

from itertools import groupby, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whispertide.decoding.ctc import Leap, Prefix, PrefixScorer
from whispertide.decoding.ctc_beam import BeamOptions, Ended, HybridBeam, ends
from whispertide.errors import OptionError

BLANK, A, B, EOS = range(4)
Floats = npt.NDArray[np.float64]
seeds = st.integers(0, 10_000)


def posteriors(seed: int, frames: int, tokens: int = 3) -> Floats:
    """Random log-probabilities [frames, tokens]."""
    logits = np.random.default_rng(seed).normal(0, 2, (frames, tokens))
    return np.asarray(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))


def collapsed(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(token for token, _ in groupby(path) if token != BLANK)


def all_texts(x: Floats) -> dict[tuple[int, ...], float]:
    """Every text and its probability: the sum over all paths that say it."""
    found: dict[tuple[int, ...], float] = {}
    for path in product(range(x.shape[1]), repeat=len(x)):
        text = collapsed(path)
        found[text] = found.get(text, 0.0) + float(np.exp(x[range(len(x)), path].sum()))
    return found


def prefix(scorer: PrefixScorer, tokens: tuple[int, ...]) -> Prefix:
    found = scorer.empty()
    for token in tokens:
        [found] = scorer.extend(found, [token])
    return found


@settings(max_examples=25, deadline=None)
@given(seed=seeds, frames=st.integers(1, 5))
def test_scores_are_sums_over_all_paths(seed: int, frames: int) -> None:
    x = posteriors(seed, frames)
    texts, scorer = all_texts(x), PrefixScorer(x, BLANK)
    for length in range(4):
        for tokens in product((A, B), repeat=length):
            found = prefix(scorer, tokens)
            whole = texts.get(tokens, 0.0)
            begun = sum(share for text, share in texts.items() if text[:length] == tokens)
            assert np.exp(found.whole) == pytest.approx(whole, abs=1e-12)
            assert np.exp(found.score) == pytest.approx(begun, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, share=st.floats(0.5, 1.0), more=st.integers(0, 4))
def test_a_leap_over_the_same_posteriors_changes_nothing(seed: int, share: float, more: int) -> None:
    """The pilot heard the beginning of what is there now."""
    x = posteriors(seed, 8 + more)
    pilot, whole = PrefixScorer(x[:8], BLANK), PrefixScorer(x, BLANK)
    texts = [tokens for length in range(1, 4) for tokens in product((A, B), repeat=length)]
    leap = Leap.over({tokens: prefix(pilot, tokens) for tokens in texts}, share)
    assert leap.frame == int(share * 8)
    for tokens in texts:
        expected = prefix(whole, tokens)
        [found] = whole.extend(prefix(whole, tokens[:-1]), tokens[-1:], leap)
        np.testing.assert_allclose(found.ending, expected.ending, rtol=1e-12)
        np.testing.assert_allclose(found.blank, expected.blank, rtol=1e-12)
        assert found.score == pytest.approx(expected.score)


def test_without_the_sums_up_to_it_a_leap_would_lose_most_of_the_score() -> None:
    """What the paper leaves out: a token is mostly said in frames that are leapt over."""
    x = np.log(np.array([[0.1, 0.8, 0.1]] * 3 + [[0.9, 0.05, 0.05]] * 5))
    scorer = PrefixScorer(x, BLANK)
    [exact] = scorer.extend(scorer.empty(), [A])
    after = np.logaddexp.reduce(scorer.empty().blank[4:-1] + x[5:, A])
    assert exact.score > after + 5
    [leapt] = scorer.extend(scorer.empty(), [A], Leap({(A,): exact}, 5))
    assert leapt.score == pytest.approx(exact.score)


def test_a_leap_needs_to_know_all_tokens() -> None:
    x = posteriors(1, 6)
    scorer = PrefixScorer(x, BLANK)
    wrong = Prefix((A,), *(np.zeros(6) for _ in range(3)))
    found = scorer.extend(scorer.empty(), [A, B], Leap({(A,): wrong}, 6))
    assert [each.score for each in found] == [each.score for each in scorer.extend(scorer.empty(), [A, B])]


# --- the search -------------------------------------------------------------------------------------------------------


def attention(seed: int, tokens: tuple[int, ...]) -> Floats:
    """What a decoder would say after `tokens`."""
    logits = np.random.default_rng([seed, *tokens]).normal(0, 2, 4)
    logits[BLANK] = -np.inf
    return np.asarray(logits - np.logaddexp.reduce(logits))


def run(search: HybridBeam, seed: int) -> Ended:
    while not search.feed(np.stack([attention(seed, tokens) for tokens in search.rows])):
        pass
    return search.result()


def scored(seed: int, x: Floats, tokens: tuple[int, ...], weight: float) -> float:
    found = prefix(PrefixScorer(x, BLANK), tokens).whole
    said = sum(attention(seed, tokens[:place])[token] for place, token in enumerate((*tokens, EOS)))
    return float((1 - weight) * said + (weight * found if weight else 0.0))


@settings(max_examples=25, deadline=None)
@given(seed=seeds, weight=st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_a_wide_beam_finds_the_best_of_all_texts(seed: int, weight: float) -> None:
    x = posteriors(seed, 5)
    every = [tokens for length in range(5) for tokens in product((A, B), repeat=length)]
    best = max(every, key=lambda tokens: scored(seed, x, tokens, weight))
    options = BeamOptions(beam=100, ctc=weight, pre_beam=None, limit=5)
    found = run(HybridBeam(PrefixScorer(x, BLANK), EOS, options), seed)
    assert found.tokens == best
    assert found.score == pytest.approx(scored(seed, x, best, weight))


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_a_reference_that_the_search_finds_makes_it_narrow_and_changes_nothing(seed: int) -> None:
    x = posteriors(seed, 6)
    options = BeamOptions(beam=1, limit=6)  # so the text is what always leads
    alone = HybridBeam(PrefixScorer(x, BLANK), EOS, options)
    text = run(alone, seed)
    wide = BeamOptions(beam=3, limit=6)
    followed = HybridBeam(PrefixScorer(x, BLANK), EOS, wide, reference=text.tokens)
    for place in range(len(text.tokens)):
        followed.feed(np.stack([attention(seed, tokens) for tokens in followed.rows]))
        assert followed.rows == [text.tokens[: place + 1]]


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_a_wrong_reference_leaves_the_full_search(seed: int) -> None:
    x = posteriors(seed, 6)
    plain = HybridBeam(PrefixScorer(x, BLANK), EOS, BeamOptions(beam=3, limit=6))
    misled = HybridBeam(PrefixScorer(x, BLANK), EOS, BeamOptions(beam=3, limit=6), reference=(99,))
    assert run(misled, seed) == run(plain, seed)
    assert misled.runs == plain.runs


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_a_search_that_leaps_over_the_same_posteriors_finds_the_same(seed: int) -> None:
    x = posteriors(seed, 8)
    options = BeamOptions(beam=3, limit=8)
    pilot = HybridBeam(PrefixScorer(x, BLANK), EOS, options)
    text = run(pilot, seed)
    reference = text.tokens
    leaps = HybridBeam(PrefixScorer(x, BLANK), EOS, options, reference, Leap.over(pilot.known, 1.0))
    alone = HybridBeam(PrefixScorer(x, BLANK), EOS, options, reference)
    leapt, plain = run(leaps, seed), run(alone, seed)
    assert leapt.tokens == plain.tokens
    assert leapt.score == pytest.approx(plain.score)


def test_the_end_is_detected_when_three_lengths_in_a_row_are_much_worse_than_the_best() -> None:
    texts = [Ended((A,) * length, score) for length, score in enumerate((-9.0, -1.0, -12.0, -13.0, -14.0))]
    assert ends(texts, 4)
    assert not ends(texts, 3)  # two of them
    assert not ends([*texts, Ended((B,) * 3, -10.9)], 4)
    assert not ends([text for text in texts if len(text.tokens) != 3], 4)  # of one length nothing has ended
    assert not ends([], 4)


def test_a_cap_ends_the_search_with_the_first_text_from_there_on() -> None:
    x = posteriors(5, 8)
    plain = HybridBeam(PrefixScorer(x, BLANK), EOS, BeamOptions(beam=4, limit=8))
    capped = HybridBeam(PrefixScorer(x, BLANK), EOS, BeamOptions(beam=4, limit=8, cap=2))
    run(plain, 5)
    run(capped, 5)
    assert capped.ended
    assert capped.runs < plain.runs


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="posteriors"):
        PrefixScorer(np.zeros((0, 3)), BLANK)
    with pytest.raises(ValueError, match="share"):
        Leap.over({}, 2.0)
    with pytest.raises(OptionError, match="beam >= 1"):
        BeamOptions(beam=0)
    with pytest.raises(ValueError, match="1 rows"):
        HybridBeam(PrefixScorer(np.zeros((2, 3)), BLANK), EOS).feed(np.zeros((2, 4)))
