"""A journal of live sessions in NATS JetStream, which any number of servers share.

Each session has a subject, `whispertide.session.ID`. A writer says which message it believes to be the
last one, and is refused if it is another: a server that was taken for dead cannot write into a session that goes on
elsewhere. It is told by `lost`. Taking a session over is writing a record of kind `claim`.
A lease in the key-value store says which server has a session, so that one without anything to write finds out, too.

One thread has an event loop for NATS. The records of a session are written one after another; commands that wait go
together. What cannot be written is tried again until it can. Meanwhile `failing` holds and sessions do not wait: their
clients are told that nothing is durable. How many replicas and how long they are kept is up to the stream: it is made
with one replica and a day if it is not there.
"""

import asyncio
import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from whispertide.errors import OptionError
from whispertide.server.live import LiveSession
from whispertide.server.nats_records import Record, commands_record, plain_about
from whispertide.server.nats_stream import FencedError, SessionStream
from whispertide.server.observers import Command
from whispertide.server.outbox import Entry
from whispertide.server.protocols.base import Settings
from whispertide.server.session_journal import (
    JournalProgress,
    Row,
    SessionInfo,
    SessionJournal,
    StoredSession,
    UnreachableError,
    mark_safe,
    plain_entries,
    samples_in,
    snapshot_of,
)

log = logging.getLogger("whispertide.server")

_RETRY_S = 0.2
_RENEW_S = 5.0
_CLOSE_S = 5.0  # for what waits at the end
_TRIM = 16  # records that are not needed any more go together
T = TypeVar("T")


@dataclass(slots=True)
class _Job:
    """A write, and the call to make once it is done. Rows of several jobs go into one record."""

    record: Record | None = None
    row: Row | None = None
    then: Callable[[], None] = lambda: None
    waits: "Future[None] | None" = None  # a step that is not told before; not while nothing can be written
    number: int = 0  # of such a step


@dataclass(slots=True)
class _Held:
    """A record in the stream: its last message, and the values until which it is needed."""

    last: int
    n: int = -1  # of its last command
    stop: int = -1  # of its audio
    seq: int = -1  # of its last event


@dataclass(slots=True)
class _Writer:
    """An open session: `last` is its last message.

    Of its jobs the first `under_way` are being written. Of its steps that say something `noted` is the newest,
    `written` the newest that is there, and `ahead` the newest that was released before it was.
    """

    id: str
    about: SessionInfo
    known: JournalProgress
    last: int = 0
    acked: int = -1
    taken: int = 0  # of the newest state, as `needed`
    needed: int = 0
    lease: int = 0
    noted: int = 0
    written: int = 0
    ahead: int = 0
    jobs: deque[_Job] = field(default_factory=deque)
    held: deque[_Held] = field(default_factory=deque)
    under_way: int = 0
    task: "asyncio.Task[None] | None" = None


