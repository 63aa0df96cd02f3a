"""The soak campaign: `make soak`, or `python benchmarks/soak.py --minutes 10` for a fair share of everything.

Servers are killed, drained, cut off, flooded with nonsense and given bad disks, thousands of times, while sessions
count their words; and a day of speech goes through one session. `benchmarks/campaign/` has a file per kind of harm.
What a seed finds is a line of JSON in bench-results/soak/CODE/SCENARIO.jsonl, CODE being the tree of `src`. Interrupt
it when you like (Ctrl-C, reboot): seeds that are there are not run again. Without `--minutes` it goes on until every
scenario has reached its target.

Each scenario runs in a process of its own, in slots, so that memory is its own and an interrupted campaign has some of
everything; where memory has to be flat, one process goes on to the end. Fails if a word was lost, changed or repeated
where the model knows them all, if a sentence was lost where it does not, or if anything else went wrong. `--page FILE`
writes what there is as a page, with the figure next to it; `--code` says of which versions, if not of the present one.
"""

import argparse
import logging
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from campaign.kinds import KINDS
from campaign.lines import Notes
from campaign.page import flatness, write_page
from campaign.scenario import Scenario
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

SLOT_S = 300.0  # of a scenario with share 1, where there is no end and memory does not count
SHORTEST_S = 2.0
LEAST_S = 60.0  # before an unfinished seed is given up, however short the campaign
WORKING = 0.95  # of the time that is given; the rest is for stopping
LOOK_S = 1.0
FLAT = 0.01  # memory may grow by so much after its warm-up


def work(scenario: Scenario, notes: Notes, until: float) -> None:
    """Run seeds that were not run, until it is late or the target is reached."""
    done = {line.seed: line.harm for line in notes.read(scenario.name)}
    harm, seed = sum(done.values()), 0
    logging.getLogger().addHandler(logging.NullHandler())  # what servers complain of here is meant to happen
    with scenario.opened(notes.folder) as run:
        while time.monotonic() < until and harm < scenario.target:
            if seed not in done:
                line = run(seed)
                line.process = os.getpid()
                notes.add(line)
                harm += line.harm
            seed += 1


def progress_of(scenario: Scenario, notes: Notes) -> tuple[int, int]:
    """Harm done, and failures."""
    lines = list(notes.read(scenario.name))
    return min(scenario.target, sum(line.harm for line in lines)), sum(line.failed for line in lines)


def slot(scenario: Scenario, folder: Path | None, seconds: float, deadline: float, show: Callable[[], None]) -> bool:
    """A process that works on one scenario for so long, and is stopped at the deadline; whether it ended well."""
    command = [sys.executable, __file__, "--work", scenario.name, "--seconds", str(seconds)]
    worker = subprocess.Popen([*command, "--folder", str(folder or "")])
    in_time = True
    try:
        while worker.poll() is None and in_time:
            show()
            time.sleep(LOOK_S)
            in_time = time.monotonic() < deadline
    finally:
        worker.terminate()  # after Ctrl-C, too
        worker.wait()
    show()
    return worker.returncode == 0 or not in_time


def campaign(scenarios: Sequence[Scenario], arguments: argparse.Namespace) -> list[str]:
    """All of it, or a fair share of each; returns the scenarios whose process died."""
    notes = Notes.here(arguments.folder)
    began, planned = time.monotonic(), WORKING * 60 * arguments.minutes if arguments.minutes else math.inf
    deadline = began + max(planned, LEAST_S)
    dead: list[str] = []
    columns = (TextColumn("{task.description:20}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"))
    with Progress(*columns, TextColumn("{task.fields[failed]}"), TimeElapsedColumn()) as bars:
        tasks = {each.name: bars.add_task(each.name, total=each.target, failed="") for each in scenarios}

        def show(scenario: Scenario) -> None:
            harm, failed = progress_of(scenario, notes)
            bars.update(tasks[scenario.name], completed=harm, failed=f"{failed} failed" if failed else "")

        while True:
            for at, scenario in enumerate(scenarios):
                show(scenario)
                if scenario.name in dead or progress_of(scenario, notes)[0] >= scenario.target:
                    continue
                seconds = math.inf if scenario.steady else SLOT_S * scenario.share
                if arguments.minutes:  # who takes longer than its share takes it from those that follow
                    left = sum(each.share for each in scenarios[at:])
                    seconds = (began + planned - time.monotonic()) * scenario.share / left
                seconds = max(SHORTEST_S, seconds)
                if not slot(scenario, arguments.folder, seconds, deadline, partial(show, scenario)):
                    dead.append(scenario.name)
            undone = [each for each in scenarios if progress_of(each, notes)[0] < each.target and each.name not in dead]
            if arguments.minutes or not undone:
                return dead


def grown(scenarios: Sequence[Scenario], notes: Notes) -> list[tuple[str, float]]:
    """Scenarios whose memory should be flat and is not, and by how much it grew."""
    changes = [(each.name, flatness(list(notes.read(each.name)))[2]) for each in scenarios if each.steady]
    return [(name, change) for name, change in changes if change > FLAT]


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.0, help="a fair share of every scenario in about so long")
    parser.add_argument("--only", default="", help=f"some of: {', '.join(each.name for each in KINDS)}")
    parser.add_argument("--page", type=Path, help="write the page, and run nothing")
    parser.add_argument("--code", default="", help="the page: versions of `src` whose lines are shown, best first")
    parser.add_argument("--folder", type=lambda text: Path(text) if text else None, help="where the lines are kept")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=60.0, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run what was asked for; exit code 1 if anything failed."""
    arguments = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is stopped, too
    names = [name for name in arguments.only.split(",") if name]
    named = [each for each in KINDS if not names or each.name in names]
    notes = Notes.here(arguments.folder)
    if arguments.page is not None:
        versions = [notes.folder.with_name(version) for version in arguments.code.split(",") if version]
        write_page(arguments.page, KINDS, [Notes(version) for version in versions] or [notes])
        return
    if arguments.work:
        (scenario,) = [each for each in KINDS if each.name == arguments.work]
        with suppress(KeyboardInterrupt):
            work(scenario, notes, time.monotonic() + arguments.seconds)
        return
    skipped = {each.name: reason for each in named if (reason := each.missing())}
    for name, reason in skipped.items():
        print(f"{name} is skipped: {reason}")
    scenarios = [each for each in named if each.name not in skipped]
    dead = campaign(scenarios, arguments)
    failed = [line for each in scenarios for line in notes.read(each.name) if line.failed]
    for line in failed[:20]:
        words = f"{line.lost} words lost, {line.changed} changed, {line.repeated} repeated"
        print(f"{line.scenario} seed {line.seed}: {words}. {line.problem[:300]}")
    for each in scenarios:
        if each.name not in dead and not any(notes.read(each.name)):
            print(f"{each.name}: no seed of it ended in the time that there was")
    for name in dead:
        print(f"{name}: its process ended with an error")
    growing = [] if arguments.minutes else grown(scenarios, notes)  # in minutes nothing has warmed up
    for name, change in growing:
        print(f"{name}: memory grew by {change:.1%}; expected at most {FLAT:.0%}")
    if failed or dead or growing:
        sys.exit(f"soak failed: {len(failed)} seeds, {len(dead)} processes; lines in {notes.folder}")
    print(f"nothing was lost; lines in {notes.folder}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on where this stopped")
