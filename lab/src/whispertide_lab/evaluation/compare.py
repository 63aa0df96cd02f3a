"""Two cells, or two folders of cells, against each other: paired differences, and a verdict in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whispertide.errors import OptionError
from whispertide.tuning.page import Table
from whispertide_lab.evaluation import bootstrap
from whispertide_lab.evaluation.bootstrap import MANY, UNITS, Difference
from whispertide_lab.evaluation.marks import is_aligned, latency_marks
from whispertide_lab.evaluation.report import is_unreliable
from whispertide_lab.evaluation.store import Cell
from whispertide_lab.evaluation.trace import FREE, PROCESSOR


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure that is better when lower, and how it is written: its name, its unit, and its scale."""

    key: str
    name: str
    unit: str
    scale: float
    digits: int

    def written(self, value: float, sign: str = "") -> str:
        """The value without its unit; `sign` "+": always with a sign."""
        return f"{self.scale * value:{sign}.{self.digits}f}"

    def span(self, found: Difference) -> str:
        """The interval of a difference."""
        return f"{self.written(found.low)} to {self.written(found.high)}"


MEASURES = (
    Measure("wer", "WER", "points", 100, 2),
    Measure("confirmed_mean_s", "confirmed latency", "s", 1, 3),
    Measure("settled_mean_s", "settled latency", "s", 1, 3),
    Measure("first_seen_mean_s", "first-seen latency", "s", 1, 3),
)
_VERDICTS = MEASURES[:2]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What B has more than A, figure by figure."""

    a: Cell
    b: Cell
    differences: Mapping[str, Difference]

    @property
    def names(self) -> tuple[str, str]:
        """What A and B are called: clocks and keys are told only where they would be called the same."""
        a, b = (f"{cell.spec.label} {cell.spec.step}".rstrip() for cell in (self.a, self.b))
        if a == b and self.a.spec.clock != self.b.spec.clock:
            a, b = f"{a} ({self.a.spec.clock})", f"{b} ({self.b.spec.clock})"
        return (a, b) if a != b else (f"{a} [{self.a.key}]", f"{b} [{self.b.key}]")

    @property
    def place(self) -> str:
        """On what they were measured: model, corpus and clock of A."""
        return f"{self.a.spec.model} on {self.a.spec.corpus}, {self.a.spec.clock} clock"

    @property
    def table(self) -> Table:
        """Both figures, the difference and its interval."""
        rows = []
        for measure in MEASURES:
            if found := self.differences.get(measure.key):
                marked = [latency_marks(cell.score) if measure.unit == "s" else "" for cell in (self.a, self.b)]
                figures = [measure.written(value) for value in (found.a, found.b, found.difference)]
                figures[:2] = (figure + mark for figure, mark in zip(figures, marked, strict=False))
                unit = "%" if measure.unit == "points" else measure.unit
                rows.append((f"{measure.name} {unit}", *figures, measure.span(found)))
        return Table(("", "A", "B", "B - A", "95 % interval"), tuple(rows), f"Intervals are over {UNITS}.")

    @property
    def verdict(self) -> str:
        """One line. Only an interval without zero is called a difference."""
        parts = [_said(m, self.differences[m.key]) for m in _VERDICTS if m.key in self.differences]
        count = min((found.units for found in self.differences.values()), default=0)
        caveat = f" (only {count} {UNITS}: intervals are too narrow)" if count < MANY else ""
        aligned = (
            " (word times by forced alignment: no claim about latency)"
            if any(is_aligned(cell.score) for cell in (self.a, self.b))
            else ""
        )
        few = " (fewer words matched than offline: do not rely on latencies)" if is_unreliable((self.a, self.b)) else ""
        return f"B against A: {'; '.join(parts)}{caveat}{few}{aligned}"


def compare(a: Cell, b: Cell) -> Comparison:
    """Compare two cells, paired by utterance. Raises `OptionError` if they did not hear the same corpus.

    A simulated and a live cell can be compared, because both take computing's time; with a free one they cannot.
    """
    if a.spec.corpus_hash != b.spec.corpus_hash:
        raise OptionError(
            f"expected two cells of one corpus; got {a.spec.corpus} ({a.spec.corpus_hash}) and {b.spec.corpus} "
            f"({b.spec.corpus_hash})"
        )
    if a.spec.clock != b.spec.clock and {FREE, PROCESSOR} & {a.spec.clock, b.spec.clock}:
        raise OptionError(f"expected two cells of one clock; got {a.spec.clock} and {b.spec.clock}")
    differences = bootstrap.compare(a.utterances, b.utterances)
    if not differences:
        raise OptionError(f"expected utterances that both cells have; {a.key} and {b.key} share none")
    return Comparison(a, b, differences)


def compare_all(a: Sequence[Cell], b: Sequence[Cell]) -> list[Comparison]:
    """One cell with one cell; else every cell of A with the newest of B that measured the same thing.

    Raises `OptionError` if nothing can be paired.
    """
    if len(a) == len(b) == 1:
        return [compare(a[0], b[0])]
    partners = {cell.spec.question: cell for cell in b}
    newest = {cell.spec.question: cell for cell in a}
    pairs = [(cell, partners[question]) for question, cell in newest.items() if question in partners]
    if not pairs:
        raise OptionError("expected cells that measured the same thing in both folders; none did: name two cells")
    return [compare(*pair) for pair in pairs]


def _said(measure: Measure, found: Difference) -> str:
    amount = measure.written
    if not found.certain:
        size = f"{amount(found.difference)}, 95 % {measure.span(found)} {measure.unit}"
        return f"no clear difference in {measure.name} ({size})"
    direction = "lower" if found.difference < 0 else "higher"
    small, large = sorted((abs(found.low), abs(found.high)))
    size = amount(abs(found.difference))
    return f"{measure.name} {direction} by {size} {measure.unit} (95 % {amount(small)} to {amount(large)})"
