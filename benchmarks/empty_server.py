"""Our server with a model that computes nothing, for `benchmarks/server.py`: what the server itself costs.

overhead   from a block that makes a round due to the event's arrival, and the same in a bare session
cycles     connect, say something, abort: memory, threads and tasks before and after
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from journals import journal_at
from websockets.asyncio.client import connect

from whispertide.events import Hypothesis, RoundStats
from whispertide.methods.agreement.whole_window import HeardSegment, HeardSegments
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.options import Limits, ServerOptions, Work
from whispertide.server.serving import assemble, run_server
from whispertide.session import Session
from whispertide.streaming.round import RoundResult
from whispertide.types import SAMPLE_RATE, Span, Word

BLOCK = SAMPLE_RATE // 10
ROUNDS = 300
RECIPE = get_recipe("whisper-streaming").replace(step_s=0.1)


@dataclass(frozen=True)
class Fixed:
    """An executor that hears one word in every round, after so many seconds."""

    round_s: float

    def run(self, plan: Any, audio: Any, options: Any, state: Any = None) -> RoundResult[Any]:
        """Computes nothing."""
        time.sleep(self.round_s)
        word = Word(f" w{plan.id}", plan.window.start, plan.window.end)
        return RoundResult(
            plan, HeardSegments((HeardSegment(Span(word.start, word.end), (word,)),)), stats=RoundStats()
        )


@dataclass(frozen=True)
class Model:
    """As much of a `Transcriber` as a server needs."""

    round_s: float = 0.0
    dims = SimpleNamespace(is_multilingual=False)
    tokenizer = SimpleNamespace(languages=("en",))
    caution = ""

    def can_stream(self, recipe: Any) -> bool:
        """Whatever the recipe: nothing is computed."""
        return True

    def session(self, recipe: Any, *, options: Any = None, vad: bool | None = None, live: bool = False) -> Session:
        """Without a voice gate."""
        return Session(recipe, Fixed(self.round_s), None, options=options, live=live)


@contextlib.asynccontextmanager
async def empty_server(model: Model, journal: str = "") -> AsyncIterator[Any]:
    """The server, in this event loop."""
    models: Any = {"empty": model}
    options = ServerOptions(limits=Limits(resume_s=0.5), work=Work(degrade=False), journal=journal or None)
    hub, close = assemble(models, RECIPE, options)
    async with run_server(hub) as server:
        yield server
    close()


async def overhead(kind: str = "none", round_s: float = 0.0) -> dict[str, Any]:
    """What the server adds to an event, at p50 and p95: served, with that kind of journal, less bare.

    While a round computes, the journal writes what the client sent; a round that takes no time waits for that as well.
    """
    model = Model(round_s)
    with journal_at(kind) as journal:
        served = await _served(model, journal)
    bare = _bare(model)
    result = {
        f"p{percent}_ms": {
            "served": round(1000 * served[at], 2),
            "bare": round(1000 * bare[at], 2),
            "overhead": round(1000 * (served[at] - bare[at]), 2),
        }
        for percent, at in ((50, ROUNDS // 2), (95, int(0.95 * ROUNDS)))
    }
    print(f"overhead        journal {kind:8}round {1000 * round_s:3.0f} ms  {result}", flush=True)
    return {"overhead": result, "journal": kind, "round_s": round_s}


async def _served(model: Model, journal: str) -> list[float]:
    took: list[float] = []
    async with (
        empty_server(model, journal) as server,
        connect(f"ws://127.0.0.1:{server.port}/ws", proxy=None) as socket,
    ):
        await socket.recv()
        for _ in range(ROUNDS):
            began = time.perf_counter()
            await socket.send(bytes(2 * BLOCK))
            while json.loads(await socket.recv())["type"] != "hypothesis":
                pass
            took.append(time.perf_counter() - began)
    return sorted(took)


def _bare(model: Model) -> list[float]:
    took: list[float] = []
    session = model.session(RECIPE)
    for _ in range(ROUNDS):
        began = time.perf_counter()
        events = session.push(np.zeros(BLOCK, np.float32))
        took.append(time.perf_counter() - began)
        assert any(isinstance(event, Hypothesis) for event in events)
    return sorted(took)


async def cycles(count: int) -> dict[str, Any]:
    """Connect, say something, abort, so many times after a fifth of that to warm up."""
    async with empty_server(Model()) as server:
        await _connect_and_abort(server.port, max(10, count // 5))
        await asyncio.sleep(1.5)
        before = _state()
        await _connect_and_abort(server.port, count)
        await asyncio.sleep(1.5)
        after = _state()
        left = len(server.hub.sessions)
    result: dict[str, Any] = {name: [old, new] for name, old, new in zip(_NAMES, before, after, strict=True)}
    result = {"count": count, **result, "sessions_left": left}
    print(f"cycles          {result}", flush=True)
    return {"cycles": result}


_NAMES = ("memory_mb", "threads", "tasks")


def _state() -> tuple[float, int, int]:
    status = Path("/proc/self/status").read_text() if Path("/proc/self/status").exists() else "VmRSS: 0\nThreads: 0"
    facts = dict(line.split(":", 1) for line in status.splitlines())
    return round(int(facts["VmRSS"].split()[0]) / 1024, 1), int(facts["Threads"]), len(asyncio.all_tasks())


async def _connect_and_abort(port: int, number: int) -> None:
    for cycle in range(number):
        async with connect(f"ws://127.0.0.1:{port}/ws", proxy=None) as socket:
            await socket.send(bytes(2 * BLOCK * (cycle % 4)))
            if cycle % 3:
                await socket.recv()
            socket.transport.abort()
