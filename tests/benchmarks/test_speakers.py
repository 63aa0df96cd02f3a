"""What `benchmarks/speakers.py` counts as a word error, and how words without times are spread."""

import numpy as np

from benchmark_scripts import benchmark
from whispertide.types import Word


def test_labels_and_voices_are_matched_so_that_errors_are_fewest() -> None:
    said = [("apple", "pear", "plum"), ("yes",)]
    with benchmark("speakers") as script:
        assert script.errors_with_voices(said, {7: ["yes"], 9: ["apple", "pear", "plum"]}) == (0, 4)
        assert script.errors_with_voices(said, {1: ["apple", "pear", "yes"], 2: ["plum"]}) == (2, 4)
        # a label too many: its words are inserted, and one voice lacks them
        assert script.errors_with_voices(said, {1: ["apple", "pear"], 2: ["yes"], 3: ["plum"]}) == (2, 4)
        assert script.errors_with_voices(said, {}) == (4, 4)


def test_true_labels_are_those_of_whoever_speaks() -> None:
    truth = np.zeros((2, 400), np.int64)
    truth[0, :150], truth[1, 120:400] = 1, 1
    words = [Word(f" w{at}", 160 * at, 160 * at + 1600) for at in (50, 130, 250)]
    with benchmark("speakers") as script:
        talk = script.Talk("talk", np.zeros(64_000, np.float32), truth)
        found = script.truly_labelled(talk, words)
        assert [word.speaker for word in found] == [1, 1, 2]
        assert script.labelled(found) == {1: ["w50", "w130"], 2: ["w250"]}


def test_words_of_a_line_are_spread_over_its_voices() -> None:
    line = {"text": "a b c d", "start": 1.0, "end": 3.0, "spans": [[1.0, 2.0, 1], [2.0, 3.0, 2]]}
    with benchmark("speakers") as script:
        assert [(word.start, word.speaker) for word in script.spread(line)] == [
            (16_000, 1),
            (24_000, 1),
            (32_000, 2),
            (40_000, 2),
        ]
        assert [word.speaker for word in script.spread({**line, "spans": []})] == [None] * 4
