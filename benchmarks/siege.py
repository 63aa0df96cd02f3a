"""What an honest session hears beside hostile clients: `python benchmarks/siege.py`, a page of it with `--page`.

`whispertide serve` runs in a process of its own on loopback, with a key for the honest and one for the hostile. The
honest session speaks at the pace of life; first alone, then beside one kind of hostile client (`hostile/kinds.py`),
which has a process of its own at low priority and an address of its own. A row says how long after its end in the audio
a word stood for good, whether the session ended and which words are missing, next to the same session alone a moment
before, so that a busy machine spoils both; how /healthz answered, twenty times a second; what became of the server's
memory, open files and log when the hostile were gone; and their processor time. The row `alone` has nobody beside it:
what two sessions in a row differ by. Where the server waited long for a core, others had the machine: measure again.

    python benchmarks/siege.py --kinds pings,unpaced:2         some kinds; with how many at once
    python benchmarks/siege.py --kinds unpaced:4+pings:4       two kinds at the same time
    python benchmarks/siege.py --protocol deepgram,wyoming     the honest session on other protocols
    python benchmarks/siege.py --kinds leave --rounds 1000     memory over a thousand attacks: minutes
    python benchmarks/siege.py --kinds uploads --rounds 1000 --hours 0.05     the same with short recordings
    python benchmarks/siege.py --page lab/docs/siege.md        put them on the page, whose other rows stay; run nothing

A row is a line of JSON in bench-results/siege/rows.jsonl, and is not measured again for the same code; `--again` does.
A row fails where it misses a goal (`hostile/goals.py`). Exit code 1 if one did.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from os import getloadavg
from pathlib import Path

from campaign.lines import code
from campaign.processes import process
from contenders import free_port
from honest_sessions import PROTOCOLS, Place
from hostile import material
from hostile.goals import MEMORY_MB, changed, lost, missed_goals
from hostile.kinds import EVERYTHING, KINDS, TOGETHER, Siege, named, parsed
from hostile.page import write_page
from hostile.party import Party, Where, parties
from noted_rows import Notes, Row
from paced_sessions import CLIPS, Heard, Talk, beginning, make_talk
from vitals import Vitals, probed, vitals

from whispertide.types import seconds

HONEST, HOSTILE = "honest-key-0001", "hostile-key-0001"
FOLDER = Path(__file__).parents[1] / "bench-results" / "siege"
WARM_UP_S = 3.0
LATE_S = 30.0  # after its audio; an honest session that has not ended then will not
SETTLED_S = 75.0  # until memory is back: abandoned sessions wait a minute for their clients
ROUND_S = 0.1  # of one of many attacks: each client has begun at least once by then


@dataclass(frozen=True)
class Town:
    """A server that runs."""

    place: Place
    pid: int
    material: Path

    @property
    def where(self) -> Where:
        """What the hostile are told of it."""
        return Where(self.place.port, self.place.ports, HOSTILE, str(self.material))


@asynccontextmanager
async def town(model: str, folder: Path) -> AsyncIterator[Town]:
    """A server of its own for a row."""
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write(f"{HONEST}\n{HOSTILE}\n")
        keys.flush()
        ports = {"wyoming": free_port(), "lines": free_port()}
        command = [sys.executable, "-m", "whispertide.cli.main", "serve", "--model", model, "--port", "0"]
        command += ["--threads", "1", "--no-tune", "--api-keys", keys.name]
        command += [item for name, port in ports.items() for item in (f"--{name}-port", str(port))]
        async with process(command) as (running, port):
            yield Town(Place(port, ports, HONEST), running.pid, folder)


# --- one row ---------------------------------------------------------------------------------------------------------


async def honest(one: Town, protocol: str, talk: Talk) -> Heard:
    """An honest session; one that does not end is given up."""
    heard = Heard()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds(len(talk.samples)) + LATE_S):
            await PROTOCOLS[protocol](one.place, talk, heard)
    return heard


async def measure(asked: argparse.Namespace, protocol: str, siege: Siege, talk: Talk, folder: Path) -> Row:
    """A server, an honest session on it, and the hostile ones beside it."""
    async with town(asked.model, folder) as one, parties(siege, one.where) as sent:
        await honest(one, protocol, beginning(talk, WARM_UP_S))
        alone = await honest(one, protocol, talk)
        before = vitals(one.pid)
        longest_s = seconds(len(talk.samples)) + LATE_S
        ahead_s = max((KINDS[each.name].ahead_s for each in siege), default=0.0)
        async with attacked(sent, ahead_s, longest_s) as reports, probed(one.place.port) as probes:
            heard = await honest(one, protocol, talk)
            during = vitals(one.pid)
        after, settled_s = await settled(one.pid, before)
        rounds = [round(each.memory_mb, 1) async for each in many(one, sent, asked.rounds, before)]
    return {
        "kind": named(siege),
        "protocol": protocol,
        "model": Path(asked.model).name,
        "audio": [path.name for path in asked.audio],
        "hours": asked.hours,
        "duration_s": round(seconds(len(talk.samples)), 1),
        **outcome(heard, talk),
        "alone": outcome(alone, talk),
        "ended": heard.complete,
        "problem": heard.problem,
        "probe_p99_s": round(probes.p99, 3),
        "probes": [len(probes.took), probes.failed],
        "memory_mb": [round(each, 1) for each in (before.memory_mb, during.most_mb, after.memory_mb)],
        "settled_s": round(settled_s, 1),
        "files": [before.files, during.files, after.files],
        "log_kb": round(after.log_kb - before.log_kb, 1),
        "server_cpu_s": round(during.cpu_s - before.cpu_s, 1),
        "server_waited_s": round(during.waited_s - before.waited_s, 1),
        "hostile": reports,
        "rounds": asked.rounds,
        "rounds_mb": rounds,
        "load": round(getloadavg()[0], 1),
        "code": code(),
        "date": time.strftime("%Y-%m-%d"),
    }


def outcome(heard: Heard, talk: Talk) -> Row:
    """Its words, and their delays in seconds."""
    delays = sorted(heard.latencies(talk))
    return {
        "median_s": round(statistics.median(delays), 3) if delays else None,
        "worst_s": round(delays[-1], 3) if delays else None,
        "words": [word for word, _ in heard.words],
    }


@asynccontextmanager
async def attacked(sent: Sequence[Party], ahead_s: float, longest_s: float) -> AsyncIterator[list[Row]]:
    """The hostile ones are loose meanwhile, and begin before; what they report is there afterwards."""
    reports: list[Row] = []
    for party in sent:
        await party.attack(ahead_s + longest_s)
    await asyncio.sleep(ahead_s)
    try:
        yield reports
    finally:
        reports += await asyncio.gather(*(party.called_back() for party in sent))


async def settled(pid: int, before: Vitals) -> tuple[Vitals, float]:
    """The server some time after the hostile ones are gone: as soon as memory and files are back, or at last."""
    began = time.monotonic()
    while True:
        await asyncio.sleep(1.0)
        now, took = vitals(pid), time.monotonic() - began
        back = now.memory_mb - before.memory_mb <= MEMORY_MB and now.files <= before.files + 2
        if back or took > SETTLED_S:
            return now, took


async def many(one: Town, sent: Sequence[Party], rounds: int, before: Vitals) -> AsyncIterator[Vitals]:
    """The same attack over and over on this server; how it fares after each tenth of the rounds."""
    for number in range(rounds if sent else 0):
        async with attacked(sent, ROUND_S, 0.0):
            pass
        if (number + 1) % max(1, rounds // 10) == 0:
            yield (await settled(one.pid, before))[0]


# --- all of them -----------------------------------------------------------------------------------------------------


def rows(asked: argparse.Namespace, talk: Talk, folder: Path) -> Iterator[Row]:
    """What was asked for, one after the other."""
    notes = Notes(asked.rows)
    names = [path.name for path in asked.audio]
    for protocol in asked.protocol:
        for siege in asked.kinds:
            key = json.dumps(
                [code(), protocol, named(siege), asked.model, asked.duration, asked.rounds, asked.hours, *names]
            )
            if asked.again:
                notes.rows.pop(key, None)
            yield notes.row(key, lambda: asyncio.run(measure(asked, protocol, siege, talk, folder)))  # noqa: B023


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="all", help="some of them, `all`, or `two` for two kinds at once")
    parser.add_argument("--protocol", default="native", help=f"some of {', '.join(PROTOCOLS)}, or all")
    parser.add_argument("--model", "-m", default="nano.en")
    parser.add_argument("--duration", type=float, default=8.0, help="seconds of speech, about")
    parser.add_argument("--audio", type=Path, action="append", default=[], help="what is said; repeatable")
    parser.add_argument("--hours", type=float, default=material.SILENCE_HOURS, help="of silence in what is uploaded")
    parser.add_argument("--rounds", type=int, default=0, help="attacks on one server after that, for its memory")
    parser.add_argument("--again", action="store_true", help="measure rows anew that are there")
    parser.add_argument("--rows", type=Path, default=FOLDER / "rows.jsonl", help="where the rows are kept")
    parser.add_argument("--page", type=Path, help="put the rows on the page, and run nothing")
    asked = parser.parse_args()
    kinds = {"all": EVERYTHING, "two": [each for text in TOGETHER for each in parsed(text)]}.get(asked.kinds)
    try:
        asked.kinds = kinds or [each for text in asked.kinds.split(",") if text for each in parsed(text)]
    except ValueError as error:
        parser.error(str(error))
    asked.protocol = list(PROTOCOLS) if asked.protocol == "all" else asked.protocol.split(",")
    if unknown := {*asked.protocol} - {*PROTOCOLS}:
        parser.error(f"expected some of {', '.join(PROTOCOLS)}; got {', '.join(sorted(unknown))}")
    return asked


def show(row: Row, missed: Sequence[str]) -> None:
    """A line of what was measured."""
    met = Counter[str]()
    for report in row["hostile"]:
        met.update(report.get("met", {}))
    cpu_s = sum(report.get("cpu_s", 0.0) for report in row["hostile"])
    alone = row["alone"]
    print(
        f"{row['protocol']:11} {row['kind']:20} median {row['median_s']} worst {row['worst_s']} "
        f"(alone {alone['median_s']}, {alone['worst_s']}) ended {row['ended']} lost {lost(row)} changed {changed(row)} "
        f"healthz {row['probe_p99_s']} MB {row['memory_mb']} files {row['files']} log {row['log_kb']} kB "
        f"server {row['server_cpu_s']} s, waited {row['server_waited_s']} s hostile {cpu_s:.1f} s {dict(met)} "
        f"load {row['load']} {row['problem'][:100]} "
        f"{'FAILED: ' + ', '.join(missed) if missed else 'held'}",
        flush=True,
    )


def main() -> None:
    """Run what was asked for."""
    asked = parse()
    if asked.page is not None:
        write_page(asked.page, [*Notes(asked.rows).rows.values()])
        return
    talk = make_talk(asked.model, "int8", asked.duration, asked.audio or CLIPS)
    folder = (
        FOLDER / "material" / "-".join([f"{asked.hours:g}h-{asked.duration:g}s", *(path.stem for path in asked.audio)])
    )
    if not folder.exists():
        material.make(folder, talk.samples, asked.hours)
    failures = 0
    for row in rows(asked, talk, folder):
        missed = missed_goals(row)
        failures += bool(missed)
        show(row, missed)
    sys.exit(f"{failures} rows failed" if failures else 0)


if __name__ == "__main__":
    main()
