"""What `benchmarks/onsets.py` takes for the first words after a pause, and counts."""

import numpy as np

from benchmark_scripts import benchmark
from whispertide.types import to_samples
from whispertide_lab.evaluation.wer import align
from whispertide_lab.speech.utterance import RefWord

TEXT = "we went home. but nobody was there"
WORDS = [
    RefWord(text, to_samples(start), to_samples(start + 0.3))
    for text, start in zip(TEXT.split(), (0.5, 0.8, 1.1, 3.0, 3.3, 3.6, 3.9), strict=True)
]
ONSETS = [to_samples(0.5), to_samples(3.0)]


def test_the_first_words_after_each_onset() -> None:
    with benchmark("onsets") as script:
        assert script.first_words(WORDS, ONSETS) == [0, 3]
        assert script.first_words(WORDS, [*ONSETS, to_samples(3.3)]) == [0, 3], "the second word has been counted"
        assert script.first_words(WORDS, [*ONSETS, to_samples(9.0)]) == [0, 3], "nothing is said after it"


def test_words_that_are_wrong_missing_or_made_up() -> None:
    heard = {
        TEXT: (0, 0),
        "we went home. nobody was there": (1, 0),
        "we went home. by somebody was there": (2, 0),
        "we went home. thank you but nobody was there": (0, 2),
        "we went home. but nobody is here": (0, 0),
        "": (4, 0),
    }
    with benchmark("onsets") as script:
        for text, (wrong, made) in heard.items():
            found = align(TEXT.split(), text.split())
            assert script.judged(found, [0, 3], len(WORDS)) == script.Firsts(4, wrong, made), text


def test_joined_recordings_keep_the_places_of_their_words() -> None:
    with benchmark("onsets") as script:
        one = script.Spoken(np.ones(16_000, np.float32), [RefWord("yes", 100, 200), RefWord("um")])
        both = script.joined([one, one])
        assert len(both.samples) == 2 * (16_000 + script.APART)
        assert both.words == [*one.words, RefWord("yes", 100 + 24_000, 200 + 24_000), RefWord("um")]
