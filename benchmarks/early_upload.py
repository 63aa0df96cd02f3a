"""What it saves to send an utterance while it is spoken: `python benchmarks/early_upload.py [--write FILE.json]`.

Sentences of the synthetic talks of 2 to 8 s come in real time, and every one that had a pilot goes to a server: all of
it after the last word, or its beginning from the first pilot on (`executor.early`). The server is `whispertide serve`
in a process of its own, over a link on loopback with a round trip and a rate of its own for each connection.

Prints the wait from the end of the audio to the final text, as wall time: other load on the machine counts. Source:
pilot inference (arXiv 2311.17065), 4; the paper does not send early.
"""

import argparse
import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from contenders import Contender, started
from paced_sessions import listen_to_us
from rich.progress import Progress

import whispertide
from whispertide.api import Transcriber
from whispertide.events import Confirmed, Event
from whispertide.methods.pilot.hybrid import HybridExecutor, HybridStages
from whispertide.methods.pilot.offramp import Offramp
from whispertide.methods.pilot.remote import Remote, Server
from whispertide.recipes.catalogue import get_recipe
from whispertide.session import Session
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation.corpora import open_corpus
from whispertide_lab.evaluation.corpora.parts import Excerpt
from whispertide_lab.evaluation.items.commands import Sentence, sentences

LINKS = ((0.05, 20e6), (0.1, 5e6), (0.1, 1e6), (0.3, 0.3e6))  # round trip in s, bits per s
WITHIN_S = 20.0
BLOCK = SAMPLE_RATE // 10
AT_ONCE = 3  # sentences that are spoken at the same time, each to a link of its own
PIECE = 1024  # bytes that go over a link at once


@dataclass(frozen=True, slots=True)
class Link:
    """A road to a server. What is sent arrives half a round trip later, and no faster than its rate."""

    trip_s: float
    bits_per_s: float
    port: int  # of the server

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, with another one to the server; opening it takes a round trip."""
        with suppress(asyncio.CancelledError):  # the end of a measurement
            await asyncio.sleep(self.trip_s)
            back, there = await asyncio.open_connection("127.0.0.1", self.port)
            await asyncio.gather(self._carry(reader, there, self.bits_per_s), self._carry(back, writer, 0.0))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: float) -> None:
        """From one to the other; rate 0: as fast as it comes."""
        arriving: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivered = asyncio.create_task(_deliver(arriving, writer))
        free_at = time.monotonic()
        with suppress(ConnectionError):
            while data := await reader.read(PIECE):
                free_at = max(free_at, time.monotonic()) + (8 * len(data) / rate if rate else 0.0)
                arriving.put_nowait((free_at + self.trip_s / 2, data))
                await asyncio.sleep(max(0.0, free_at - time.monotonic()))
        arriving.put_nowait((time.monotonic() + self.trip_s / 2, b""))
        await delivered


async def _deliver(arriving: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while True:
            at, data = await arriving.get()
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()


@contextmanager
def linked(trip_s: float, bits_per_s: float, port: int) -> Iterator[int]:
    """A link on a thread of its own; gives the port where it begins."""
    ready = threading.Event()
    found = dict[str, Any]()

    async def listen() -> None:
        server = await asyncio.start_server(Link(trip_s, bits_per_s, port).join, "127.0.0.1", 0)
        found.update(port=server.sockets[0].getsockname()[1], loop=asyncio.get_running_loop(), stop=asyncio.Event())
        ready.set()
        await found["stop"].wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(listen()), daemon=True)
    thread.start()
    ready.wait()
    yield found["port"]
    found["loop"].call_soon_threadsafe(found["stop"].set)
    thread.join()


@contextmanager
def serving(model: str) -> Iterator[int]:
    """`whispertide serve` in a process of its own; gives its port once it is ready."""

    def command(port: int) -> list[str]:
        program = [sys.executable, "-m", "whispertide.cli.main", "serve", "--model", model]
        return [*program, "--port", str(port), "--log-level", "error"]

    with started(Contender("whispertide", "", command, listen_to_us)) as port:
        while httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=60).status_code != 200:
            time.sleep(0.1)
        yield port


def wait_s(model: Transcriber, remote: Remote, sentence: Sentence, *, early: bool) -> tuple[float, bool]:
    """Speak one sentence in real time: the wait for its final text, and whether that came from the server."""
    recipe = model.framed(get_recipe("pilot").replace(vad=False)).recipe
    local = model.session(recipe, vad=False).executor
    assert isinstance(local, SerialExecutor)
    stages = HybridStages(local, remote, Offramp(threshold=0.0), WITHIN_S, early)
    session = Session(recipe.replace(executor="hybrid"), HybridExecutor(stages), live=True)
    began, heard = time.monotonic(), list[Event]()
    for number, block in enumerate(np.split(sentence.audio, range(BLOCK, len(sentence.audio), BLOCK)), 1):
        time.sleep(max(0.0, began + number * BLOCK / SAMPLE_RATE - time.monotonic()))
        heard += [*session.push(block), *session.collect()]
    ended = time.monotonic()
    heard += session.finish()
    assert any(isinstance(event, Confirmed) for event in heard)
    return time.monotonic() - ended, stages.counts["there"] == 1


def measure(
    models: Sequence[Transcriber], said: Sequence[Sentence], link: tuple[float, float], port: int, *, early: bool
) -> list[float]:
    """The waits of all sentences that the server heard."""
    waits = list[float]()
    with linked(*link, port) as where, ThreadPoolExecutor(len(models)) as pool:

        def speak(model: Transcriber, mine: Sequence[Sentence]) -> list[tuple[float, bool]]:
            remote = Remote(Server(f"http://127.0.0.1:{where}"))
            try:
                return [wait_s(model, remote, sentence, early=early) for sentence in mine]
            finally:
                remote.close()

        shares = [said[number :: len(models)] for number in range(len(models))]
        for found in pool.map(speak, models, shares):
            waits += [wait for wait, there in found if there]
    return waits


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano.en", help="here and there")
    parser.add_argument("--excerpt", type=float, default=150.0, help="seconds of the talks")
    parser.add_argument("--write", type=Path, help="where the figures go: FILE.json")
    given = parser.parse_args()
    models = [whispertide.load(given.model, threads=1) for _ in range(AT_ONCE)]
    for model in models:
        model.warm_up()
    said = list(sentences(Excerpt(open_corpus("talks"), given.excerpt).utterances()))
    print(f"{len(said)} sentences, {sum(len(one.audio) for one in said) / SAMPLE_RATE:.0f} s, {given.model}, wall time")
    print(f"{'link':>22} {'sent':>9} {'heard there':>11} {'wait, mean s':>12} {'p90':>6}")
    rows = []
    with serving(given.model) as port, Progress(transient=True) as progress:
        task = progress.add_task("speaking", total=2 * len(LINKS))
        for link in LINKS:
            for early in (False, True):
                waits = measure(models, said, link, port, early=early)
                mean, p90 = statistics.mean(waits), float(np.percentile(waits, 90))
                name = f"{link[0]:.2f} s, {link[1] / 1e6:g} Mbit/s"
                progress.console.print(
                    f"{name:>22} {'early' if early else 'after':>9} {len(waits):>11} {mean:12.3f} {p90:6.3f}"
                )
                rows.append({"trip_s": link[0], "bits_per_s": link[1], "early": early, "waits_s": waits})
                progress.advance(task)
    if given.write:
        given.write.write_text(json.dumps({"model": given.model, "sentences": len(said), "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
