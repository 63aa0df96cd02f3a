"""How many live sessions a server holds: paced audio over loopback, `python benchmarks/server.py`.

    load       everybody speaks in real time (blocks of 100 ms, starts spread over one second), and a word's latency is
               the moment it arrived as confirmed, less its end in the audio. Words are matched with the offline
               transcript of the same model, whose word times are used for every server alike; the share of matched
               words is told. A session that is refused, fails, or ends before its audio does, fails the run. The result
               is the largest number of sessions whose p95 is within the limit, and of whose words about as many are
               matched as of one session's (0.95 of that share). `as_alone` is how much of the text is
               that of a session that had the server for itself: late rounds hear more at once.
    overhead   a model that computes nothing: what the server adds to an event, next to a bare session
    cycles     connect, say something, abort: memory, threads and tasks before and after

The number is searched for: one session, `--first`, twice as many while they are in time, then the middle until the gap
is a quarter. A run ends as soon as it cannot pass any more. Where even one session is late, the limit is twice its p95,
and the result says so. Every run has a server of its own, warmed up by two seconds of speech.

Everybody says the same synthetic clips; with `--corpus people-utterances/report` each session says people's recordings,
beginning with another one than the others. `--journal none,nats` compares a server that keeps its sessions with one
that does not; `--peer` runs WhisperLiveKit's own server next to it where `make peers` installed it. Prints a line per
run as it is done, then one JSON line per server. `--notes FILE` remembers every run, so that what was cut off goes on
where it was; it does not know of changes to the code.
"""

import argparse
import asyncio
import json
import math
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from contenders import Contender, livekit, ours, started
from empty_server import cycles, overhead
from journals import JOURNALS, journal_at
from noted_rows import Notes, Row
from paced_sessions import Heard, Listen, Talk, beginning, in_common, make_talk, make_talks

from whispertide.checkpoint import load_checkpoint
from whispertide.model.providers import usable_cpus
from whispertide_lab.evaluation.corpora import open_corpus

PARTS = ("load", "overhead", "cycles")
PEER_POLICIES = ("localagreement", "simulstreaming")
WARM_UP_S = 2.0
LOOK_S = 2.0  # how often a run is looked at while it lasts
ROUNDS_S = (0.0, 0.03)  # of a model that computes nothing; nano.en takes some 0.03
LATE = 0.05  # of the words may be late: p95
MATCHED = 0.95  # of the share of words that are matched with one session; the latencies of fewer tell too little


# --- load ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Session:
    """What one says, and what it was sent."""

    talk: Talk
    heard: Heard = field(default_factory=Heard)

    @property
    def latencies(self) -> list[float]:
        """Of the words that are matched, in seconds."""
        return self.heard.latencies(self.talk)


async def together(listen: Listen, port: int, sessions: Sequence[Session], limit_s: float) -> float:
    """Let everybody hear at once; returns after how many seconds they were given up (0: they were not)."""
    await listen(port, beginning(sessions[0].talk, WARM_UP_S), Heard())
    began = time.perf_counter()

    async def one(number: int, session: Session) -> None:
        await asyncio.sleep(number / len(sessions))
        await listen(port, session.talk, session.heard)

    tasks = [asyncio.create_task(one(number, session)) for number, session in enumerate(sessions)]
    waiting: set[asyncio.Task[None]] = set(tasks)
    while waiting:
        _, waiting = await asyncio.wait(tasks, timeout=LOOK_S)
        if waiting and hopeless(sessions, limit_s):
            for task in waiting:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return round(time.perf_counter() - began, 1)
    return 0.0


def hopeless(sessions: Sequence[Session], limit_s: float) -> bool:
    """Whether more words came late already than may, or a session failed."""
    if math.isinf(limit_s):
        return False
    if any(session.heard.problem for session in sessions):
        return True
    late = sum(latency > limit_s for session in sessions for latency in session.latencies)
    return late > LATE * said_by(sessions)


def said_by(sessions: Sequence[Session]) -> int:
    """How many words they say together."""
    return sum(len(session.talk.words) for session in sessions)


