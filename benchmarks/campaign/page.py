"""The lines of a campaign as a page: what was done, what was found, and memory over time as a figure."""

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, groupby, takewhile
from pathlib import Path

from campaign.lines import Line, Notes
from campaign.scenario import Scenario
from whispertide.recipes.allocation import processor
from whispertide.tuning.drawing import Curve
from whispertide_lab.evaluation import plots
from whispertide_lab.evaluation.markdown import stored_tables
from whispertide_lab.evaluation.plots import read

BEGIN, END = "<!-- figures: written by benchmarks/soak.py -->", "<!-- end of the figures -->"
WARM = 0.25  # of a process's lines come before its memory counts
POINTS = 200  # of a curve
FOUND = "| scenario | code | done | of | sessions | audio h | words | lost | changed | repeated | seeds that failed |"
DETAILS = "| scenario | unit | per minute | memory after warm-up, MB | at the end | change | notes |"
MISSING = "| words missing, by recording |"


def write_page(path: Path, scenarios: Sequence[Scenario], notes: Sequence[Notes]) -> None:
    """The figures go between the two marks of the page, or make a new one; the plot into soak/memory.* next to it, and
    the tables as data into soak/figures.json.

    Each scenario's lines are those of the first notes that have some. One that has none keeps its rows of the page: a
    campaign takes hours, and its lines may be on another machine.
    """
    lines = {each.name: next(filter(None, _all_lines(each, notes)), ("", [])) for each in scenarios}
    text = path.read_text(encoding="utf-8") if path.is_file() else f"# The soak campaign\n\n{BEGIN}\n{END}\n"
    before, rest = text.split(BEGIN)
    earlier, after = rest.split(END)
    table = "\n".join(figures(scenarios, lines, earlier.splitlines()))
    path.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    folder = path.parent / "soak"
    folder.mkdir(exist_ok=True)
    (folder / "figures.json").write_text(stored_tables(table), encoding="utf-8")
    memory({each.name: lines[each.name][1] for each in scenarios if each.steady}, folder / "memory")


def _all_lines(scenario: Scenario, notes: Sequence[Notes]) -> Iterator[tuple[str, list[Line]] | None]:
    """By version of the code; None where there are none."""
    for each in notes:
        lines = list(each.read(scenario.name))
        yield (each.folder.name, lines) if lines else None


def figures(
    scenarios: Sequence[Scenario], lines: Mapping[str, tuple[str, list[Line]]], earlier: Sequence[str] = ()
) -> Iterator[str]:
    """The tables: each scenario's code and lines, or what the rows of an earlier page say of it."""

    def kept(name: str, header: str) -> str:
        table = earlier[earlier.index(header) :] if header in earlier else []
        return next((row for row in takewhile(bool, table) if row.startswith(f"| `{name}` |")), "")

    yield f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {processor()}."
    yield ""
    yield FOUND
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for each in scenarios:
        found = lines[each.name]
        yield (not found[1] and kept(each.name, FOUND)) or _row(each, *found)
    yield ""
    yield DETAILS
    yield "|---|---|---:|---:|---:|---:|---|"
    for each in scenarios:
        found = lines[each.name]
        if row := _details(each, found[1]) if found[1] else kept(each.name, DETAILS):
            yield row
    livekit = lines["livekit"][1] if "livekit" in lines else []
    if livekit:
        yield from _missing(livekit)
    elif kept_rows := list(takewhile(bool, dropwhile(lambda row: not row.startswith(MISSING), earlier))):
        yield from ("", *kept_rows)


