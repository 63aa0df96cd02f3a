"""Errors of a live text at every chunk, by hand and against jiwer."""

import jiwer
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation.items.aligned_errors import AlignedErrors, aligned_errors
from whispertide_lab.evaluation.trace import Shown, Trace
from whispertide_lab.speech.utterance import RefWord, Utterance


def utterance(*words: tuple[str, float]) -> Utterance:
    """Words and when they end, in seconds."""
    timed = tuple(RefWord(text, 0, round(end * SAMPLE_RATE)) for text, end in words)
    return Utterance("one", timed, 3.0, lambda: np.zeros(3 * SAMPLE_RATE, np.float32), exact_times=True)


def trace(*shown: Shown, audio_s: float = 3.0) -> Trace:
    return Trace("one", "test", "free", audio_s, shown)


SAID = utterance(("one", 0.5), ("two", 1.0), ("three", 2.0))


def test_by_hand() -> None:
    """At 0.5, 1, .. 3 s have been said 1, 2, 2, 3, 3, 3 words; the text is one word late, with one wrong word."""
    shown = trace(
        Shown(0.6, hypothesis=(" one",)),
        Shown(1.1, (" one",), (" too",)),
        Shown(1.6, hypothesis=(" two",)),
        Shown(2.6, (" two", " three")),
    )
    # shown then:  nothing, "one", "one too", "one two", "one two", "one two three"
    assert aligned_errors(SAID, shown, 0.5) == AlignedErrors(edits=1 + 1 + 1 + 1 + 1 + 0, nearest=1, words=14)
    assert aligned_errors(SAID, shown, 0.5).arwer == pytest.approx(5 / 14)
    assert aligned_errors(SAID, shown, 0.5).rwer == pytest.approx(1 / 14)


def test_what_is_shown_at_the_end_of_a_chunk_counts_there_whatever_is_rounded() -> None:
    """6 * 0.3 is a little less than 1.8."""
    said = utterance(("one", 1.8))
    assert aligned_errors(said, trace(Shown(1.8, (" one",)), audio_s=1.8), 0.3) == AlignedErrors(0, 0, 1)


def test_a_word_that_is_shown_before_it_was_said_is_an_error_of_the_one_and_not_of_the_other() -> None:
    early = aligned_errors(SAID, trace(Shown(0.0, (" one", " two", " three"))), 0.5)
    assert early == AlignedErrors(edits=2 + 1 + 1, nearest=0, words=14)


def test_nothing_shown_is_all_of_it_deleted() -> None:
    assert aligned_errors(SAID, trace(Shown(3.0)), 0.5).arwer == 1


def test_invented_words_count_more_than_once() -> None:
    assert aligned_errors(SAID, trace(Shown(0.0, (" a",) * 9)), 0.5).rwer == pytest.approx(6 * 9 / 14)


def test_silence_has_no_rate() -> None:
    assert aligned_errors(utterance(), trace(Shown(0.0, (" a",))), 0.5).arwer is None
    assert aligned_errors(utterance(), trace(Shown(0.0, (" a",))), 0.5).edits == 6


WORDS = st.lists(st.sampled_from(["red", "green", "blue"]), max_size=6)


@given(reference=WORDS.filter(bool), confirmed=WORDS, guess=WORDS)
def test_edits_are_those_that_jiwer_counts(reference: list[str], confirmed: list[str], guess: list[str]) -> None:
    said = utterance(*((word, 0.1) for word in reference))
    shown = trace(Shown(0.0, tuple(f" {w}" for w in confirmed), tuple(f" {w}" for w in guess)), audio_s=0.5)
    found = aligned_errors(said, shown, 0.5)
    text = " ".join([*confirmed, *guess])
    parts = [jiwer.process_words(" ".join(reference[:n]), text) for n in range(1, len(reference) + 1)]
    edits = [part.substitutions + part.deletions + part.insertions for part in parts]
    assert found == AlignedErrors(edits[-1], min([len(confirmed) + len(guess), *edits]), len(reference))
