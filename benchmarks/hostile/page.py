"""The rows of a siege as a page: what an honest session heard beside each kind, and the delays as a figure."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from noted_rows import Row

from hostile.goals import changed, grown_mb, lost, missed_goals
from hostile.kinds import EVERYTHING, KINDS, named
from hostile.material import SILENCE_HOURS
from whispertide.recipes.allocation import processor
from whispertide_lab.evaluation import plots
from whispertide_lab.evaluation.markdown import stored_tables

BEGIN, END = "<!-- figures: written by benchmarks/siege.py -->", "<!-- end of the figures -->"
HEAD = (
    "| hostile clients | alone: median s, worst | median s | worst s | ended | lost | changed | /healthz p99 s "
    "| memory MB: before, most, after "
    "| files | log kB | server CPU s: used, waited | hostile CPU s | answers to them "
    "| load | code | missed |"
)
MANY = "Many attacks"
MANY_HEAD = "| attacks on one server | memory MB: before, after each tenth of them | more than before |"
NONE = "none"  # no word
NUMBERS = "|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---|---|"
ANSWERS = ("HTTP", "close")  # of what the hostile met; the rest are errors of their sockets
MOST_MET = 3  # kinds of them in a cell


@dataclass
class Table:
    """The command that measures it, and its lines by their kind."""

    command: str
    lines: dict[str, str] = field(default_factory=dict)

    def ordered(self) -> list[str]:
        """As the kinds are listed."""
        return [self.lines[kind] for kind in sorted(self.lines, key=_order)]


Tables = dict[str, Table]  # by their heading


def write_page(path: Path, rows: Sequence[Row]) -> None:
    """The figures go between the two marks of the page, or make a new one; the plot into siege/delays.* next to it, and
    the tables as data into siege/figures.json. The last row of its kind counts; one that is on the page and was not
    measured again stays there.
    """
    text = path.read_text(encoding="utf-8") if path.is_file() else f"# Hostile clients\n\n{BEGIN}\n{END}\n"
    before, rest = text.split(BEGIN)
    there, after = rest.split(END)
    tables = merged(there, rows)
    table = "\n".join(figures(tables))
    path.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    folder = path.parent / "siege"
    folder.mkdir(exist_ok=True)
    (folder / "figures.json").write_text(stored_tables(table), encoding="utf-8")
    delays({place: table for place, table in tables.items() if place.startswith("native, ")}, folder / "delays")


def merged(there: str, rows: Sequence[Row]) -> Tables:
    """The lines on a page, and those of the rows in their place."""
    tables: Tables = {}
    lines = there.splitlines()
    for number, (line, below) in enumerate(pairwise([*lines, ""])):
        if line.startswith("### "):
            place = line.removeprefix("### ")
            tables[place] = Table(lines[number + 2])
        elif tables and line.startswith("| ") and not below.startswith("|---"):  # which is under a head
            tables[place].lines[_kind(line)] = line
    for row in rows:
        place, table, line = _of_row(row)
        tables.setdefault(place, table).lines[_kind(line)] = line
    ordered = sorted(tables, key=lambda place: (place == MANY, "nano.en" not in place, "native" not in place, place))
    return {place: tables[place] for place in ordered}


def _of_row(row: Row) -> tuple[str, Table, str]:
    """Where a row stands, an empty table of that place, and its line."""
    if row["rounds_mb"]:
        return MANY, Table("`python benchmarks/siege.py --rounds N`"), _many(row)
    audio = "".join(f" --audio {name}" for name in row.get("audio", ()))
    asked = f"--protocol {row['protocol']} -m {row['model']}{audio}"
    return f"{row['protocol']}, `{row['model']}`", Table(f"`python benchmarks/siege.py {asked}`"), _line(row)


def _kind(line: str) -> str:
    return _cells(line)[0].replace("`", "")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _order(kind: str) -> int:
    kinds, name = [*map(named, EVERYTHING)], kind.split(",")[0]
    return kinds.index(name) if name in kinds else len(kinds)


def figures(tables: Tables) -> Iterator[str]:
    """The tables: one for each model and protocol, and one of many attacks on one server."""
    yield from (*kinds_table(), "")
    yield f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {processor()}."
    for place, table in tables.items():
        head, numbers = (MANY_HEAD, "|---|---|---:|") if place == MANY else (HEAD, NUMBERS)
        yield from ("", f"### {place}", "", table.command, "", head, numbers, *table.ordered())


def _line(row: Row) -> str:
    met, cpu_s = Counter[str](), 0.0
    for report in row["hostile"]:
        met.update({name: count for name, count in report.get("met", {}).items() if name.startswith(ANSWERS)})
        cpu_s += report.get("cpu_s", 0.0)
    cells = [
        f"`{row['kind']}`" if row["hostile"] else row["kind"],
        f"{_seconds(row['alone']['median_s'])}, {_seconds(row['alone']['worst_s'])}",
        _seconds(row["median_s"]),
        _seconds(row["worst_s"]),
        "yes" if row["ended"] else "**no**",
        lost(row),
        changed(row),
        f"{row['probe_p99_s']:.2f}",
        ", ".join(f"{each:.0f}" for each in row["memory_mb"]),
        ", ".join(map(str, row["files"])),
        f"{row['log_kb']:.0f}",
        f"{row['server_cpu_s']}, {row['server_waited_s']}",
        f"{cpu_s:.1f}",
        ", ".join(f"{name} {count:,}" for name, count in met.most_common(MOST_MET)),
        row["load"],
        f"`{row['code']}`",
        "; ".join(missed_goals(row)),
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def _many(row: Row) -> str:
    before, _, after = row["memory_mb"]
    hours = f", --hours {row['hours']:g}" if row.get("hours", SILENCE_HOURS) != SILENCE_HOURS else ""
    return (
        f"| `{row['kind']}`, {row['rounds']:,}{hours} | {before:.0f}, {after:.0f}, "
        f"{', '.join(f'{each:.0f}' for each in row['rounds_mb'])} | {grown_mb(row):.0f} |"
    )


def delays(tables: Tables, stem: Path) -> None:
    """The median delay beside each kind as a bar, with the worst as the end of its whisker."""
    bars: list[plots.Bar] = []
    for place, table in tables.items():
        model = place.replace("`", "").split(", ")[1]
        for line in table.ordered():
            kind, (median, worst) = _kind(line), _cells(line)[2:4]
            label = kind if model == "nano.en" else f"{kind}, {model}"
            if median == NONE:
                bars.append(plots.Bar(f"{label} (no word)", 0.0, 0.0, 0.0))
            else:
                bars.append(plots.Bar(label, float(median), float(median), float(worst)))
    plots.bars(
        bars,
        x_label="seconds until a word is confirmed: median, worst",
        title="An honest session next to hostile clients",
    ).save(stem)


def kinds_table() -> Iterator[str]:
    """What each kind does."""
    yield from ("| kind | clients | what it does |", "|---|---|---|")
    for name, kind in KINDS.items():
        yield f"| `{name}` | {', '.join(map(str, kind.usual))} | {kind.about} |"
