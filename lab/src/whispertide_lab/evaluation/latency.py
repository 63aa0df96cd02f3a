"""How late words are: for each word of the reference, when it became visible, minus when it had been said.

Three moments of each word:

    first_seen   it stood in a view for the first time, guess or not
    settled      it stood there and never went away again: a retraction restarts its clock
    confirmed    it was final

Which word of the final text is which word of the reference is a matter of the one alignment (`wer.align`). Where a
word of the final text stood in a guess is found view by view: the guess is matched with the final text from the first
unconfirmed word on, with the fewest words left over (Myers 1986), the final text being free to go on. Case and
punctuation make no difference. Nothing is clamped and nothing rounded: a word guessed before it was said to the end
has a negative latency.

Only words with times count, and only those that the normaliser leaves. A recogniser that leaves out what is hard to
hear looks quick, so the share of words that were matched is held against that of the same weights offline: `FEWER`
makes a figure unreliable, and is said. For the 99th percentile an unmatched word counts as shown at the end: with one
word in a hundred misheard it tells of errors and not of lateness. That of matched words alone stands next to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from whispertide.types import seconds
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.evaluation.views import View, Viewing
from whispertide_lab.evaluation.wer import Alignment
from whispertide_lab.speech.utterance import Utterance

Moment = Literal["first_seen", "settled", "confirmed"]
MOMENTS: tuple[Moment, ...] = ("first_seen", "settled", "confirmed")
FEWER = 0.03  # of the reference words matched than offline: no latency is claimed


@dataclass(frozen=True, slots=True)
class Sighting:
    """When a word of the final text was seen, in seconds on the clock."""

    first_seen: float
    settled: float
    confirmed: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds per matched reference word, in order; for an unmatched one, seconds from its end to the last view."""

    first_seen: tuple[float, ...] = ()
    settled: tuple[float, ...] = ()
    confirmed: tuple[float, ...] = ()
    unmatched: tuple[float, ...] = ()

    @property
    def matched(self) -> float | None:
        """The fraction of reference words that were matched; None if there are none."""
        total = len(self.confirmed) + len(self.unmatched)
        return len(self.confirmed) / total if total else None


@dataclass(frozen=True, slots=True)
class Summary:
    """Seconds, over matched words; None where there are none. `p99_s` counts the unmatched, too."""

    mean_s: float | None
    median_s: float | None
    p90_s: float | None
    p99_s: float | None
    p99_matched_s: float | None


def summarise(latencies: Latencies, moment: Moment) -> Summary:
    """The figures of one moment. Percentiles lie between neighbours where they must (numpy's default)."""
    values = np.asarray(getattr(latencies, moment))
    if not len(values):
        return Summary(None, None, None, None, None)
    everything = np.concatenate([values, latencies.unmatched])
    median, p90, p99_matched = (float(value) for value in np.percentile(values, [50, 90, 99]))
    return Summary(float(values.mean()), median, p90, float(np.percentile(everything, 99)), p99_matched)


def word_latencies(utterance: Utterance, viewing: Viewing, alignment: Alignment, *, end_s: float) -> Latencies:
    """Latencies of one utterance. `alignment` is that of its words with `viewing.words`; `end_s` when all was over."""
    seen = sightings_of_reference(viewing, alignment)
    found: list[tuple[float, float, float]] = []
    unmatched: list[float] = []
    for index in sorted(alignment.counted_words()):
        end = utterance.words[index].end
        if end is None:
            continue
        if index not in seen:
            unmatched.append(end_s - seconds(end))
            continue
        word = seen[index]
        said = seconds(end)
        found.append((word.first_seen - said, word.settled - said, word.confirmed - said))
    first, settled, confirmed = zip(*found, strict=True) if found else ((), (), ())
    return Latencies(first, settled, confirmed, tuple(unmatched))


def sightings_of_reference(viewing: Viewing, alignment: Alignment) -> dict[int, Sighting]:
    """Index of each reference word that was matched -> when it was seen. `alignment` is that with `viewing.words`."""
    seen = sightings(viewing)
    return {word: seen[heard] for word, heard in alignment.matched_words().items()}


def sightings(viewing: Viewing) -> list[Sighting]:
    """When each word of the final text was first seen, settled and confirmed. Words without a key: when confirmed."""
    first: dict[int, float] = {}
    settled: dict[int, float] = {}
    confirmed: dict[int, float] = {}
    standing: dict[int, float] = {}  # words of the guess, and since when they have stood there without a break
    fixed = 0
    for view in viewing.views:
        for word in range(fixed, view.fixed):
            confirmed[word] = view.at_s
            settled[word] = standing.get(word, view.at_s)
            first.setdefault(word, view.at_s)
        fixed = max(fixed, view.fixed)
        standing = {word: standing.get(word, view.at_s) for word in standing_words(viewing, view)}
        for word, since in standing.items():
            first.setdefault(word, since)
    return [Sighting(first[word], settled[word], confirmed[word]) for word in range(len(viewing.words))]


