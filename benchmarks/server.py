"""How many live sessions a server holds: paced audio over loopback, `python benchmarks/server.py`.

    load       for each number of sessions: everybody speaks in real time (blocks of 100 ms, starts spread over one
               second), and a word's latency is the moment it arrived as confirmed, less its end in the audio. Words
               are matched with the offline transcript of the same model, whose word times are used for every server
               alike; the share of matched words is told. A session that is refused, fails, or ends before its audio
               does, fails the run. The largest number whose p95 is within the limit is the result. `as_alone` is how
               much of the text is that of the first run, which is one session unless `--sessions` says otherwise:
               in int8, decoder rows that share a graph run share a scale as well.
    overhead   a recipe that computes nothing, from the block that makes a round due to the event's arrival
    cycles     connect, say something, abort: memory, threads and tasks before and after

`--batch 1,8` compares batching with none; `--peer` runs WhisperLiveKit's own server beside it where `make peers`
installed it. Prints a table, then one JSON line per server.
"""

import argparse
import asyncio
import contextlib
import difflib
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.client import connect

from whispertide import api
from whispertide.audio.file import load_audio
from whispertide.types import SAMPLE_RATE, FloatArray, seconds

ROOT = Path(__file__).parents[1]
BLOCK = SAMPLE_RATE // 10
PAUSE = SAMPLE_RATE  # between two clips
PATIENCE_S = 60.0  # for the last words
CLIPS = ("river", "winter", "letter", "quiet")


@dataclass(frozen=True)
class Talk:
    """What every session says; `words` are (normalised text, end in seconds) as the model hears them offline."""

    samples: FloatArray
    words: tuple[tuple[str, float], ...]


@dataclass
class Heard:
    """What one session was sent: words in the order of their confirmation, each with its time since the first block."""

    words: list[tuple[str, float]] = field(default_factory=list)
    complete: bool = False
    problem: str = ""

    def latencies(self, talk: Talk) -> list[float]:
        """Of the words that the offline transcript has too."""
        mine, theirs = [word for word, _ in self.words], [word for word, _ in talk.words]
        blocks = difflib.SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
        return [
            self.words[block.a + step][1] - talk.words[block.b + step][1]
            for block in blocks
            for step in range(block.size)
        ]


# --- what is said ----------------------------------------------------------------------------------------------------


def make_talk(model: str, precision: Any, duration_s: float) -> Talk:
    """The clips one after the other, up to about that length, and their words."""
    transcriber = api.load(model, precision=precision)
    samples: list[FloatArray] = []
    words: list[tuple[str, float]] = []
    at = 0
    while seconds(at) < duration_s:
        clip = load_audio(ROOT / "tests" / "clips" / f"{CLIPS[len(samples) // 2 % len(CLIPS)]}.flac")
        words += [(plain(word.text), seconds(at + word.end)) for word in transcriber.transcribe(clip).words]
        samples += [clip, np.zeros(PAUSE, np.float32)]
        at += len(clip) + PAUSE
    return Talk(np.concatenate(samples), tuple(word for word in words if word[0]))


def plain(text: str) -> str:
    """A word without case and punctuation."""
    return re.sub(r"[^\w']", "", text.lower())


# --- two kinds of server ---------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def started(command: Sequence[str], port: int, environment: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A server process, from the moment it takes connections."""
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(1200):
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} ended with {process.returncode}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        else:
            raise RuntimeError(f"{command[0]} did not listen within two minutes")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def our_command(arguments: argparse.Namespace, port: int, batch: int) -> list[str]:
    """`whispertide serve` as it is measured."""
    command = [sys.executable, "-m", "whispertide.cli.main", "serve", "--model", arguments.model, "--port", str(port)]
    command += ["--precision", arguments.precision, "--threads", str(arguments.threads), "--batch", str(batch)]
    command += ["--workers", str(arguments.workers), "--max-sessions", "1000", "--log-level", "error"]
    command += ["--recipe", arguments.recipe] if arguments.recipe else []
    command += [] if arguments.degrade else ["--no-degrade"]
    return command + [item for change in arguments.set for item in ("--set", change)]