class NatsJournal(SessionJournal):
    """One server's part in the journal at `address`. Raises `OptionError` if NATS does not answer at the start."""

    shared = True

    def __init__(self, address: str) -> None:
        self.failing = False
        self.lost: Callable[[str], None] = lambda _: None  # in the event loop of the server
        self._name = secrets.token_hex(8)
        self._writers: dict[str, _Writer] = {}
        self._server_loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="journal", daemon=True)
        self._thread.start()
        self._stream = SessionStream(address, self._name)
        try:
            self._call(self._stream.connect()).result()
        except UnreachableError as error:
            self._stop()
            raise OptionError(f"expected NATS with JetStream at {address}; {error}") from error
        self._renewing = self._call(self._renew())

    def close(self) -> None:
        """Write the rest, then close. Jobs that cannot be written now are given up. The leases are given back."""
        self._closing = True
        self._call(self._finish()).result()
        self._stop()

    def _stop(self) -> None:
        # From another thread a plain `stop` would not wake the loop.
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        self._renewing.cancel()
        tasks = [writer.task for writer in self._writers.values() if writer.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_S)
        # NATS may be away; then the leases end by themselves.
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                held = [writer for writer in self._writers.values() if writer.lease]
                await asyncio.gather(*(self._stream.release(writer.id, writer.lease) for writer in held))
        await self._stream.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _call(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # --- while sessions live -----------------------------------------------------------------------------------------

    def opened(self, live: LiveSession, settings: Settings) -> "NatsJournal":
        """Begin the record of a session."""
        self._server_loop = asyncio.get_running_loop()
        about = SessionInfo(live.owner, live.model, live.protocol, settings)
        self._writers[live.id] = _Writer(live.id, about, JournalProgress())
        self._submit(live.id, _Job(Record("open", {"about": plain_about(about)})))
        return self

    def put(self, live: LiveSession, command: Command) -> None:
        """Write a command that the session does not have yet; `live.safe` follows once it is written.

        Called in the event loop.
        """
        writer = self._writers.get(live.id)
        if writer is None:
            live.safe = live.accepted + samples_in(command)
            return
        safe = partial(_in_loop, asyncio.get_running_loop(), mark_safe(live, command))
        self._submit(live.id, _Job(row=writer.known.row(command), then=safe))

    def step(self, live: LiveSession, taken: Sequence[Command], entries: Sequence[Entry]) -> "Future[None] | None":
        """Write a step's entries, with the state after it, before anybody receives them."""
        writer = self._writers.get(live.id)
        if writer is None or not writer.known.is_due(taken, entries):
            return None
        data, needed = snapshot_of(live)
        head: dict[str, Any] = {"about": plain_about(writer.about), "entries": plain_entries(live, entries)}
        head |= {"taken": live.commands, "next_seq": live.outbox.next_seq, "needed": needed, "acked": writer.acked}
        waits: Future[None] | None = None
        # Nobody has to wait for a state alone.
        if entries:
            waits, writer.noted = Future(), writer.noted + 1
        self._submit(live.id, _Job(Record("step", head, data), waits=waits, number=writer.noted))
        return waits

    def is_ahead(self, live: LiveSession) -> bool:
        """True if the client may have received events that are not written yet: they were released early."""
        writer = self._writers.get(live.id)
        return writer is not None and writer.ahead > writer.written

    def acknowledged(self, live: LiveSession, seq: int) -> None:
        """Note that the client has the events up to `seq`; it is written with the next step."""
        writer = self._writers.get(live.id)
        if writer is not None:
            writer.acked = max(writer.acked, seq)

    def closed(self, live: LiveSession) -> None:
        """Drop a session that is over."""
        self.discard(live.id)

    def discard(self, session: str) -> None:
        """Delete a session that cannot go on."""
        if session in self._writers:
            self._submit(session, _Job(Record("closed")))

    # --- sessions of other servers -----------------------------------------------------------------------------------

    async def owns(self, session: str) -> bool:
        """True if this session has not moved to another server. While NATS is away, it is taken for true.

        Where it did, nothing more is written of it from here.
        """
        writer = self._writers.get(session)
        if writer is not None and (
            not writer.last or await asyncio.wrap_future(self._call(self._stream.owns(session)))
        ):
            return True
        self._writers.pop(session, None)
        return False

    async def claim(self, session: str, owner: str) -> StoredSession | None:
        """Take this owner's session over; None if there is none. Its last server can write nothing there from now on.

        Raises `UnreachableError`, or what reading damaged values raises.
        """
        self._server_loop = asyncio.get_running_loop()
        found = await asyncio.wrap_future(self._call(self._stream.claim(session, owner)))
        if found is None:
            return None
        kept, known = found.kept, found.known
        writer = _Writer(session, kept.about, known, last=found.last, taken=kept.taken, lease=found.lease)
        # What is not known to be needed goes with what is: up to here everything stays until a new state needs none.
        writer.held.append(_Held(found.last, known.commands - 1, kept.samples, kept.next_seq - 1))
        self._writers[session] = writer
        return kept

    # --- in the thread of NATS ---------------------------------------------------------------------------------------

    def _submit(self, session: str, job: _Job) -> None:
        self._loop.call_soon_threadsafe(self._enqueue, session, job)

    def _enqueue(self, session: str, job: _Job) -> None:
        writer = self._writers.get(session)
        if writer is None:  # it went on elsewhere
            _release(job)
            return
        if job.record is not None and job.record.kind == "closed":
            # The session is over: its audio need not wait here until NATS is back.
            while len(writer.jobs) > writer.under_way:
                _release(writer.jobs.pop())
        writer.jobs.append(job)
        if self.failing:
            _release_early(writer, job)
        if writer.task is None:
            writer.task = asyncio.create_task(self._write(writer))

    async def _write(self, writer: _Writer) -> None:
        try:
            if not writer.lease:
                writer.lease = await self._until_done(partial(self._stream.take_lease, writer.id))
            while writer.jobs:
                await self._write_next(writer)
        except FencedError as error:
            self._lose(writer, str(error))
        except Exception as error:  # a defect; this session cannot be kept any more
            log.exception("journal failed", extra={"session": writer.id})
            self._lose(writer, str(error))
        finally:
            # Nothing is awaited between the last look at the jobs and this, so no job can come unseen.
            writer.task = None

    async def _write_next(self, writer: _Writer) -> None:
        jobs = [writer.jobs[0]]
        if jobs[0].row is not None:
            rows = [job.row for job in writer.jobs if job.row is not None][:64]
            # Commands up to the first job of another kind, so that the order stays.
            count = next((at for at, job in enumerate(writer.jobs) if job.row is None), len(writer.jobs))
            jobs = list(writer.jobs)[: min(count, len(rows))]
        writer.under_way = len(jobs)
        rows = [job.row for job in jobs if job.row is not None]
        record = jobs[0].record or commands_record(rows)
        for piece, (part, data) in enumerate(pieces := list(enumerate(record.pieces()))):
            last = writer.last
            more = piece + 1 < len(pieces)
            writer.last = await self._until_done(partial(self._stream.append, writer.id, data, last, part, more))
        for job in jobs:
            # Only now that they are written: until then `_fail` has to find them.
            writer.jobs.popleft()
            writer.written = max(writer.written, job.number)
            job.then()
            _release(job)
        writer.under_way = 0
        await self._tidy(writer, record, rows)

    async def _tidy(self, writer: _Writer, record: Record, rows: Sequence[Row]) -> None:
        """Trim records that no later server needs."""
        if record.kind == "closed":
            self._writers.pop(writer.id, None)
            await self._stream.forget(writer.id)
            return
        head = record.head
        if record.kind == "step":
            writer.taken, writer.needed = head["taken"], head["needed"]
        numbers = [number for number, _ in head.get("entries", ())]
        row = rows[-1] if rows else None
        writer.held.append(_Held(writer.last, row.n if row else -1, row.stop if row else -1, max(numbers, default=-1)))
        if record.kind != "step":
            return
        free = 0
        for held in writer.held:
            if held.n >= writer.taken or held.stop > writer.needed or held.seq > writer.acked:
                break
            free += 1
        # The newest record stays: it has the state that whoever takes the session over goes on from.
        free = min(free, len(writer.held) - 1)
        if free >= _TRIM:
            for _ in range(free):
                writer.held.popleft()
            await self._stream.trim(writer.id, writer.held[0].last)

    async def _until_done(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Retry until it is done. Raises `FencedError`."""
        while True:
            try:
                done = await work()
            except UnreachableError as error:
                self._fail(str(error))
                await asyncio.sleep(_RETRY_S)
                continue
            if self.failing:
                log.warning("the journal can be written again")
                self.failing = False
            return done

    def _fail(self, problem: str) -> None:
        """Release all steps early: nothing can be written, and clients are told that nothing is durable."""
        if not self.failing:
            log.error("the journal cannot be written; its sessions are not durable", extra={"problem": problem})
        self.failing = True
        for writer in self._writers.values():
            for job in writer.jobs:
                _release_early(writer, job)

    def _lose(self, writer: _Writer, problem: str) -> None:
        """Give up a session that another server has or had: it may have come back here, to a writer of its own."""
        log.warning("session continues on another server", extra={"session": writer.id, "problem": problem})
        if self._writers.get(writer.id) is writer:
            del self._writers[writer.id]
            if self._server_loop is not None:
                _in_loop(self._server_loop, lambda: self.lost(writer.id))
        for job in writer.jobs:
            _release(job)  # after `lost`: nobody hears of it

    async def _renew(self) -> None:
        """Renew the leases; a session whose lease another server has is lost."""
        while True:
            await asyncio.sleep(_RENEW_S)
            for writer in list(self._writers.values()):
                if not (writer.lease and writer.last):
                    continue
                try:
                    writer.lease = await self._stream.renew(writer.id, writer.lease)
                except UnreachableError as error:
                    log.debug("lease not renewed: %s", error)  # what is written says whether the journal fails
                    break
                except FencedError as error:
                    self._lose(writer, str(error))


def _release_early(writer: _Writer, job: _Job) -> None:
    writer.ahead = max(writer.ahead, job.number)  # first: whoever tells it has to know
    _release(job)


def _release(job: _Job) -> None:
    # It may have been told early already.
    if job.waits is not None and not job.waits.done():
        job.waits.set_result(None)


def _in_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(work)
