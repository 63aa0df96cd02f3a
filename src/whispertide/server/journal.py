"""A journal of live sessions in SQLite, so that they survive the death of the process.

Every command is written down before the client is told that its audio is safe, and every event, together with the
state of the session after it, before the client is sent it. What cannot be written is tried again until it can, and its
sessions wait; the others do not. After a restart a session goes on from its newest state
and takes the commands that came after it once more: confirmed words stay, and no audio is lost.

One thread writes; what waits is written in one transaction, and its number to a file next to the journal (`watermark`):
a journal that comes back older than that gives its sessions up. The database is in WAL mode without a sync per
transaction: it survives a kill at any moment, and a power cut where its last words reached the disk.
"""

import asyncio
import json
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from whispertide.errors import OptionError
from whispertide.server.live import LiveSession
from whispertide.server.observers import Command
from whispertide.server.outbox import Entry
from whispertide.server.protocols.base import Settings, as_plain
from whispertide.server.session_journal import (
    JournalProgress,
    Row,
    SessionInfo,
    SessionJournal,
    StoredSession,
    load_session,
    mark_safe,
    plain_entries,
    samples_in,
    snapshot_of,
)
from whispertide.server.watermark import Watermark

log = logging.getLogger("whispertide.server")

FORMAT = 3
_RETRY_S = 0.2  # after a failure to write
_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, owner TEXT, model TEXT, protocol TEXT, settings TEXT, opened REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS commands (
    session TEXT, n INTEGER, kind TEXT, start INTEGER, stop INTEGER, data BLOB, PRIMARY KEY (session, n)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, session TEXT, seq INTEGER, data TEXT);
