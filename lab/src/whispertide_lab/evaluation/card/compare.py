"""Two model cards against each other: paired differences set by set, and a verdict.

Knows cards alone, not how one comes about or looks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from whispertide_lab.evaluation.bootstrap import Difference
from whispertide_lab.evaluation.card.results import Card, Result, paired
from whispertide_lab.evaluation.card.sets import PADDED, PADDED_TIMES
from whispertide_lab.evaluation.compare import Measure

# Ratios of `Result`
WER = Measure("word_errors", "WER", "points", 100, 1)
CER = Measure("character_errors", "CER", "points", 100, 1)
INVENTED = Measure("invented", "invented words per minute", "", 1, 2)
TIMING = Measure("timing_sums", "mean word-time error", "ms", 1, 0)


@dataclass(frozen=True, slots=True)
class Change:
    """How a figure changed from the previous model to this one."""

    part: str
    measure: Measure
    difference: Difference

    @property
    def better(self) -> bool:
        """Lower, and certainly so."""
        return self.difference.high < 0

    @property
    def worse(self) -> bool:
        """Higher, and certainly so."""
        return self.difference.low > 0


def changes(card: Card, previous: Card) -> list[Change]:
    """Every figure that both cards have of the same recordings: padded, without timestamps; word times with them."""
    return [change for part in card.parts for change in _changes_in(part, card, previous)]


def _changes_in(part: str, card: Card, previous: Card) -> Iterator[Change]:
    for mode, measures in ((PADDED, (WER, CER, INVENTED)), (PADDED_TIMES, (WER, INVENTED, TIMING))):
        after, before = card.result(part, mode), previous.result(part, mode)
        if after is None or before is None:
            continue
        only_times = card.result(part, PADDED) is not None  # the error rates of that mode are not needed as well
        for measure in measures:
            if not _applies(measure, after) or (mode is PADDED_TIMES and only_times and measure is not TIMING):
                continue
            if found := paired(before, after, measure.key):
                yield Change(part, measure, found)


def _applies(measure: Measure, result: Result) -> bool:
    if measure is INVENTED:
        return result.kind == "nonspeech"
    return result.kind != "nonspeech" and (measure is not TIMING or bool(result.timing))


def verdict(found: list[Change]) -> str:
    """Where this model is better, where worse, and where nobody can tell, by 95 % intervals."""
    if not found:
        return "The two cards have no recordings in common: they cannot be compared."
    better = [_said(change) for change in found if change.better]
    worse = [_said(change) for change in found if change.worse]
    open_ones = [f"{change.part} ({change.measure.name})" for change in found if not (change.better or change.worse)]
    parts = [
        f"Better on: {'; '.join(better) or 'nothing'}.",
        f"Worse on: {'; '.join(worse) or 'nothing'}.",
        f"No clear difference on: {'; '.join(open_ones)}." if open_ones else "",
    ]
    return "\n".join(part for part in parts if part)


def _said(change: Change) -> str:
    measure, found = change.measure, change.difference
    unit = f" {measure.unit}" if measure.unit else ""
    return f"{change.part} ({measure.name} {measure.written(found.difference, sign='+')}{unit}, {measure.span(found)})"