def run_load(contender: Contender, talks: Sequence[Talk], number: int, limit_s: float, alone: Sequence[str]) -> Row:
    """So many sessions at once; the figures of all of them together. `alone` is what one says of the first talk that is
    alone.
    """
    busy = time.process_time()
    sessions = [Session(talk) for talk in islice(cycle(talks), number)]
    with started(contender) as port:
        given_up_s = asyncio.run(together(contender.listen, port, sessions, limit_s))
    texts = [[word for word, _ in session.heard.words] for session in sessions]
    usual = alone or (texts[0] if number == 1 else ())
    latencies = sorted(latency for session in sessions for latency in session.latencies)
    problems = {session.heard.problem for session in sessions if session.heard.problem}
    alike = [in_common(text, usual) for text in texts[:: len(talks)]] if usual else []
    return {
        "sessions": number,
        "p50_s": round(statistics.median(latencies), 3) if latencies else None,
        "p95_s": round(p95(latencies), 3) if latencies else None,
        "matched": round(len(latencies) / max(1, said_by(sessions)), 3),
        "as_alone": round(statistics.mean(alike), 4) if alike else None,
        "complete": sum(session.heard.complete for session in sessions),
        "given_up_s": given_up_s,
        "client_cpu_s": round(time.process_time() - busy, 1),
        "problems": sorted(problems)[:3],
        "text": texts[0] if number == 1 else [],
    }


def p95(latencies: Sequence[float]) -> float:
    """The least of them, in their order, than which no more than `LATE` are later."""
    return latencies[len(latencies) - 1 - math.floor(LATE * len(latencies))]


def in_time(row: Row, limit_s: float, alone: Row) -> bool:
    """Whether nothing was lost, p95 is within the limit, and it is of about as many words as with one session."""
    whole = row["complete"] == row["sessions"] and not row["problems"] and row["matched"] >= MATCHED * alone["matched"]
    return whole and row["p95_s"] is not None and row["p95_s"] <= limit_s


