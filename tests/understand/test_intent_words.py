"""What a text says for each intent: from its words alone, kept with the network."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_late import small_late
from whispertide.errors import CheckpointError
from whispertide.understand.checkpoint import LateCheckpoint, Meaning, load_late
from whispertide.understand.intent_words import IntentWords, hashed, plain
from whispertide_lab.training.latecontext.folder import save_late

ROWS = 64
WORDS = IntentWords(np.random.default_rng(0).standard_normal((ROWS, 3)).astype(np.float32))


def by_words(rows: int = ROWS, intents: int = 2) -> LateCheckpoint:
    # Halves are exact in float16.
    weights = np.random.default_rng(1).integers(-4, 4, (rows, intents)) / 2
    return replace(small_late(), intent_words=IntentWords(weights.astype(np.float32)))


@given(st.text())
def test_scores_are_log_probabilities(text: str) -> None:
    scores = WORDS.scores(text)
    assert scores.shape == (3,)
    assert np.exp(scores).sum() == pytest.approx(1, abs=1e-5)


@given(st.text(), st.integers(1, 2000))
def test_features_are_rows_each_once(text: str, rows: int) -> None:
    found = hashed(text, rows)
    assert all(0 <= row < rows for row in found)
    assert list(found) == sorted(set(found.tolist()))
    assert bool(len(found)) == bool(text.split())


def test_neighbours_and_parts_of_words_count() -> None:
    rows = 1 << 20
    assert set(hashed("lamp on", rows)) != set(hashed("on lamp", rows))
    assert set(hashed("light", rows)) & set(hashed("lights", rows))
    assert not set(hashed("light", rows)) & set(hashed("music", rows))


def test_commands_are_written_plainly() -> None:
    assert plain(" “Wake me up, please!” at 7:30 o'clock. ") == "wake me up please at 7:30 o'clock"


def test_a_text_without_a_word_says_nothing() -> None:
    assert WORDS.scores(" ") == pytest.approx(np.log([1 / 3] * 3))


def test_it_is_kept_with_the_network(tmp_path: Path) -> None:
    save_late(by_words(), tmp_path / "late")
    kept = load_late(tmp_path / "late")
    assert kept.intent_words is not None
    assert np.array_equal(kept.intent_words.weights, by_words().intent_words.weights)  # type: ignore[union-attr]
    assert kept.tensors.keys() == small_late().tensors.keys()


def test_networks_without_it_say_what_they_named(tmp_path: Path) -> None:
    save_late(small_late(), tmp_path / "late")
    network = load_late(tmp_path / "late")
    alarm = network.vocabulary.intent("alarm_set")
    assert alarm is not None
    assert network.intent_words is None
    meant = network.understood([alarm, *network.vocabulary.encode("play some music")])
    assert meant == Meaning("alarm_set", "play some music")
    assert network.meaning("play some music") is None


def test_what_was_named_first_counts_next_to_the_words() -> None:
    even = replace(small_late(), intent_words=IntentWords(np.zeros((ROWS, 2), np.float32)))
    first = np.full(even.dims.n_vocab, -9.0, np.float32)
    first[even.vocabulary.intent("play_music")] = -1.0
    meant = even.understood(even.vocabulary.encode("what"), first)
    assert (meant.intent, meant.text) == ("play_music", "what")
    # The first token counts half: exp(-0.5) to exp(-4.5).
    assert meant.chance == pytest.approx(1 / (1 + np.exp(-4)), abs=1e-5)
    assert even.understood([], first) == Meaning(None, "")


def test_another_number_of_intents_is_refused(tmp_path: Path) -> None:
    save_late(by_words(intents=3), tmp_path / "late")
    with pytest.raises(CheckpointError, match=r"intent_words of shape \[rows, 2\]"):
        load_late(tmp_path / "late")
