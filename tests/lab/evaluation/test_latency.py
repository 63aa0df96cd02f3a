"""Latencies by hand; a retraction restarts a word's clock."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from evaluation_traces import pieces, reference, trace
from whispertide_lab.evaluation.latency import (
    Latencies,
    Sighting,
    final_word_s,
    first_shown_s,
    first_text_s,
    laal_s,
    last_shown_s,
    match_prefix,
    sightings,
    summarise,
    word_latencies,
)
from whispertide_lab.evaluation.trace import Shown, Trace
from whispertide_lab.evaluation.views import Viewing, look
from whispertide_lab.evaluation.wer import align
from whispertide_lab.speech.utterance import RefWord, Utterance

SAID = reference(("the", 0.5, 1.0), ("cat", 1.0, 1.5), ("sat", 1.5, 2.0))


def latencies(utterance: Utterance, record: Trace) -> Latencies:
    viewing = look(record)
    alignment = align([word.text for word in utterance.words], viewing.words)
    return word_latencies(utterance, viewing, alignment, end_s=max(viewing.end_s, record.audio_s))


def test_three_moments_of_each_word() -> None:
    found = latencies(
        SAID,
        trace((1.25, "", "the"), (2.0, "the", "cat"), (3.0, "cat", "sat"), (4.0, "sat", "")),
    )
    assert found.first_seen == (0.25, 0.5, 1.0)
    assert found.settled == (0.25, 0.5, 1.0)
    assert found.confirmed == (1.0, 1.5, 2.0)
    assert found.matched == 1


def test_a_retraction_restarts_the_clock() -> None:
    found = latencies(
        SAID,
        trace((1.0, "", "the cat"), (2.0, "", "the bat"), (3.0, "", "the cat sat"), (4.0, "the cat sat", "")),
    )
    assert found.first_seen == (0.0, -0.5, 1.0)  # a guess ahead of time counts as such
    assert found.settled == (0.0, 1.5, 1.0)
    assert found.confirmed == (3.0, 2.5, 2.0)


def test_a_word_that_moves_because_another_is_put_in_before_it_still_stands_there() -> None:
    found = latencies(SAID, trace((2.0, "", "cat sat"), (3.0, "", "the cat sat"), (4.0, "the cat sat", "")))
    assert found.settled == (2.0, 0.5, 0.0)


def test_case_and_punctuation_make_no_difference() -> None:
    found = latencies(SAID, trace((2.0, "", "The cat, sat"), (3.0, "", "the cat sat."), (4.0, "The cat sat.", "")))
    assert found.settled == (1.0, 0.5, 0.0)


def test_an_unmatched_word_counts_at_the_end_and_only_for_p99() -> None:
    found = latencies(SAID, trace((2.5, "the cat", ""), (9.0, "mat", ""), audio_s=8.0))
    assert found.confirmed == (1.5, 1.0)
    assert found.unmatched == (7.0,)
    assert found.matched == pytest.approx(2 / 3)
    summary = summarise(found, "confirmed")
    assert summary.mean_s == 1.25
    assert summary.median_s == 1.25
    assert summary.p90_s == pytest.approx(1.45)
    assert summary.p99_s == pytest.approx(np.percentile([1.0, 1.5, 7.0], 99))
    assert summary.p99_matched_s == pytest.approx(np.percentile([1.0, 1.5], 99))


def test_negative_latencies_are_kept_in_the_mean() -> None:
    assert summarise(Latencies((), (), (-1.0, 2.0), ()), "confirmed").mean_s == 0.5


def test_nothing_to_say_without_matched_words() -> None:
    summary = summarise(Latencies((), (), (), (3.0,)), "confirmed")
    assert summary.mean_s is None
    assert summary.p99_s is None
    assert Latencies().matched is None


def test_words_without_times_or_that_are_not_counted_have_no_latency() -> None:
    said = reference(("um", 0.0, 0.5), ("the", 0.5, 1.0))
    found = latencies(said, trace((2.0, "the", "")))
    assert found.confirmed == (1.0,)
    assert found.unmatched == ()


def test_merged_numbers_are_shown_when_the_number_is() -> None:
    said = reference(("twenty", 0, 1), ("five", 1, 2), ("dollars", 2, 3))
    found = latencies(said, trace((1.5, "", "20"), (4.0, "$25", "")))
    assert found.confirmed == (3.0, 2.0, 1.0)
    assert found.first_seen == (3.0, 2.0, 1.0)  # "20" is not "$25"


def test_pieces_of_a_word_make_one_word() -> None:
    said = reference(("a", 0.0, 0.5), ("well-known", 0.5, 1.0), ("man", 1.0, 1.5))
    found = latencies(
        said,
        pieces((2.0, [" A", " well"], ["-known"]), (3.0, ["-known"], [" man"]), (4.0, [" man."], [])),
    )
    assert found.first_seen == (1.5, 1.0, 1.5)
    assert found.confirmed == (1.5, 2.0, 2.5)


def test_what_stood_for_no_time_was_not_seen() -> None:
    seen = sightings(look(trace((1.0, "", "the"), (1.0, "", "a"), (2.0, "the", ""))))
    assert seen == [Sighting(2.0, 2.0, 2.0)]


def test_first_text_and_last_word() -> None:
    viewing = look(trace((0.25, "", ""), (1.25, "", "a"), (3.0, "the cat", "sat"), (4.5, "sat", ""), (5.0, "", "")))
    assert first_text_s(SAID, viewing, end_s=9.0) == 0.75  # the first word begins at 0.5
    assert final_word(viewing) == 2.5
    silent = look(trace((5.0, "", "")))
    assert first_text_s(SAID, silent, end_s=9.0) == 8.5, "who says nothing is not early"
    assert first_text_s(replace(SAID, words=()), silent, end_s=9.0) is None


def test_first_and_last_text_need_no_word_times() -> None:
    viewing = look(trace((0.25, "", ""), (1.25, "", "a"), (3.0, "the cat", "sat"), (4.5, "sat", ""), (5.0, "", "")))
    assert (first_shown_s(viewing, end_s=9.0), last_shown_s(viewing, 5.0, end_s=9.0)) == (1.25, -0.5)


def test_who_never_shows_a_word_counts_as_late_as_the_end() -> None:
    """A mean over those alone that show something is better the more a program leaves out."""
    assert first_shown_s(look(trace((5.0, "", ""))), end_s=9.0) == 9.0
    assert last_shown_s(look(trace((5.0, "", ""))), 5.0, end_s=9.0) == 4.0
    silent = trace((6.0, "", ""), audio_s=5.0)
    assert laal_s(silent, look(silent), 3) == 6.0
    assert laal_s(silent, look(silent), 0) is None


def final_word(viewing: Viewing, said: Utterance = SAID) -> float | None:
    return final_word_s(said, viewing, align([word.text for word in said.words], viewing.words), end_s=10.0)


def test_a_text_that_breaks_off_is_not_early() -> None:
    assert final_word(look(trace((1.5, "the cat", "")))) == 8.0
    assert final_word(look(trace((1.5, "the cat", ""), (3.0, "sat", ""), (9.0, "on mats", "")))) == 1.0
    assert final_word(look(trace((3.0, "the cat", ""))), replace(SAID, words=())) is None


def test_a_word_that_could_not_be_placed_is_not_stood_for_by_another() -> None:
    """Forced alignment may leave out the first or the last word; from the second on the first text would be early."""
    viewing = look(trace((0.25, "", ""), (1.25, "", "a"), (3.0, "the cat", "sat"), (4.5, "sat", ""), (5.0, "", "")))
    first, *between, last = SAID.words
    assert first_text_s(replace(SAID, words=(RefWord(first.text), *between, last)), viewing, end_s=9.0) is None
    assert final_word(viewing, replace(SAID, words=(first, *between, RefWord(last.text)))) is None


def test_laal_by_hand() -> None:
    record = trace((2.0, "the", ""), (3.0, "cat", ""), (4.5, "sat on", ""), audio_s=4.0)
    # four words were written, three said: a pace of 1 s per word; the third is the first shown after the end
    assert laal_s(record, look(record), 3) == pytest.approx((2.0 + (3.0 - 1) + (4.5 - 2)) / 3)
    assert laal_s(record, look(record), 8) == pytest.approx((2.0 + (3.0 - 0.5) + (4.5 - 1.0)) / 3)
    assert laal_s(record, look(record), 0) is None


@each_row(
    ("shown", "rest", "pairs"),
    [
        ("a b c", "a b c d e", [(0, 0), (1, 1), (2, 2)]),
        ("x the", "the cat and the dog", [(1, 0)]),  # not the "the" that is still to come
        ("b c", "a b c", [(0, 1), (1, 2)]),
        ("x y z", "a b c x", []),
        ("", "a", []),
        ("a", "", []),
        ("a a a b", "a b", [(0, 0), (3, 1)]),
    ],
)
def test_match_prefix(shown: str, rest: str, pairs: list[tuple[int, int]]) -> None:
    found = match_prefix(shown.split(), rest.split())
    assert len(found) == len(pairs)
    assert [at for _, at in found] == [at for _, at in pairs]


LETTERS = st.lists(st.sampled_from("abc"), max_size=7)


def cheapest(shown: list[str], rest: list[str]) -> int:
    """The fewest items left over, by trying everything."""
    if not shown:
        return 0
    drop = 1 + cheapest(shown[1:], rest)
    if not rest:
        return drop
    skip = 1 + cheapest(shown, rest[1:])
    return min(drop, skip, cheapest(shown[1:], rest[1:])) if shown[0] == rest[0] else min(drop, skip)


@given(LETTERS, LETTERS)
def test_match_prefix_leaves_the_fewest_over(shown: list[str], rest: list[str]) -> None:
    pairs = match_prefix(shown, rest)
    assert all(shown[mine] == rest[theirs] for mine, theirs in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in itertools.pairwise(pairs))
    used = pairs[-1][1] + 1 if pairs else 0
    assert (len(shown) - len(pairs)) + (used - len(pairs)) == cheapest(shown, rest)


@given(st.lists(st.tuples(st.integers(0, 2), LETTERS), max_size=8), LETTERS)
def test_first_seen_settled_confirmed_come_in_that_order(steps: list[tuple[int, list[str]]], last: list[str]) -> None:
    views = [Shown(float(at), tuple("abcabc"[:count]), tuple(guess)) for at, (count, guess) in enumerate(steps)]
    record = Trace("u", "test", "simulated", 1.0, (*views, Shown(float(len(steps)), tuple(last))))
    viewing = look(record, "de")
    for seen in sightings(viewing):
        assert seen.first_seen <= seen.settled <= seen.confirmed
    assert len(sightings(viewing)) == len(record.words)


def test_a_long_talk_is_judged_whole() -> None:
    rng = random.Random(1)
    vocabulary = [f"word{index}" for index in range(300)]
    words = [rng.choice(vocabulary) for _ in range(2000)]
    views = []
    for step in range(800):
        known = round(2000 * (step + 1) / 800)
        done = max(round(2000 * step / 800) - 30, 0)
        now = max(known - 30, 0)
        guess = [word if rng.random() > 0.1 else rng.choice(vocabulary) for word in words[now:known]]
        views.append(Shown(float(step), tuple(words[done:now]), tuple(guess)))
    views.append(Shown(800.0, tuple(words[1970:])))
    record = Trace("u", "test", "simulated", 800.0, tuple(views))
    seen = sightings(look(record))
    assert len(seen) == 2000