async def pace(talk: Talk, send: Callable[[bytes], Any]) -> None:
    """Send the talk as fast as it is spoken."""
    pcm = (np.clip(talk.samples, -1, 1) * 32767).astype("<i2")
    began = time.perf_counter()
    for start in range(0, len(pcm), BLOCK):
        block = pcm[start : start + BLOCK]
        await asyncio.sleep(max(0.0, began + (start + len(block)) / SAMPLE_RATE - time.perf_counter()))
        await send(block.tobytes())


async def listen_to_us(port: int, talk: Talk) -> Heard:
    """One session of the native protocol."""
    heard = Heard()
    async with connect(f"ws://127.0.0.1:{port}/ws", proxy=None, max_queue=None) as socket_:
        began = time.perf_counter()

        async def speak() -> None:
            await pace(talk, socket_.send)
            await socket_.send('{"type":"finish"}')

        speaking = asyncio.create_task(speak())
        try:
            async with asyncio.timeout(seconds(len(talk.samples)) + PATIENCE_S):
                async for message in socket_:
                    event, now = json.loads(message), time.perf_counter() - began
                    if event["type"] == "confirmed":
                        heard.words += [(plain(word["text"]), now) for word in event["words"] if plain(word["text"])]
                    elif event["type"] in ("problem", "error"):
                        heard.problem = event["message"]
                    elif event["type"] == "end":
                        heard.complete = abs(event["duration"] - seconds(len(talk.samples))) < 0.001
        except Exception as error:
            heard.problem = heard.problem or f"{type(error).__name__}: {error}"
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)
    return heard


async def listen_to_livekit(port: int, talk: Talk) -> Heard:
    """One session of WhisperLiveKit's own WebSocket: its `lines` are what it confirmed."""
    heard = Heard()
    async with connect(f"ws://127.0.0.1:{port}/asr", proxy=None, max_queue=None, max_size=None) as socket_:
        began = time.perf_counter()

        async def speak() -> None:
            await pace(talk, socket_.send)
            await socket_.send(b"")

        speaking = asyncio.create_task(speak())
        try:
            async with asyncio.timeout(seconds(len(talk.samples)) + PATIENCE_S):
                async for message in socket_:
                    state, now = json.loads(message), time.perf_counter() - began
                    if state.get("type") == "ready_to_stop":
                        heard.complete = True
                        break
                    text = " ".join(line.get("text") or "" for line in state.get("lines", ()))
                    words = [word for word in map(plain, text.split()) if word]
                    heard.words += [(word, now) for word in words[len(heard.words) :]]
        except Exception as error:
            heard.problem = f"{type(error).__name__}: {error}"
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)
    return heard


# --- load ------------------------------------------------------------------------------------------------------------


async def run_load(
    listen: Callable[[int, Talk], Any], port: int, talk: Talk, sessions: int, alone: list[str]
) -> dict[str, Any]:
    """So many sessions at once; the figures of all of them together. `alone` is what one says that has the server for
    itself; it is filled in by the first run.
    """

    async def one(number: int) -> Heard:
        await asyncio.sleep(number / sessions)
        heard: Heard = await listen(port, talk)
        return heard

    all_heard = await asyncio.gather(*(one(number) for number in range(sessions)))
    texts = [[word for word, _ in heard.words] for heard in all_heard]
    alone.extend(texts[0] if not alone else ())
    latencies = sorted(latency for heard in all_heard for latency in heard.latencies(talk))
    matched = len(latencies) / max(1, sessions * len(talk.words))
    return {
        "sessions": sessions,
        "p50_s": round(statistics.median(latencies), 3) if latencies else None,
        "p95_s": round(latencies[int(0.95 * (len(latencies) - 1))], 3) if latencies else None,
        "matched": round(matched, 3),
        "as_alone": round(statistics.mean(in_common(text, alone) for text in texts), 4),
        "complete": sum(heard.complete for heard in all_heard),
        "problems": sorted({heard.problem for heard in all_heard if heard.problem})[:3],
    }


