"""Traces and references written down by hand."""

from collections.abc import Sequence

import numpy as np

from whispertide.types import to_samples
from whispertide_lab.evaluation.trace import Shown, Trace
from whispertide_lab.speech.utterance import RefWord, Utterance


def reference(*words: tuple[str, float, float], seconds: float = 10.0, exact: bool = True) -> Utterance:
    """(text, start, end) in seconds -> an utterance."""
    return Utterance(
        id="u",
        words=tuple(RefWord(text, to_samples(start), to_samples(end)) for text, start, end in words),
        seconds=seconds,
        audio=lambda: np.zeros(to_samples(seconds), np.float32),
        exact_times=exact,
    )


def trace(*views: tuple[float, str, str], audio_s: float = 10.0) -> Trace:
    """(time, words confirmed then, guess) -> a trace."""
    shown = tuple(Shown(at, tuple(confirmed.split()), tuple(guess.split())) for at, confirmed, guess in views)
    return Trace("u", "test", "simulated", audio_s, shown)


def pieces(*views: tuple[float, Sequence[str], Sequence[str]], audio_s: float = 10.0) -> Trace:
    """The same with pieces that carry their own spaces."""
    shown = tuple(Shown(at, tuple(confirmed), tuple(guess)) for at, confirmed, guess in views)
    return Trace("u", "test", "simulated", audio_s, shown)