CREATE INDEX IF NOT EXISTS entries_by_session ON entries (session, seq);
CREATE TABLE IF NOT EXISTS states (
    session TEXT PRIMARY KEY, taken INTEGER, next_seq INTEGER, data BLOB
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS mark (id INTEGER PRIMARY KEY, number INTEGER);
"""
_SESSIONS = {"sessions": "id", "commands": "session", "entries": "session", "states": "session"}  # and where its id is
_MARKED = "INSERT OR REPLACE INTO mark VALUES (0, ?)"  # the transaction's number


_Statement = tuple[str, tuple[Any, ...]]


@dataclass(slots=True)
class _Job:
    """A write, and the call to make once it is done."""

    statements: list[_Statement]
    then: Callable[[bool], None]


@dataclass(slots=True)
class Journal(SessionJournal):
    """The journal of one server. Raises `OptionError` if the folder cannot be used, or another server uses it."""

    folder: Path
    busy_s: float = 5.0  # for another process that is about to end
    _known: dict[str, JournalProgress] = field(default_factory=dict)
    _jobs: "queue.SimpleQueue[_Job | None]" = field(default_factory=queue.SimpleQueue)
    _database: sqlite3.Connection = field(init=False)
    _thread: threading.Thread = field(init=False)
    _closing: threading.Event = field(default_factory=threading.Event)
    _number: int = 0  # of the last transaction
    failing: bool = False
    shared: bool = False

    def __post_init__(self) -> None:
        try:
            self._database = self._open()
        except (OSError, sqlite3.Error) as error:
            raise OptionError(f"expected a folder for the journal alone; cannot use {self.folder}: {error}") from error
        # A daemon, because it tries for ever to write what cannot be written.
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._thread.start()

    @property
    def _watermark(self) -> Watermark:
        return Watermark(self.folder / "journal.sqlite3-mark")

    def _open(self) -> sqlite3.Connection:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder / "journal.sqlite3"
        path.touch(mode=0o600, exist_ok=True)
        for file in self.folder.glob("journal.sqlite3*"):  # it may be older than this program's care
            file.chmod(0o600)
        # Opened here and written to by a thread of its own; transactions are begun and ended by `_transaction`.
        database = sqlite3.connect(path, timeout=self.busy_s, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(database)
            self._continue_numbers(database)
        except BaseException:
            # Also after an interrupt: the file would stay locked.
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection) -> None:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")  # two servers must not share a journal
        database.execute("PRAGMA journal_mode = WAL")
        # In WAL mode that is no sync per transaction: see above for what it survives.
        database.execute("PRAGMA synchronous = NORMAL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        # 0 is what SQLite says of a new file.
        if version not in (0, FORMAT):
            raise OptionError(
                f"expected a journal of format {FORMAT} in {self.folder}; got {version}. Use another folder"
            )
        database.executescript(_SCHEMA)
        database.execute(f"PRAGMA user_version = {FORMAT}")

    def _continue_numbers(self, database: sqlite3.Connection) -> None:
        """Continue the numbers of transactions. A number lower than clients were told means that the journal went back
        in time: events would get numbers that clients have for others. So its sessions are given up.
        """
        found = next((number for (number,) in database.execute("SELECT number FROM mark")), 0)
        (any_session,) = database.execute("SELECT EXISTS (SELECT * FROM sessions)").fetchone()
        noted = self._watermark.read()
        if any_session and (noted is None or found < noted):
            log.error("the journal is older than what clients received; its sessions cannot be resumed")
            # In one transaction, since each statement by itself would be one of its own here.
            database.executescript(f"BEGIN; {' '.join(f'DELETE FROM {table};' for table in _SESSIONS)} COMMIT;")
        # Never below what clients were told.
        self._number = max(found, noted or 0)
        self._watermark.write(self._number)

    def close(self) -> None:
        """Write the rest, then close. Jobs that cannot be written now are given up."""
        self._closing.set()
        self._jobs.put(None)
        self._thread.join()
        self._database.close()

    # --- while sessions live -----------------------------------------------------------------------------------------

    def opened(self, live: LiveSession, settings: Settings) -> "Journal":
        """Begin the record of a session."""
        self._known[live.id] = JournalProgress()
        # JSON knows no mappings but dicts.
        plain = json.dumps(as_plain(settings), default=dict)
        values = (live.id, live.owner, live.model, live.protocol, plain, time.time())
        self._submit([("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?)", values)])
        return self

    def put(self, live: LiveSession, command: Command) -> None:
        """Write a command that the session does not have yet; `live.safe` follows once it is written."""
        known = self._known.get(live.id)
        if known is None:
            live.safe = live.accepted + samples_in(command)
            return
        loop, safe = asyncio.get_running_loop(), mark_safe(live, command)

        def then(written: bool) -> None:
            # In the writing thread, which may have something left to write after the server's loop has ended.
            if written and not loop.is_closed():
                loop.call_soon_threadsafe(safe)

        self._submit([("INSERT INTO commands VALUES (?, ?, ?, ?, ?, ?)", (live.id, *known.row(command)))], then)

    def step(self, live: LiveSession, taken: Sequence[Command], entries: Sequence[Entry]) -> "Future[None] | None":
        """Write a step's entries, with the state after it, before anybody receives them.

        Now and then a state alone is written, so that audio which is not needed any more can go.
        """
        known = self._known.get(live.id)
        if known is None or not known.is_due(taken, entries):
            return None
        state = snapshot_of(live)
        written: Future[None] = Future()
        self._submit(self._state(live, *state, entries), lambda _: written.set_result(None))
        return written if entries else None

    def is_ahead(self, live: LiveSession) -> bool:
        """False always: while nothing can be written, sessions wait (`failing`)."""
        return False

    def acknowledged(self, live: LiveSession, seq: int) -> None:
        """Note that the client has the events up to `seq`."""
        self._submit([("DELETE FROM entries WHERE session = ? AND seq <= ?", (live.id, seq))])

    def closed(self, live: LiveSession) -> None:
        """Drop a session that is over."""
        if self._known.pop(live.id, None) is not None:
            self._submit(_forget(live.id))

    def _state(self, live: LiveSession, data: bytes, needed: int, entries: Sequence[Entry]) -> list[_Statement]:
        texts = [(number, json.dumps(plain)) for number, plain in plain_entries(live, entries)]
        insert = "INSERT INTO entries (session, seq, data) VALUES (?, ?, ?)"
        rows: list[_Statement] = [(insert, (live.id, number, text)) for number, text in texts]
        taken, next_seq = live.commands, live.outbox.next_seq
        return [
            *rows,
            ("INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?)", (live.id, taken, next_seq, data)),
            # What the state has taken in, as far as its audio is not needed any more.
            ("DELETE FROM commands WHERE session = ? AND n < ? AND stop <= ?", (live.id, taken, needed)),
        ]

    # --- the writing thread ------------------------------------------------------------------------------------------

    def _submit(self, statements: list[_Statement], then: Callable[[bool], None] = lambda _: None) -> None:
        self._jobs.put(_Job(statements, then))

    def _write(self) -> None:
        while True:
            waiting: list[_Job | None] = [self._jobs.get()]
            while not self._jobs.empty():
                waiting.append(self._jobs.get())
            jobs = [job for job in waiting if job is not None]
            written = self._written(jobs)
            for job in jobs:
                job.then(written)
            if None in waiting:
                return

    def _written(self, jobs: Sequence[_Job]) -> bool:
        """Retry until a batch is written: until then no client gets its events. False if it is given up, because the
        server ends.
        """
        # The watermark after the transaction: if it were ahead of the journal, a sound journal would be given up.
        return self._until_done(partial(self._transaction, jobs)) and self._until_done(self._tell)

    def _until_done(self, write: Callable[[], None]) -> bool:
        while not self._try_once(write):
            if self._closing.wait(_RETRY_S):
                return self._try_once(write)
        return True

    def _tell(self) -> None:
        self._watermark.write(self._number)

    def _transaction(self, jobs: Sequence[_Job]) -> None:
        """Write a batch, all or nothing."""
        try:
            self._database.execute("BEGIN")
            for job in jobs:
                for statement, values in job.statements:
                    self._database.execute(statement, values)
            self._database.execute(_MARKED, (self._number + 1,))
            self._database.execute("COMMIT")
        finally:
            # A COMMIT that fails, for example on a full disk, may leave its transaction open.
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
        # Not reached where something failed, so the same number is tried again.
        self._number += 1

    def _try_once(self, write: Callable[[], None]) -> bool:
        """Log when writing begins to fail, and when it works again."""
        try:
            write()
        except (OSError, sqlite3.Error) as error:
            if not self.failing:
                log.error("the journal cannot be written; its sessions wait", extra={"problem": str(error)})
            self.failing = True
            return False
        if self.failing:
            log.warning("the journal can be written again")
        self.failing = False
        return True

    # --- after a restart ---------------------------------------------------------------------------------------------

    def kept(self) -> Iterator[StoredSession]:
        """Read the sessions of the journal. One that cannot be read is left out, with a line in the log."""
        with closing(self._database.execute("SELECT id, owner, model, protocol, settings FROM sessions")) as rows:
            found = rows.fetchall()
        for row in found:
            try:
                yield self._read(*row)
            except Exception:  # one damaged session must not cost the others
                log.exception("session cannot be resumed", extra={"session": row[0]})
                self._submit(_forget(row[0]))

    def discard(self, session: str) -> None:
        """Drop a session that cannot go on."""
        self._known.pop(session, None)
        self._submit(_forget(session))

    def _read(self, identity: str, owner: str, model: str, protocol: str, settings: str) -> StoredSession:
        query = self._database.execute
        commands = query("SELECT n, kind, start, stop, data FROM commands WHERE session = ? ORDER BY n", (identity,))
        rows = commands.fetchall()
        stored = query("SELECT taken, next_seq, data FROM states WHERE session = ?", (identity,)).fetchone()
        entries = query("SELECT data FROM entries WHERE session = ? ORDER BY id", (identity,)).fetchall()
        about = SessionInfo(owner, model, protocol, Settings(**json.loads(settings)))
        kept, self._known[identity] = load_session(
            identity, about, [Row(*row) for row in rows], stored, [json.loads(data) for (data,) in entries]
        )
        return kept


def _forget(session: str) -> list[_Statement]:
    return [(f"DELETE FROM {table} WHERE {column} = ?", (session,)) for table, column in _SESSIONS.items()]
