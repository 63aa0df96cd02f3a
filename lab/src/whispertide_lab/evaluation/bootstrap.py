"""How sure a figure is, and a difference between two: bootstrap over speakers (Efron 1979; Bisani and Ney 2004).

A figure is a ratio of sums: errors over reference words, seconds of latency over matched words. Speakers are drawn with
replacement, each with all utterances, because what is hard in one utterance of a speaker is hard in the next
(`units_of`); where nobody knows who speaks, each utterance is a unit of its own. For a difference both systems get the
same draw, because what is hard for one is hard for the other. Percentile intervals; the same seed, the same interval.
With fewer than about twenty units (`MANY`) they are too narrow, and the caller should say so.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.errors import OptionError
from whispertide_lab.speech.utterance import NOBODY

DRAWS = 10_000
LEVEL = 0.95
MANY = 20  # units; with fewer an interval is too narrow
UNITS = "speakers, or recordings where nobody knows the speaker"  # what is drawn, for a page
_AT_ONCE = 500  # draws weighed at a time
_FEW = 255  # units, of which no count exceeds a byte: 10,000 draws take 2.5 MB
Ratio = tuple[float, float]  # one unit's share in the numerator and in the denominator
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """What B has more than A, with its interval, for which so many `units` were drawn."""

    a: float
    b: float
    difference: float
    low: float
    high: float
    units: int

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0

    def text(self, scale: float = 1.0) -> str:
        """As tables have it: the difference and its interval, each times `scale`."""
        low, high = scale * self.low, scale * self.high
        return f"{scale * self.difference:+.2f} [{low:+.2f}, {high:+.2f}]"


def units_of(groups: Sequence[str]) -> list[Hashable]:
    """What is drawn for each utterance, by the names of the speakers: the speaker, or, of nobody, the utterance."""
    return [number if group in NOBODY else group for number, group in enumerate(groups)]


def by_unit(utterances: Sequence[Ratio], units: Sequence[Hashable]) -> list[Ratio]:
    """The sums over each unit, in the order of their first utterances."""
    sums: dict[Hashable, Ratio] = {}
    for unit, (above, below) in zip(units, utterances, strict=True):
        before = sums.get(unit, (0.0, 0.0))
        sums[unit] = (before[0] + above, before[1] + below)
    return list(sums.values())


def units_in(records: Sequence[Mapping[str, Any]]) -> list[Hashable]:
    """What is drawn for each of the records of a run; a group of recordings without words is not of one speaker."""
    return units_of([str(record.get("group") or "") if record.get("words") else "" for record in records])


def interval(units: Sequence[Ratio], *, draws: int = DRAWS, seed: int = 0) -> tuple[float, float]:
    """The interval of sum(numerators) / sum(denominators). Raises `OptionError` where that is undefined."""
    values = _array(units)
    drawn = np.concatenate([_ratios(counts @ values) for counts in _draws(len(values), draws, seed)])
    low, high = _percentiles(drawn)
    return low, high


def figure_interval(key: str, records: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """The interval of a figure of a run, by its key in the scores, from the records of its utterances.

    None for a figure that is none of those of `compare`, and for fewer than `MANY` units. Raises `OptionError` where
    the figure is undefined.
    """
    if key not in _FIGURES:
        return None
    found = _by_unit(records, key)
    return interval(found) if len(found) >= MANY else None


def _by_unit(records: Sequence[Mapping[str, Any]], key: str) -> list[Ratio]:
    """A figure of a run, unit by unit."""
    return by_unit([_FIGURES[key](record) for record in records], units_in(records))


def paired(a: Sequence[Ratio], b: Sequence[Ratio], *, draws: int = DRAWS, seed: int = 0) -> Difference:
    """The difference of two systems on the same units, in the same order.

    Raises `OptionError` if their numbers differ, or if a ratio is undefined.
    """
    first, second = _both(a, b)
    drawn = np.concatenate(
        [_ratios(counts @ second) - _ratios(counts @ first) for counts in _draws(len(first), draws, seed)]
    )
    low, high = _percentiles(drawn)
    whole_a, whole_b = (float(_ratios(values.sum(axis=0)[None])[0]) for values in (first, second))
    return Difference(whole_a, whole_b, whole_b - whole_a, low, high, len(first))


def paired_over(groups: Sequence[str], a: Sequence[Ratio], b: Sequence[Ratio]) -> Difference:
    """The same for utterances, by the names of their speakers (`units_of`). Raises `OptionError` as `paired` does."""
    units = units_of(groups)
    return paired(by_unit(a, units), by_unit(b, units))


def times(a: Sequence[Ratio], b: Sequence[Ratio], *, draws: int = DRAWS, seed: int = 0) -> tuple[float, float, float]:
    """How many times the ratio of B that of A is, and its interval, on the same units in the same order.

    Raises `OptionError` if their numbers differ, or if a ratio is undefined.
    """
    first, second = _both(a, b)
    drawn = [_ratios(counts @ first) / _ratios(counts @ second) for counts in _draws(len(first), draws, seed)]
    whole_a, whole_b = (float(_ratios(values.sum(axis=0)[None])[0]) for values in (first, second))
    return (whole_a / whole_b, *_percentiles(np.concatenate(drawn)))


def latencies(records: Sequence[Mapping[str, Any]]) -> list[Ratio]:
    """The confirmed latency of a run, unit by unit, from the records of its utterances (`score.judge`)."""
    return _by_unit(records, "confirmed_mean_s")


def compare(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> dict[str, Difference]:
    """WER and the three mean latencies of two runs, from the records of their utterances (`score.judge`).

    Utterances are paired by `id`; those that only one run has are left out of both. A figure that one of them does not
    have is left out of the result.
    """
    others = {record["id"]: record for record in b}
    pairs = [(record, others[record["id"]]) for record in a if record["id"] in others]
    units = units_in([record for record, _ in pairs])
    found: dict[str, Difference] = {}
    for name, ratio in _FIGURES.items():
        sides = [by_unit([ratio(record) for record in side], units) for side in zip(*pairs, strict=True)]
        if sides and all(sum(denominator for _, denominator in side) for side in sides):
            found[name] = paired(*sides)
    return found


def _errors(record: Mapping[str, Any]) -> Ratio:
    return float(record["errors"]), float(record["words"])


def _seconds(key: str, record: Mapping[str, Any]) -> Ratio:
    values = record.get(key) or ()
    return float(sum(values)), float(len(values))


_FIGURES: dict[str, Callable[[Mapping[str, Any]], Ratio]] = {
    "wer": _errors,
    "confirmed_mean_s": lambda record: _seconds("confirmed_s", record),
    "settled_mean_s": lambda record: _seconds("settled_s", record),
    "first_seen_mean_s": lambda record: _seconds("first_seen_s", record),
}


def _both(a: Sequence[Ratio], b: Sequence[Ratio]) -> tuple[Floats, Floats]:
    if len(a) != len(b):
        raise OptionError(f"expected the same utterances of both; got {len(a)} and {len(b)} units")
    return _array(a), _array(b)


def _array(units: Sequence[Ratio]) -> Floats:
    values = np.asarray(units, dtype=np.float64).reshape(-1, 2)
    if not values[:, 1].sum():
        raise OptionError("expected at least one utterance with something to count in it; got none")
    return values


def _draws(size: int, draws: int, seed: int) -> Iterator[Floats]:
    """How often each unit is drawn, [some draws, size]; both systems of a pair see the same."""
    drawn = _kept(size, draws, seed) if size <= _FEW else _counted(size, draws, seed)
    return (counts.astype(np.float64) for counts in drawn)


@lru_cache(maxsize=32)
def _kept(size: int, draws: int, seed: int) -> tuple[npt.NDArray[np.uint8], ...]:
    """To draw takes far longer than to weigh, and a page asks for many figures of as many utterances."""
    return tuple(counts.astype(np.uint8) for counts in _counted(size, draws, seed))


def _counted(size: int, draws: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    for begun in range(0, draws, _AT_ONCE):
        # How often each is drawn: the same as drawing numbers of units, and sums become one product of matrices.
        yield rng.multinomial(size, np.full(size, 1 / size), size=min(_AT_ONCE, draws - begun))


def _ratios(sums: Floats) -> Floats:
    """[n, 2] -> [n]; not a number where a draw has nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Floats = np.where(sums[:, 1] > 0, sums[:, 0] / sums[:, 1], np.nan)
    return ratios


def _percentiles(drawn: Floats) -> tuple[float, float]:
    tail = 50 * (1 - LEVEL)
    # Draws without anything to divide by say nothing, and are left out.
    low, high = np.nanpercentile(drawn, [tail, 100 - tail])
    return float(low), float(high)
