"""The rows of a siege as a page: what an honest session heard beside each kind, and the delays as a figure."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from noted_rows import Row

from hostile.goals import changed, grown_mb, lost, missed_goals
from hostile.kinds import EVERYTHING, KINDS, named
from whispertide.lab.evaluation import plots
from whispertide.lab.evaluation.page import stored_tables
from whispertide.streaming.allocation import processor

BEGIN, END = "<!-- figures: written by benchmarks/siege.py -->", "<!-- end of the figures -->"
HEAD = (
    "| beside it | alone: median s, worst | median s | worst s | ended | lost | changed | /healthz p99 s "
    "| memory MB: before, most, after "
    "| files | log kB | server CPU s: had, waited for | hostile CPU s | what the hostile met "
    "| load | code | missed |"
)
NUMBERS = "|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---|---|"
ANSWERS = ("HTTP", "close")  # of what the hostile met; the rest are errors of their sockets
MOST_MET = 3  # kinds of them in a cell


def write_page(path: Path, rows: Sequence[Row]) -> None:
    """The figures go between the two marks of the page, or make a new one; the plot into siege/delays.* next to it, and
    the tables as data into siege/figures.json. The last row of its kind counts.
    """
    newest = {(row["model"], row["protocol"], row["kind"], len(row["rounds_mb"])): row for row in rows}
    rows = sorted(newest.values(), key=_order)
    text = path.read_text(encoding="utf-8") if path.is_file() else f"# The siege\n\n{BEGIN}\n{END}\n"
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    table = "\n".join(figures(rows))
    path.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    folder = path.parent / "siege"
    folder.mkdir(exist_ok=True)
    (folder / "figures.json").write_text(stored_tables(table), encoding="utf-8")
    delays([row for row in rows if row["protocol"] == "native" and not row["rounds_mb"]], folder / "delays")


def _order(row: Row) -> tuple[bool, str, bool, str, int]:
    kinds = [*map(named, EVERYTHING)]
    place = kinds.index(row["kind"]) if row["kind"] in kinds else len(kinds)
    return row["model"] != "nano.en", row["model"], row["protocol"] != "native", row["protocol"], place


def figures(rows: Sequence[Row]) -> Iterator[str]:
    """The tables: one for each model and protocol, and one of many attacks on one server."""
    yield from (*kinds_table(), "")
    yield f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {processor()}."
    for place in dict.fromkeys((row["model"], row["protocol"]) for row in rows):
        mine = [row for row in rows if (row["model"], row["protocol"]) == place and not row["rounds_mb"]]
        if mine:
            audio = "".join(f" --audio {name}" for name in mine[0].get("audio", ()))
            command = f"`python benchmarks/siege.py --protocol {place[1]} -m {place[0]}{audio}`"
            yield from ("", f"### {place[1]}, `{place[0]}`", "", command, "", HEAD, NUMBERS, *map(_line, mine))
    if many := [row for row in rows if row["rounds_mb"]]:
        head = "| attacks of a second on one server | memory MB: before, after each tenth of them | more than before |"
        command = "`python benchmarks/siege.py --rounds N`"
        yield from ("", "### Many attacks", "", command, "", head, "|---|---|---:|", *map(_many, many))


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
    return "none" if value is None else f"{value:.2f}"


def _many(row: Row) -> str:
    before, _, after = row["memory_mb"]
    return (
        f"| `{row['kind']}`, {row['rounds']:,} | {before:.0f}, {after:.0f}, "
        f"{', '.join(f'{each:.0f}' for each in row['rounds_mb'])} | {grown_mb(row):.0f} |"
    )


def delays(rows: Sequence[Row], stem: Path) -> None:
    """The median delay beside each kind as a bar, with the worst as the end of its whisker."""
    bars = [
        plots.Bar(_label(row), row["median_s"] or 0.0, row["median_s"] or 0.0, row["worst_s"] or 0.0) for row in rows
    ]
    plots.bars(
        bars,
        x_label="seconds until a word stands for good: median, worst",
        title="An honest session beside hostile clients",
    ).save(stem)


def _label(row: Row) -> str:
    what = "" if row["median_s"] is not None else " (no word)"
    model = "" if row["model"] == "nano.en" else f", {row['model']}"
    return f"{row['kind']}{model}{what}"


def kinds_table() -> Iterator[str]:
    """What each kind does."""
    yield from ("| kind | clients | what it does |", "|---|---|---|")
    for name, kind in KINDS.items():
        yield f"| `{name}` | {', '.join(map(str, kind.usual))} | {kind.about} |"
