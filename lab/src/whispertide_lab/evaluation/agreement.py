"""Whether two clocks agree: the same recogniser on the same recording, once on each, word by word.

What is shown depends on where rounds begin, and that on how long each of them takes, so two real-time runs do not agree
to the millisecond either; how far a simulation is from one of them can be told only next to how far two of them are
apart. Knows no clock and no recogniser.
"""

from dataclasses import dataclass

import numpy as np

from whispertide_lab.evaluation.latency import sightings_of_reference
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.evaluation.views import look
from whispertide_lab.evaluation.wer import align
from whispertide_lab.speech.utterance import Utterance


@dataclass(frozen=True, slots=True)
class Agreement:
    """How much later B showed words than A, in seconds, over the words of the reference that both got right.

    mean_s       with its sign: what a mean latency would be off by
    median_s     of the amounts
    p90_s        of the amounts
    """

    words: int
    mean_s: float
    median_s: float
    p90_s: float


def differences(utterance: Utterance, a: Trace, b: Trace) -> tuple[float, ...]:
    """Seconds by which B confirmed each word later than A; words that one of them did not get right are left out."""
    first, second = (_times(utterance, trace) for trace in (a, b))
    return tuple(second[word] - first[word] for word in sorted(first.keys() & second.keys()))


def agreement(found: tuple[float, ...]) -> Agreement | None:
    """The figures of such differences; None where there are none."""
    if not found:
        return None
    amounts = np.abs(found)
    median, p90 = np.percentile(amounts, [50, 90])
    return Agreement(len(found), float(np.mean(found)), float(median), float(p90))


def _times(utterance: Utterance, trace: Trace) -> dict[int, float]:
    viewing = look(trace, utterance.language)
    alignment = align([word.text for word in utterance.words], viewing.words, utterance.language)
    return {word: seen.confirmed for word, seen in sightings_of_reference(viewing, alignment).items()}
