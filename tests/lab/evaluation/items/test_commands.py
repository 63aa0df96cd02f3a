"""Sentences as voice commands: which are taken, how a wait is counted, and how well a signal tells the bad ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation_traces import pieces, reference
from reference import nano
from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation.items.commands import BASE, WAYS, Sentence, Way, area, errors_of, hear, sentences
from whispertide_lab.evaluation.wer import Counts

FOLDER = Path(__file__).parents[3] / "clips"
TALK = reference(
    *(("No.", 0.5, 0.9), ("The", 2.0, 2.2), ("river", 2.2, 2.6), ("rises", 2.6, 4.0), ("slowly.", 4.0, 4.5)),
    *(("It", 5.0, 5.5), ("rains.", 6.0, 7.0)),
)


def test_sentences_are_neither_short_nor_long() -> None:
    found = list(sentences([TALK]))
    assert [one.words for one in found] == [("The", "river", "rises", "slowly."), ("It", "rains.")]
    assert [len(one.audio) / SAMPLE_RATE for one in found] == [3.0, 2.5]
    assert list(sentences([replace(TALK, exact_times=False)])) == []


def test_an_area_counts_pairs() -> None:
    assert area([1.0, 2.0, 3.0], [False, False, True]) == 1.0
    assert area([2.0, 1.0], [False, True]) == 0.0
    assert area([1.0, 1.0], [False, True]) == 0.5
    assert area([1.0, 2.0], [True, True]) == 0.5


def test_a_number_in_two_pieces_is_one_word() -> None:
    record = pieces((2.0, (" 10", ",000", " men"), ()))
    assert errors_of(Sentence(("10,000", "men"), np.zeros(0, np.float32)), record) == Counts(hits=2)


@pytest.mark.slow
def test_the_wait_is_what_comes_after_the_last_word() -> None:
    audio = load_audio(FOLDER / "river.flac")
    said = Sentence(tuple((FOLDER / "river.txt").read_text(encoding="utf-8").split()), audio)
    model, ways = Transcriber(nano()), {name: Way() for name in (BASE, "pilots")}
    for name, way in ways.items():
        hear(model, said, WAYS[name], False, way)
    assert all(0 < way.waits[0] < way.cpu_s + 1e-6 for way in ways.values())
    assert [way.errors[0][1] for way in ways.values()] == [len(said.words)] * 2
    assert (len(ways[BASE].pilots), len(ways["pilots"].pilots)) == (0, 1)
    assert ways["pilots"].cpu_s > 0