def _missing(lines: Sequence[Line]) -> Iterator[str]:
    """Words that are missing on each server after each kind of harm, recording by recording."""
    heard = [line for line in lines if "missing" in line.figures]
    if not heard:
        return
    harms = sorted({line.figures["harm"] for line in heard}, key=lambda harm: (harm != "nothing", harm))
    yield ""
    yield f"{MISSING} heard undisturbed | {' | '.join(harms)} |"
    yield f"|---|---:|{'---:|' * len(harms)}"
    for server in dict.fromkeys(line.figures["server"] for line in heard):
        mine = [line for line in heard if line.figures["server"] == server]
        cells = [
            ", ".join(str(line.figures["missing"]) for line in mine if line.figures["harm"] == harm) for harm in harms
        ]
        yield f"| {server} | {round(statistics.mean(line.words for line in mine))} | {' | '.join(cells)} |"


def _row(scenario: Scenario, code: str, lines: Sequence[Line]) -> str:
    def of(name: str) -> int:
        return sum(getattr(line, name) for line in lines)

    lost = [of("lost"), of("changed"), of("repeated")] if scenario.exact else ["", "", ""]
    hours = round(sum(line.audio_s for line in lines) / 3600, 1)
    failed = sum(line.failed for line in lines)
    done = [of("harm"), scenario.target, of("sessions"), hours, of("words"), *lost, f"{failed} of {len(lines)}"]
    return " | ".join((f"| `{scenario.name}`", f"`{code}`" if code else "", *(_number(each) for each in done))) + " |"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _details(scenario: Scenario, lines: Sequence[Line]) -> str:
    minutes = sum(line.wall_s for line in lines) / 60
    first, last, change = flatness(lines)
    memory = [f"{first:.1f}", f"{last:.1f}", f"{change:+.1%}"] if scenario.steady else [""] * 3
    notes = []
    for name, label in (("other_words", "other words"), ("cut_off", "conversations ended by the server")):
        if any(name in line.figures for line in lines):
            notes.append(f"{label}: {sum(line.figures.get(name, 0) for line in lines):,}")
    if any(line.told for line in lines):
        notes.append(f"losses that were told: {sum(line.told for line in lines):,}")
    if paces := [line.figures["pace"] for line in lines if "pace" in line.figures]:
        notes.append(f"{statistics.median(paces):.1f} times real time")
    rate = sum(line.harm for line in lines) / minutes if minutes else 0.0
    cells = [scenario.unit, f"{rate:,.0f}", *memory, "; ".join(notes)]
    return f"| `{scenario.name}` | " + " | ".join(cells) + " |"


def longest(lines: Sequence[Line]) -> list[Line]:
    """Those of the process that ran the most of them."""
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.process)]
    return max(runs, key=len, default=[])


def flatness(lines: Sequence[Line]) -> tuple[float, float, float]:
    """Resident memory in MB of the longest process: the median of the first tenth after its warm-up and of the last,
    and how much more the last is.
    """
    run = [line.rss_mb for line in longest(lines)]
    settled = run[int(WARM * len(run)) :]
    if not settled or not settled[0]:
        return 0.0, 0.0, 0.0
    some = max(1, len(settled) // 10)
    first, last = statistics.median(settled[:some]), statistics.median(settled[-some:])
    return first, last, last / first - 1


def memory(lines: Mapping[str, Sequence[Line]], stem: Path) -> None:
    """Resident memory of the longest process of each steady scenario, next to what it was after its warm-up."""
    table = stem.with_name(f"{stem.name}.csv")
    _, earlier, _ = read(table) if table.is_file() else ({}, [], [])
    curves = [each for each in earlier if not lines.get(each.label)]
    for name, found in lines.items():
        mine = longest(found)
        first, _, _ = flatness(mine)
        if len(mine) < 8 or not first:
            continue
        step = max(1, len(mine) // POINTS)
        minutes, x = 0.0, []
        for line in mine:
            minutes += line.wall_s / 60
            x.append(round(minutes, 2))
        y = tuple(round(100 * line.rss_mb / first, 2) for line in mine)
        curves.append(Curve(name, tuple(x[::step]), y[::step]))
    plots.over_time(
        curves,
        x_label="minutes that the scenario's process worked",
        y_label="memory, % of that after warm-up",
        title="Resident memory of the soak campaign's processes",
        zero=False,
    ).save(stem)
