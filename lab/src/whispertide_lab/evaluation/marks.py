"""Marks after latencies that no claim should rest on: the same in tables and in plots."""

from collections.abc import Iterable, Mapping
from typing import Any

from whispertide_lab.speech.utterance import ALIGNED

UNRELIABLE_MARK = " !"
ALIGNED_MARK = " ~"
_IN_A_PLOT = {
    UNRELIABLE_MARK: "!: fewer words matched than offline, not reliable",
    ALIGNED_MARK: "~: word times by forced alignment",
}


def latency_marks(*scores: Mapping[str, Any]) -> str:
    """What is written after a figure made of latencies: whether fewer words were matched than offline, whether any word
    times are aligned.
    """
    return any(map(finds_fewer, scores)) * UNRELIABLE_MARK + any(map(is_aligned, scores)) * ALIGNED_MARK


def marks_in_short(scores: Iterable[Mapping[str, Any]]) -> str:
    """What the marks of these latencies mean, in the words of a plot; "": there are none."""
    marks = latency_marks(*scores)
    return "; ".join(text for mark, text in _IN_A_PLOT.items() if mark in marks)


def is_aligned(score: Mapping[str, Any]) -> bool:
    """Whether some of its word times are by forced alignment."""
    return ALIGNED in (score.get("word_times") or "")


def finds_fewer(score: Mapping[str, Any]) -> bool:
    """Whether fewer words are matched than offline. False also where nothing was compared."""
    return score.get("matched_as_offline") is False