def in_common(one: Sequence[str], other: Sequence[str]) -> float:
    """The share of words that two texts have in common, in order."""
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def most_sessions(rows: Sequence[dict[str, Any]], limit_s: float) -> int:
    """The largest number of sessions at which nothing was lost and p95 is within the limit."""
    good = [
        row["sessions"]
        for row in rows
        if row["complete"] == row["sessions"] and not row["problems"] and (row["p95_s"] or 1e9) <= limit_s
    ]
    return max(good, default=0)


def load(arguments: argparse.Namespace, talk: Talk, batch: int) -> dict[str, Any]:
    """All numbers of sessions against our server."""
    rows: list[dict[str, Any]] = []
    alone: list[str] = []
    port = free_port()
    with started(our_command(arguments, port, batch), port, {}):
        for sessions in arguments.sessions:
            rows.append(asyncio.run(run_load(listen_to_us, port, talk, sessions, alone)))
            show("whispertide", f"batch {batch}", rows[-1])
    return {"server": "whispertide", "batch": batch, "most": most_sessions(rows, arguments.limit), "rows": rows}


def load_livekit(arguments: argparse.Namespace, talk: Talk) -> dict[str, Any]:
    """The same against WhisperLiveKit's server, on the same weights."""
    from whispertide.checkpoint import load_checkpoint
    from whispertide.checkpoint.hub import resolve
    from whispertide.evaluation.peers.registry import PEERS
    from whispertide.evaluation.peers.running import _converted, environments, why_not

    peer = PEERS["whisperlivekit-localagreement"]
    if reason := why_not(peer):
        return {"server": "whisperlivekit", "reason": reason}
    folder = Path(arguments.model) if Path(arguments.model).is_dir() else resolve(arguments.model)
    model = _converted("ct2", Path(folder), load_checkpoint(arguments.model).content_hash, peer)
    port = free_port()
    command = [str(environments().absolute() / peer.environment / "bin" / "whisperlivekit-server")]
    command += ["--model-path", str(model), "--lan", "en", "--pcm-input", "--backend", "faster-whisper"]
    command += ["--backend-policy", "localagreement", "--warmup-file", "", "--port", str(port)]
    threads = {"OMP_NUM_THREADS": str(arguments.threads or 1), "HF_HUB_OFFLINE": "1"}
    rows: list[dict[str, Any]] = []
    alone: list[str] = []
    with started(command, port, threads):
        for sessions in arguments.sessions:
            rows.append(asyncio.run(run_load(listen_to_livekit, port, talk, sessions, alone)))
            show("whisperlivekit", "localagreement", rows[-1])
    return {"server": "whisperlivekit", "most": most_sessions(rows, arguments.limit), "rows": rows}


def show(server: str, variant: str, row: dict[str, Any]) -> None:
    """A line of the table."""
    figures = "  ".join(
        f"{key} {row[key]}" for key in ("sessions", "p50_s", "p95_s", "matched", "as_alone", "complete")
    )
    print(f"{server:15} {variant:15} {figures}  {'; '.join(row['problems'])[:80]}", flush=True)


# --- overhead and cycles ---------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def empty_server() -> AsyncIterator[Any]:
    """Our server with a model that answers at once: every round hears one word."""
    from types import SimpleNamespace

    from whispertide.events import RoundStats
    from whispertide.server.options import Limits, ServerOptions, Work
    from whispertide.server.serving import assemble, running
    from whispertide.session import Session
    from whispertide.streaming.recipes import get_recipe
    from whispertide.streaming.round import Heard as Segment
    from whispertide.streaming.round import RoundResult
    from whispertide.types import Span, Word

    class Instant:
        def run(self, plan: Any, audio: Any, options: Any, guards: Any = ()) -> RoundResult:
            word = Word(f" w{plan.id}", plan.window.start, plan.window.end)
            return RoundResult(plan, (Segment(Span(word.start, word.end), (word,)),), stats=RoundStats())

    class Model:
        dims = SimpleNamespace(is_multilingual=False)

        def session(self, recipe: Any, *, options: Any = None, vad: bool | None = None) -> Session:
            return Session(recipe, Instant(), None, options=options)

    models: Any = {"empty": Model()}
    recipe = get_recipe("whisper-streaming").replace(step_s=0.1)
    options = ServerOptions(limits=Limits(resume_s=0.5), work=Work(degrade=False))
    hub, close = assemble(models, recipe, options)
    async with running(hub) as server:
        yield server
    close()