def standing_words(viewing: Viewing, view: View) -> list[int]:
    """Which words of the final text stand in the guess of a view."""
    if not view.tail:
        return []
    rest = viewing.keyed(view.fixed)
    return [rest[at] for _, at in match_prefix(view.tail, [viewing.keys[index] for index in rest])]


def match_prefix(shown: Sequence[str], rest: Sequence[str]) -> list[tuple[int, int]]:
    """Match `shown` with the beginning of `rest`: pairs of equal items, both rising.

    The fewest items are left over, in `shown` or among those of `rest` up to the last match; among such matchings the
    one with most pairs. This is the greedy algorithm of Myers (An O(ND) Difference Algorithm, 1986) with a free end.
    """
    size, limit = len(shown), len(rest)
    reach: dict[int, int] = {}  # diagonal x - y -> the furthest x; x counts shown items, y items of the rest
    history: list[dict[int, int]] = []
    for cost in range(size + 1):
        history.append(dict(reach))
        for diagonal in range(-cost, cost + 1, 2):
            x = _enter(reach, diagonal, cost, limit)
            if x is None:
                reach.pop(diagonal, None)
                continue
            y = x - diagonal
            while x < size and y < limit and shown[x] == rest[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= size:  # diagonals come in the order of most pairs
                return _pairs(history, diagonal, size, limit)
    raise AssertionError("dropping every shown item is always a way")


def _enter(reach: Mapping[int, int], diagonal: int, cost: int, limit: int) -> int | None:
    """Where the furthest path of that cost enters the diagonal, if any does.

    It comes from the next diagonal (an item of the rest skipped) or the one before (a shown item dropped).
    """
    if cost == 0:
        return 0
    skip = reach.get(diagonal + 1)
    drop = reach.get(diagonal - 1)
    ways = [x for x in (skip, None if drop is None else drop + 1) if x is not None and x - diagonal <= limit]
    return max(ways, default=None)


def _pairs(history: Sequence[Mapping[int, int]], diagonal: int, size: int, limit: int) -> list[tuple[int, int]]:
    """Back along the path that reached the end on that diagonal."""
    pairs: list[tuple[int, int]] = []
    x = size
    for cost in range(len(history) - 1, -1, -1):
        entered = _enter(history[cost], diagonal, cost, limit)
        assert entered is not None
        while x > entered:
            x -= 1
            pairs.append((x, x - diagonal))
        if cost == 0:
            break
        if history[cost].get(diagonal + 1) == entered:
            diagonal += 1
        else:
            diagonal, x = diagonal - 1, x - 1
    return pairs[::-1]


def first_text_s(utterance: Utterance, viewing: Viewing, *, end_s: float) -> float | None:
    """Time to first text: from where the first word begins to the first view that shows one; None where that time is
    not known.

    If none ever did it counts as shown at `end_s`, when all was over: who says nothing is not early.
    """
    start = utterance.words[0].start if utterance.words else None
    if start is None:
        return None
    return first_shown_s(viewing, end_s=end_s) - seconds(start)


def first_shown_s(viewing: Viewing, *, end_s: float) -> float:
    """From the beginning of the recording to the first view that shows a word, or to the end if none ever did."""
    return next((view.at_s for view in viewing.views if view.fixed or view.tail), end_s)


def last_shown_s(viewing: Viewing, audio_s: float, *, end_s: float) -> float:
    """From the end of the recording to the moment its last word was final, or all was over if there is no word."""
    return max((seen.confirmed for seen in sightings(viewing)), default=end_s) - audio_s


def final_word_s(utterance: Utterance, viewing: Viewing, alignment: Alignment, *, end_s: float) -> float | None:
    """How late the last word of the reference was final; None where nobody knows when it was said.

    If it was never recognised it counts as shown at `end_s`, when all was over: a text that breaks off is not early.
    """
    last = max(alignment.counted_words(), default=None)
    end = None if last is None else utterance.words[last].end
    if last is None or end is None:
        return None
    seen = sightings_of_reference(viewing, alignment).get(last)
    return (end_s if seen is None else seen.confirmed) - seconds(end)


def laal_s(trace: Trace, viewing: Viewing, reference_words: int) -> float | None:
    """Length-adaptive average lagging (Papi et al. 2022) of confirmed words, in seconds of the clock.

    mean of d_i - (i - 1) * audio / max(words, reference words), over the words up to the first with d_i >= audio,
    where d_i is when word i was confirmed. On a clock where computing takes time it is the computation-aware variant.
    Where no word ever was, one counts as confirmed when all was over. None if there is no reference.
    """
    if not reference_words:
        return None
    if not viewing.words:
        return max(viewing.end_s, trace.audio_s)
    pace = trace.audio_s / max(len(viewing.words), reference_words)
    lags: list[float] = []
    for index, word in enumerate(sightings(viewing)):
        lags.append(word.confirmed - index * pace)
        if word.confirmed >= trace.audio_s:
            break
    return float(np.mean(lags))
