"""A server from its start to its death, in this process, and the disk under its journal.

A kill is a copy of the journal's folder that is taken between any two statements of the writing thread, in the middle
of a transaction too: that is what a process leaves that dies there. The next life begins with the copy; what the old
one does afterwards goes nowhere. Kills within a statement are left to `processes`, which kills real ones.
"""

import asyncio
import random
import shutil
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from served import KnowingModel, limited
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.hub import Hub
from whispertide.server.journal import Journal
from whispertide.server.options import ServerOptions
from whispertide.server.serving import Server, assemble, run_server

_PAGES = 2**30  # as many as SQLite may have


@dataclass
class Disk:
    """A database that takes its time, fails as SQLite fails, and can be copied as if the process had died now."""

    database: sqlite3.Connection
    folder: Path
    slow_s: float = 0.0
    dice: random.Random = field(default_factory=lambda: random.Random(0))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """As the database does, sooner or later."""
        if self.slow_s:
            time.sleep(self.dice.uniform(0, self.slow_s))
        with self._lock:
            return self.database.execute(statement, values)

    def copy(self, folder: Path) -> None:
        """What a kill at this moment leaves."""
        with self._lock:
            shutil.copytree(self.folder, folder)

    def fail(self, kind: str) -> None:
        """From now on it is "full", "read-only", "slow", or, with "", as it should be."""
        self.slow_s = 0.05 if kind == "slow" else 0.0
        with self._lock:
            most = self.database.execute("PRAGMA page_count").fetchone()[0] if kind == "full" else _PAGES
            self.database.execute(f"PRAGMA max_page_count = {most}")
            self.database.execute(f"PRAGMA query_only = {int(kind == 'read-only')}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)


@dataclass
class Life:
    """A server that runs. `disk` is that of its journal."""

    server: Server
    hub: Hub
    disk: Disk | None

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.server.port

    def kill(self, folder: Path) -> None:
        """What it leaves goes to `folder`; nothing that it does from now on counts."""
        assert self.disk is not None
        self.disk.copy(folder)
        self.hub.options = replace(self.hub.options, drain_s=0.0)
        self.server.should_exit = True


@asynccontextmanager
async def life(model: KnowingModel, journal: Path | None = None, **limits: Any) -> AsyncIterator[Life]:
    """A server on loopback in this event loop; at the end it stops as on SIGTERM, unless it was killed."""
    options: ServerOptions = replace(limited(**limits), journal=str(journal) if journal else None, drain_s=10.0)
    hub, close = assemble({"nano.en": model}, get_recipe("whisper-streaming"), options)  # type: ignore[dict-item]
    disk = None
    if isinstance(hub.journal, Journal) and journal is not None:
        disk = Disk(hub.journal._database, journal)
        hub.journal._database = disk  # type: ignore[assignment]
    try:
        async with run_server(hub) as server:
            yield Life(server, hub, disk)
    finally:
        await asyncio.to_thread(close)
