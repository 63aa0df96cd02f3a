"""Prefix scores of CTC against the sum over all paths, and a pilot's sums taken over."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whispertide.understand.ctc_prefix import Prefixes, Sums, beginnings, empty, longer

BLANK = 2


def posteriors(seed: int, frames: int, tokens: int = 2) -> Sums:
    logits = 2 * np.random.default_rng(seed).standard_normal((frames, tokens + 1))
    return np.asarray(logits - np.logaddexp.reduce(logits, axis=1)[:, None])


def text_of(path: tuple[int, ...]) -> tuple[int, ...]:
    merged = [label for at, label in enumerate(path) if at == 0 or label != path[at - 1]]
    return tuple(label for label in merged if label != BLANK)


def by_force(scores: Sums) -> dict[tuple[int, ...], float]:
    """The log probability of every text."""
    texts: dict[tuple[int, ...], float] = {}
    for path in product(range(scores.shape[1]), repeat=len(scores)):
        said = float(scores[np.arange(len(scores)), path].sum())
        texts[text_of(path)] = float(np.logaddexp(texts.get(text_of(path), -np.inf), said))
    return texts


def extended(
    scores: Sums, prefix: Prefixes, tokens: list[int], known: Prefixes | None = None, until: int = 0
) -> Prefixes:
    """One prefix, longer by each of these."""
    chosen = np.array(tokens)
    totals = beginnings(scores, prefix, chosen[None], 0, len(scores))[0]
    return longer(scores, prefix, np.zeros(len(tokens), np.int64), chosen, totals, known, until)


def prefix_of(scores: Sums, tokens: tuple[int, ...]) -> Prefixes:
    prefix = empty(scores)
    for token in tokens:
        prefix = extended(scores, prefix, [token])
    return prefix


@given(st.integers(0, 10**6), st.integers(1, 6), st.lists(st.integers(0, 1), max_size=4).map(tuple))
def test_totals_are_sums_over_all_paths(seed: int, frames: int, tokens: tuple[int, ...]) -> None:
    scores = posteriors(seed, frames)
    texts = by_force(scores)
    prefix = prefix_of(scores, tokens)
    begun = [value for text, value in texts.items() if text[: len(tokens)] == tokens]
    expected = np.logaddexp.reduce(begun) if begun else -np.inf
    np.testing.assert_allclose(prefix.totals, [expected], atol=1e-9)
    np.testing.assert_allclose(prefix.wholes, [texts.get(tokens, -np.inf)], atol=1e-9)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.integers(200, 750), st.sampled_from([1.0, 30.0]))
def test_long_and_sharp_posteriors_frame_by_frame(seed: int, frames: int, sharp: float) -> None:
    logits = sharp * np.random.default_rng(seed).standard_normal((frames, 4))
    logits[5:20, 1] = -np.inf
    scores = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    prefix = extended(scores, empty(scores), [0, 1, 2]).row(2)
    found = extended(scores, prefix, [1])
    before = np.logaddexp(prefix.in_token, prefix.in_blank)[0]
    said, in_token, in_blank = scores[:, 1], [-np.inf], [-np.inf]
    for t in range(1, frames):
        in_blank.append(np.logaddexp(in_token[-1], in_blank[-1]) + scores[t, -1])
        in_token.append(np.logaddexp(in_token[-1], before[t - 1]) + said[t])
    np.testing.assert_allclose(found.in_token[0], in_token, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.in_blank[0], in_blank, rtol=1e-8, atol=1e-8)


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(0, 9))
def test_many_tokens_at_once_are_each_alone(seed: int, frames: int, more: int) -> None:
    scores = posteriors(seed, frames, 5)
    prefix = prefix_of(scores, (3, 1)[: more % 3])
    together = extended(scores, prefix, [0, 1, 2, 3, 4])
    for token in range(5):
        alone = extended(scores, prefix, [token])
        np.testing.assert_allclose(together.row(token).in_token, alone.in_token)
        np.testing.assert_allclose(together.row(token).totals, alone.totals)


@given(st.integers(0, 10**6), st.integers(2, 9))
def test_many_prefixes_at_once_are_each_alone(seed: int, frames: int) -> None:
    scores = posteriors(seed, frames, 5)
    several, tokens = extended(scores, empty(scores), [2, 4, 0]), np.array([[1, 2], [4, 0], [3, 3]])
    totals = beginnings(scores, several, tokens, 0, len(scores))
    chosen = longer(scores, several, np.array([1, 1, 0]), np.array([0, 4, 2]), totals[[1, 1, 0], [1, 0, 1]])
    for at, text in enumerate(((4, 0), (4, 4), (2, 2))):
        alone = prefix_of(scores, text)
        np.testing.assert_allclose(chosen.row(at).in_token, alone.in_token, atol=1e-9)
        np.testing.assert_allclose(chosen.row(at).in_blank, alone.in_blank, atol=1e-9)
        np.testing.assert_allclose(chosen.row(at).totals, alone.totals, atol=1e-9)


@given(st.integers(0, 10**6), st.integers(3, 9), st.integers(0, 5), st.integers(0, 12))
def test_a_leap_over_the_same_frames_loses_nothing(seed: int, frames: int, more: int, until: int) -> None:
    scores = posteriors(seed, frames + more, 4)
    pilot = scores[:frames]
    for said in ((), (2,), (2, 1)):
        known = extended(pilot, prefix_of(pilot, said), [0, 2, 3])
        anew = extended(scores, prefix_of(scores, said), [0, 2, 3])
        leapt = extended(scores, prefix_of(scores, said), [0, 2, 3], known, until)
        np.testing.assert_allclose(leapt.in_token, anew.in_token, atol=1e-9)
        np.testing.assert_allclose(leapt.in_blank, anew.in_blank, atol=1e-9)


def test_a_leap_takes_the_early_frames_of_the_pilot() -> None:
    scores, pilot = posteriors(1, 8, 4), posteriors(2, 6, 4)
    known = extended(pilot, empty(pilot), [1, 2])
    leapt = extended(scores, empty(scores), [1, 2], known, 4)
    np.testing.assert_array_equal(leapt.in_token[:, :4], known.in_token[:, :4])
    assert np.abs(leapt.in_token[:, 5] - extended(scores, empty(scores), [1, 2]).in_token[:, 5]).max() > 1e-3


def test_another_prefix_is_refused() -> None:
    scores = posteriors(1, 8, 4)
    known = extended(scores, empty(scores), [1, 2])
    with pytest.raises(ValueError, match="same tokens"):
        extended(scores, empty(scores), [1, 3], known, 4)
    with pytest.raises(ValueError, match="prefixes as long"):
        extended(scores, prefix_of(scores, (0,)), [1, 2], known, 4)
