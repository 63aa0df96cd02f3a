"""Where the wait of a word comes from: the time from its end in the audio to its confirmation, taken apart.

    waiting for the next round   from the word's end to the start of the first round that hears all of it
    not in the text yet          rounds that heard something else in its place, or nothing
    (a reason)                   rounds that heard it and held it back (`holding`), or a word before it
    computing                    from the start of the round that confirmed it until it was shown
    confirmed before its end     a time below zero

A part lasts from the start of one round to that of the next. The parts of a word add up to its latency (`latency`),
with nothing clamped. Only words count whose end is known and that are matched with the reference.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from whispertide.types import seconds
from whispertide_lab.evaluation.holding import ANOTHER_ROUND, REASONS
from whispertide_lab.evaluation.latency import match_prefix, sightings_of_reference, standing_words
from whispertide_lab.evaluation.trace import RoundCost, Trace
from whispertide_lab.evaluation.views import View, Viewing, joiner_of
from whispertide_lab.evaluation.wer import Alignment, normalise_word, split_words
from whispertide_lab.speech.utterance import Utterance

EARLY, COMPUTING = "confirmed before its end", "computing"
STEP, NOT_HEARD = "waiting for the next round", "not in the text yet"
PARTS = (EARLY, STEP, NOT_HEARD, *REASONS, COMPUTING)
_AT_ONCE = 1e-9  # seconds that are none


def parts_in(waits: Sequence[Mapping[str, float]]) -> list[str]:
    """The parts that some of these have, in order; those that only an earlier version knew come last."""
    found = dict.fromkeys(part for each in waits for part in each)
    return [*(part for part in PARTS if part in found), *(part for part in found if part not in PARTS)]


def word_waits(utterance: Utterance, trace: Trace, viewing: Viewing, alignment: Alignment) -> dict[str, list[float]]:
    """Part -> seconds of each matched word, in order, as in `latency.Latencies.confirmed`.

    Empty without rounds, and where these do not say how far the audio went that they heard, as those of other programs.
    """
    if not any(one.window_end_s for one in trace.rounds):
        return {}
    heard = _heard(trace, viewing, utterance.language)
    matched = alignment.matched_words()
    found: dict[str, list[float]] = {part: [] for part in PARTS}
    for word, sighting in sorted(sightings_of_reference(viewing, alignment).items()):
        end = utterance.words[word].end
        if end is None or word not in alignment.counted_words():
            continue
        parts = _parts(trace.rounds, heard, matched[word], seconds(end), sighting.confirmed)
        for part in PARTS:
            found[part].append(parts.get(part, 0.0))
    return found


def _parts(
    rounds: Sequence[RoundCost], heard: Sequence[frozenset[int]], word: int, end_s: float, shown_s: float
) -> dict[str, float]:
    """Those of one word, which was confirmed at `shown_s` on the clock."""
    if shown_s < end_s:
        return {EARLY: shown_s - end_s}
    last = max((at for at, one in enumerate(rounds) if one.start_s + one.seconds <= shown_s + _AT_ONCE), default=0)
    first = next((at for at, one in enumerate(rounds) if one.window_end_s >= end_s), last)
    if first >= last:  # nothing was decided after it was heard whole, or it was confirmed before that
        start = max(rounds[last].start_s, end_s)
        return {STEP: start - end_s, COMPUTING: shown_s - start}
    parts = {STEP: rounds[first].start_s - end_s, COMPUTING: shown_s - rounds[last].start_s}
    for at, (one, following) in enumerate(pairwise(rounds[first : last + 1]), first):
        part = (one.waits or ANOTHER_ROUND) if word in heard[at] else NOT_HEARD
        parts[part] = parts.get(part, 0.0) + following.start_s - one.start_s
    return parts


def _heard(trace: Trace, viewing: Viewing, language: str) -> list[frozenset[int]]:
    """For each round which words of the final text it heard, or had stand in the guess after it."""
    joiner, views, at = joiner_of(trace), viewing.views, 0
    found = []
    for one in trace.rounds:
        before = views[at - 1] if at else View(0.0, 0, ())
        while at < len(views) and views[at].at_s <= one.start_s + one.seconds + _AT_ONCE:
            at += 1
        after = views[at - 1] if at else before
        rest = viewing.keyed(before.fixed)
        keys = [
            key for text in split_words(joiner.join(one.heard), language) if (key := normalise_word(text, language))
        ]
        said = {rest[place] for _, place in match_prefix(keys, [viewing.keys[index] for index in rest])} if keys else ()
        found.append(frozenset((*said, *standing_words(viewing, after))))
    return found
