"""Finished cells by the names that a table shows: "tide", "tide 0.5 s", "whisper-streaming framing=bare base.en".

A name is some words of a cell's row, in any order; of the cells that have them all those with the fewest changes are
meant, so that "tide" is the unchanged one, and of those that measured the same thing the newest. The beginning of a
cell's key is a name, too.
"""

from collections.abc import Iterable, Sequence

from whispertide.errors import OptionError
from whispertide.tuning.page import Table, text_table
from whispertide_lab.evaluation.report import QUALITY, formatted
from whispertide_lab.evaluation.store import Cell

_KEY_DIGITS = 4  # at least; fewer are no name


def find(cells: Sequence[Cell], name: str) -> list[Cell]:
    """The cells of that name, one per question that was measured.

    Raises `OptionError` with all names there are if none has it.
    """
    words = set(name.split())
    matching = [cell for cell in cells if words <= _words(cell)] if words else []
    if not matching and len(name) >= _KEY_DIGITS:
        matching = [cell for cell in cells if cell.key.startswith(name)]
    if not matching:
        raise OptionError(
            f"expected a name, some words of a row, or a cell; got {name!r}. There are:\n{listing(cells)}"
        )
    fewest = min(len(cell.spec.changes) for cell in matching)
    newest = {cell.spec.question: cell for cell in matching if len(cell.spec.changes) == fewest}
    return list(newest.values())


def pairs(a: Sequence[Cell], b: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Each cell of A with that of B for the same model, corpus and clock; two single ones whatever they are.

    Raises `OptionError` where it is not clear which belong together.
    """
    if len(a) == len(b) == 1:
        return [(a[0], b[0])]
    found: list[tuple[Cell, Cell]] = []
    for place in dict.fromkeys(map(_place, a)):
        ours, theirs = ([cell for cell in side if _place(cell) == place] for side in (a, b))
        if len(ours) > 1 or len(theirs) > 1:
            several = listing(ours if len(ours) > 1 else theirs)
            raise OptionError(f"expected a name of one cell for each corpus; these have it, add words:\n{several}")
        found += zip(ours, theirs, strict=False)
    if not found:
        raise OptionError(f"expected two names with a model and a corpus in common; got\n{listing((*a, *b))}")
    return found


def listing(cells: Iterable[Cell]) -> str:
    """What can be named, as a table: the newest of each that measured the same thing."""
    newest = {cell.spec.question: cell for cell in cells}
    wer = QUALITY[0]
    rows = tuple(
        (
            cell.spec.label,
            cell.spec.step or None,
            cell.spec.model,
            cell.spec.corpus,
            cell.spec.clock,
            formatted(wer, cell.score),
            cell.date[:16].replace("T", " "),
            cell.key,
        )
        for cell in newest.values()
    )
    return text_table(Table(("recogniser", "step", "model", "corpus", "clock", wer.heading, "measured", "cell"), rows))


def _words(cell: Cell) -> set[str]:
    spec = cell.spec
    return set(" ".join((spec.label, spec.step, spec.model, spec.corpus, spec.clock, cell.key)).split())


def _place(cell: Cell) -> tuple[str, str, str]:
    return (cell.spec.model, cell.spec.corpus_hash, cell.spec.clock)