def search(measure: Callable[[int, float], Row], limit_s: float, first: int, most: int) -> tuple[int, float, list[Row]]:
    """The largest number of sessions in time, the limit that this is about, and all rows. Knows nothing of servers."""
    rows = [alone := measure(1, math.inf)]
    if not in_time(alone, limit_s, alone):
        limit_s = round(2 * (alone["p95_s"] or 0), 3)
    if not in_time(alone, limit_s, alone):
        return 0, limit_s, rows
    good, bad, sessions = 1, most + 1, max(2, min(first, most))
    while bad - good > max(1, good // 4):
        rows.append(measure(sessions, limit_s))
        if in_time(rows[-1], limit_s, alone):
            good = sessions
        else:
            bad = sessions
        sessions = min(2 * good, most) if bad > most else (good + bad) // 2
        if good == most:
            break
    return good, limit_s, rows


def load(arguments: argparse.Namespace, talks: Sequence[Talk], contender: Contender, notes: Notes) -> Row:
    """Search, or measure the numbers that were asked for; these are compared with the fewest sessions among them."""
    settings = {key: value for key, value in vars(arguments).items() if key in _DETERMINE}
    weights = load_checkpoint(arguments.model).content_hash
    known = [contender.name, contender.variant, weights, len(usable_cpus()), settings]
    alone: list[str] = []

    def measure(sessions: int, limit_s: float) -> Row:
        key = json.dumps([*known, sessions, limit_s, bool(alone)])
        row = notes.row(key, lambda: run_load(contender, talks, sessions, limit_s, alone))
        alone.extend(row["text"] if not alone else ())
        show(contender, row)
        return row

    if arguments.sessions:
        # The fewest first: what one says alone the others are compared with.
        rows = [measure(sessions, math.inf) for sessions in sorted(arguments.sessions)]
        limit_s, fewest = arguments.limit, min(rows, key=lambda row: row["sessions"])
        good = max((row["sessions"] for row in rows if in_time(row, limit_s, fewest)), default=0)
    else:
        good, limit_s, rows = search(measure, arguments.limit, arguments.first, arguments.most)
    told = [{key: value for key, value in row.items() if key != "text"} for row in rows]
    return {"server": contender.name, "variant": contender.variant, "most": good, "limit_s": limit_s, "rows": told}


_DETERMINE = {"recipe", "set", "precision", "threads", "workers", "duration", "degrade", "corpus"}


def show(contender: Contender, row: Row) -> None:
    """A line of the table."""
    names = ("sessions", "p50_s", "p95_s", "matched", "as_alone", "complete", "given_up_s", "client_cpu_s")
    figures = "  ".join(f"{name} {row[name]}" for name in names)
    print(f"{contender.name:15} {contender.variant:15} {figures}  {'; '.join(row['problems'])[:80]}", flush=True)


# --- all of it -------------------------------------------------------------------------------------------------------


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default="nano.en", help="a name or a folder (widened checkpoints too)")
    parser.add_argument("--recipe", default="")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument(
        "--journal", default="none", help=f"some of {', '.join(JOURNALS)}, to be compared; empty: the peer alone"
    )
    parser.add_argument("--first", type=int, default=8, help="sessions that are tried after one")
    parser.add_argument("--most", type=int, default=64, help="no more sessions than these")
    parser.add_argument("--sessions", default="", help="exactly these numbers, in place of the search")
    parser.add_argument("--corpus", default="", help="people-utterances/report: each session says other recordings")
    parser.add_argument("--duration", type=float, default=30.0, help="seconds of audio per session")
    parser.add_argument("--limit", type=float, default=1.5, help="p95 in seconds")
    parser.add_argument("--degrade", action="store_true", help="let the server lower its quality")
    parser.add_argument("--peer", action="store_true", help="WhisperLiveKit's server too, with both its policies")
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them")
    parser.add_argument("--notes", type=Path, help="a file that remembers every run")
    arguments = parser.parse_args()
    arguments.sessions = [int(item) for item in arguments.sessions.split(",") if item]
    arguments.journal = [kind for kind in arguments.journal.split(",") if kind]
    if unknown := {*arguments.journal} - {*JOURNALS}:
        parser.error(f"expected some of {', '.join(JOURNALS)}; got {', '.join(sorted(unknown))}")
    return arguments


def talks_of(arguments: argparse.Namespace) -> list[Talk]:
    """One for each session as long as the corpus has recordings; of the synthetic clips everybody says the same."""
    told = arguments.model, arguments.precision, arguments.duration
    if not arguments.corpus:
        return [make_talk(*told)]
    clips = [utterance.audio() for utterance in open_corpus(arguments.corpus).utterances()]
    return make_talks(*told, clips, max(arguments.sessions, default=arguments.most))


def all_loads(arguments: argparse.Namespace) -> Iterator[Row]:
    """Every contender's result."""
    talks, notes = talks_of(arguments), Notes(arguments.notes)
    for kind in arguments.journal:
        with journal_at(kind) as journal:
            yield load(arguments, talks, ours(arguments, journal, kind), notes)
    with tempfile.TemporaryDirectory() as links:
        for policy in PEER_POLICIES if arguments.peer else ():
            peer = livekit(arguments, policy, Path(links))
            yield (
                {"server": "whisperlivekit", "variant": policy, "reason": peer}
                if isinstance(peer, str)
                else load(arguments, talks, peer, notes)
            )


def main() -> None:
    """Run what was asked for."""
    arguments = parse()
    results: list[Row] = []
    if "load" in arguments.parts:
        results += all_loads(arguments)
    if "overhead" in arguments.parts:
        results += [asyncio.run(overhead(kind, round_s)) for round_s in ROUNDS_S for kind in arguments.journal]
    if "cycles" in arguments.parts:
        results.append(asyncio.run(cycles(arguments.cycles)))
    facts = {"machine": platform.machine(), "cores": len(usable_cpus()), "model": arguments.model}
    settings = {
        "corpus": arguments.corpus,
        "recipe": arguments.recipe,
        "set": arguments.set,
        "duration_s": arguments.duration,
    }
    for result in results:
        print(json.dumps({**result, **facts, **settings}))


if __name__ == "__main__":
    main()
