"""The parts of a word's wait, by hand, and that they are all of it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_traces import pieces, reference, trace
from whispertide_lab.evaluation.holding import ANOTHER_ROUND, NEAR_THE_END, UNSURE
from whispertide_lab.evaluation.latency import word_latencies
from whispertide_lab.evaluation.trace import RoundCost, Trace
from whispertide_lab.evaluation.views import look
from whispertide_lab.evaluation.waits import COMPUTING, EARLY, NOT_HEARD, PARTS, STEP, parts_in, word_waits
from whispertide_lab.evaluation.wer import align
from whispertide_lab.speech.utterance import Utterance

CAT = reference(("the", 0.5, 1.0), ("cat", 1.0, 1.5))


def a_round(start_s: float, *heard: str, seconds: float = 0.1, waits: str = "") -> RoundCost:
    """One that hears all of the audio up to its start."""
    return RoundCost(start_s, seconds, 1.0, window_end_s=start_s, heard=heard, waits=waits)


def waits(utterance: Utterance, record: Trace) -> dict[str, list[float]]:
    viewing = look(record)
    return word_waits(utterance, record, viewing, align([word.text for word in utterance.words], viewing.words))


def parts(found: dict[str, list[float]], word: int) -> dict[str, Any]:
    return {part: pytest.approx(values[word]) for part, values in found.items() if values[word]}


def test_a_word_waits_for_a_round_for_reasons_and_for_computing() -> None:
    record = replace(
        trace((1.3, "", "the"), (1.7, "", "the bat"), (2.1, "the", "cat"), (2.6, "cat", "")),
        rounds=(
            a_round(1.2, "the", waits=UNSURE),
            a_round(1.6, "the", "bat", waits=NEAR_THE_END),
            a_round(2.0, "the", "cat", waits=NEAR_THE_END),
            a_round(2.5, "cat"),
        ),
    )
    found = waits(CAT, record)
    assert parts(found, 0) == {STEP: 0.2, UNSURE: 0.4, NEAR_THE_END: 0.4, COMPUTING: 0.1}
    assert parts(found, 1) == {STEP: 0.1, NOT_HEARD: 0.4, NEAR_THE_END: 0.5, COMPUTING: 0.1}


def test_a_word_that_a_guess_shows_was_heard_although_the_round_does_not_say_so() -> None:
    """Policies that hear whole windows have segments in place of words."""
    record = replace(
        trace((1.3, "", "the"), (1.7, "the", "cat"), (2.1, "cat", "")),
        rounds=(a_round(1.2), a_round(1.6), a_round(2.0)),
    )
    assert parts(waits(CAT, record), 0) == {STEP: 0.2, ANOTHER_ROUND: 0.4, COMPUTING: 0.1}


def test_a_word_that_is_heard_and_not_shown_was_heard() -> None:
    record = replace(
        pieces((1.7, (), (" the",)), (2.1, (" the", " cat"), ())),
        rounds=(a_round(1.6, " the", " cat", waits=UNSURE), a_round(2.0, " the", " cat")),
    )
    assert parts(waits(CAT, record), 1) == {STEP: 0.1, UNSURE: 0.4, COMPUTING: 0.1}


def test_a_word_that_is_confirmed_before_it_ends_is_early_and_nothing_else() -> None:
    record = replace(trace((1.3, "the cat", ""), (2.0, "", "")), rounds=(a_round(1.2, "the", "cat"),))
    found = waits(CAT, record)
    assert parts(found, 0) == {STEP: 0.2, COMPUTING: 0.1}
    assert parts(found, 1) == {EARLY: -0.2}


def test_a_round_that_takes_long_is_computing_and_so_is_all_that_follows_it() -> None:
    record = replace(trace((2.9, "the cat", "")), rounds=(a_round(1.4, "the", seconds=1.5),))
    found = waits(CAT, record)
    assert parts(found, 0) == {STEP: 0.4, COMPUTING: 1.5}
    assert parts(found, 1) == {COMPUTING: 1.4}  # confirmed by a round that began before its end


def test_who_has_no_rounds_has_no_parts() -> None:
    assert waits(CAT, trace((2.0, "the cat", ""))) == {}


def test_nobody_knows_the_parts_of_a_program_that_does_not_say_what_its_rounds_hear() -> None:
    """All of its wait looked like that for the next round."""
    record = replace(
        trace((1.3, "", "the"), (1.7, "the", "cat"), (2.6, "cat", "")),
        rounds=tuple(replace(a_round(start), window_end_s=0.0) for start in (1.2, 1.6, 2.0, 2.5)),
    )
    assert waits(CAT, record) == {}


def test_parts_of_earlier_versions_are_not_lost() -> None:
    """A table of them ends with their sum."""
    assert parts_in([{COMPUTING: 0.1, "not heard": 0.2}, {STEP: 0.3}]) == [STEP, COMPUTING, "not heard"]


@given(
    st.lists(st.floats(0.01, 2.0), min_size=1, max_size=8),
    st.lists(st.sampled_from([(), ("the",), ("the", "cat"), ("a", "cat")]), min_size=8, max_size=8),
    st.integers(0, 7),
    st.integers(0, 7),
    st.floats(0.0, 3.0),
)
def test_the_parts_are_all_of_the_latency(
    steps: list[float], heard: list[tuple[str, ...]], first: int, second: int, took: float
) -> None:
    """Whichever rounds confirm the words, and however long these take."""
    rounds, free_at = [], 0.0
    for step, words in zip(steps, heard, strict=False):
        rounds.append(a_round(free_at + step, *words, seconds=took, waits=UNSURE))
        free_at += step + took
    last = len(rounds) - 1
    confirming = sorted((min(first, last), min(second, last)))
    views = [
        (
            one.start_s + one.seconds,
            " ".join(word for word, at in zip(("the", "cat"), confirming, strict=True) if at == number),
            " ".join(one.heard) if number < confirming[0] else "",
        )
        for number, one in enumerate(rounds)
    ]
    record = replace(trace(*views), rounds=tuple(rounds))
    found, viewing = waits(CAT, record), look(record)
    alignment = align(["the", "cat"], viewing.words)
    late = word_latencies(CAT, viewing, alignment, end_s=99.0)
    assert set(found) == set(PARTS)
    assert [sum(found[part][word] for part in PARTS) for word in (0, 1)] == pytest.approx(late.confirmed)
    assert all(value >= 0 for part in PARTS if part != EARLY for value in found[part])