async def overhead(rounds: int = 300) -> dict[str, Any]:
    """From a block that makes a round due to the event's arrival, beside the same in a bare session."""
    took: list[float] = []
    async with empty_server() as server, connect(f"ws://127.0.0.1:{server.port}/ws", proxy=None) as socket_:
        await socket_.recv()
        for _ in range(rounds):
            began = time.perf_counter()
            await socket_.send(bytes(2 * BLOCK))
            while json.loads(await socket_.recv())["type"] != "hypothesis":
                pass
            took.append(time.perf_counter() - began)
    took.sort()
    result = {"p50_ms": round(1000 * took[len(took) // 2], 2), "p95_ms": round(1000 * took[int(0.95 * len(took))], 2)}
    print(f"overhead        per event       {result}", flush=True)
    return {"overhead": result}


async def cycles(count: int) -> dict[str, Any]:
    """Connect, say something, abort."""

    def state() -> tuple[float, int, int]:
        status = Path("/proc/self/status").read_text() if Path("/proc/self/status").exists() else "VmRSS: 0\nThreads: 0"
        facts = dict(line.split(":", 1) for line in status.splitlines())
        return int(facts["VmRSS"].split()[0]) / 1024, int(facts["Threads"]), len(asyncio.all_tasks())

    async def some(server: Any, number: int) -> None:
        for cycle in range(number):
            async with connect(f"ws://127.0.0.1:{server.port}/ws", proxy=None) as socket_:
                await socket_.send(bytes(2 * BLOCK * (cycle % 4)))
                if cycle % 3:
                    await socket_.recv()
                socket_.transport.abort()

    async with empty_server() as server:
        await some(server, max(10, count // 5))
        await asyncio.sleep(1.5)
        before = state()
        await some(server, count)
        await asyncio.sleep(1.5)
        after = state()
        left = len(server.hub.sessions)
    result = {
        "count": count,
        "memory_mb": [round(before[0], 1), round(after[0], 1)],
        "threads": [before[1], after[1]],
        "tasks": [before[2], after[2]],
        "sessions_left": left,
    }
    print(f"cycles          {result}", flush=True)
    return {"cycles": result}


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="nano.en", help="a name or a folder (widened checkpoints too)")
    parser.add_argument("--recipe", default="")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch", default="1,8", help="sizes to compare")
    parser.add_argument("--sessions", default="1,2,4,8,16,24,32")
    parser.add_argument("--duration", type=float, default=60.0, help="seconds of audio per session")
    parser.add_argument("--limit", type=float, default=1.5, help="p95 in seconds")
    parser.add_argument("--degrade", action="store_true", help="let the server lower its quality")
    parser.add_argument("--peer", action="store_true", help="WhisperLiveKit's server too")
    parser.add_argument("--cycles", type=int, default=1000)
    arguments = parser.parse_args()
    arguments.sessions = [int(item) for item in arguments.sessions.split(",") if item]
    results: list[dict[str, Any]] = []
    if arguments.sessions:
        talk = make_talk(arguments.model, arguments.precision, arguments.duration)
        results += [load(arguments, talk, int(batch)) for batch in arguments.batch.split(",")]
        if arguments.peer:
            results.append(load_livekit(arguments, talk))
    results.append(asyncio.run(overhead()))
    if arguments.cycles:
        results.append(asyncio.run(cycles(arguments.cycles)))
    facts = {"machine": platform.machine(), "cores": os.cpu_count(), "model": arguments.model}
    settings = {"recipe": arguments.recipe, "set": arguments.set, "duration_s": arguments.duration}
    for result in results:
        print(json.dumps({**result, **facts, **settings}))


if __name__ == "__main__":
    main()
