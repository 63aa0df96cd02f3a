"""One client's connection: carries out its protocol's actions, over any transport.

    reader   transport -> protocol.receive -> actions
    writer   outbox -> protocol.events -> actions -> transport

Both run in the event loop; actions are carried out without waiting, in order, and only the reader (when the session has
no room for more audio) and the writer (when the client does not read) ever wait. Knows no protocol by name.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Set
from dataclasses import replace
from functools import partial

from whispertide.events import End, Event
from whispertide.server.client import STOPPING, RefusedError
from whispertide.server.client_pace import ClientPace, messages_in
from whispertide.server.hub import Hub
from whispertide.server.live import LiveSession, is_last
from whispertide.server.protocols import base
from whispertide.server.replies import Replies
from whispertide.server.transport import FloodError, GoneError, MessageTooLargeError, OverError, Transport
from whispertide.types import SAMPLE_RATE

log = logging.getLogger("whispertide.server")

_BATCH = 256  # entries handed to a protocol at once
_QUEUED = 2**20  # bytes of replies that may wait before events are held back
_CLOSING_S = 2.0  # for the last words to a client that may not read them
_SHOWN = 500  # characters of what is told about a problem: it may quote the client
_FINE = 1000
_CUT_OFF = base.Close(base.CLOSE_CODES["shutdown"], STOPPING)
_ROOM_S = 0.02  # how often a reader that waits looks whether there is room


class Connection:
    """Runs one `WireProtocol` on one transport, for the API key `owner` and the `party` (`addresses.party_of`)."""

    def __init__(
        self, hub: Hub, protocol: base.WireProtocol, transport: Transport, owner: str, party: str = ""
    ) -> None:
        self.hub = hub
        self.protocol = protocol
        self.transport = transport
        self.owner = owner
        self.party = party
        self.note_flood: Callable[[], None] = partial(hub.floods.closed, party, owner)
        self.is_told: Callable[[base.Problem], bool] = lambda _: False  # by another connection of this client
        self.live: LiveSession | None = None
        self._replies = Replies()
        self._cut_off = False  # the session ended because the server stops
        self._silence = ""  # why the client is closed once it has all words, if that is for its silence
        self._started: base.Started | None = None  # not told yet
        self._lookup: asyncio.Task[None] | None = None  # a session that is looked up
        self._safe = 0  # samples that the protocol was last told are accepted
        self._processed = 0
        self._complained: set[base.ProblemKind] = set()
        self._lost: Set[base.ProblemKind] = set()  # what the client knows to be lost for the moment
        self._awake = asyncio.Event()
        self._pace = ClientPace(hub.options.limits.messages)

    async def run(self, message_first: str = "") -> None:
        """Serve until either side closes. Returns when everything about this connection is done.

        `message_first` is as if the other side had sent it first.
        """
        self.hub.connections.add(self)
        connections = self.hub.metrics.connections.labels(self.protocol.name)
        connections.inc()
        reader = asyncio.create_task(self._read(message_first), name="reader")
        writer = asyncio.create_task(self._write(), name="writer")
        try:
            await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
            if reader.done() and reader.exception() is None:
                await self._send_rest(writer)
        finally:
            tasks = [task for task in (reader, writer, self._lookup) if task is not None]
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            self._release_session()
            connections.dec()
            self.hub.connections.discard(self)
            for result in results:
                if isinstance(result, Exception) and not isinstance(result, GoneError):
                    log.error("connection failed", exc_info=result)
                    await self.transport.close(base.CLOSE_CODES["internal"], "the server made a mistake")

    def shut_down(self) -> None:
        """Say that the server stops, and close, after the messages that are due anyway."""
        self.problem("shutdown", STOPPING, fatal=True)

    def hand_over(self) -> None:
        """Close as soon as this session is settled: other servers go on with it."""
        if self.live is not None and self.live.settled:
            self.shut_down()

    def problem(self, kind: base.ProblemKind, message: str, *, fatal: bool, last_seq: int | None = None) -> None:
        """Tell the client; close if that is fatal."""
        if self._replies.closing:
            return
        message = message if len(message) <= _SHOWN else message[: _SHOWN - 3] + "..."
        log.info("problem", extra={"kind": kind, "protocol": self.protocol.name, "problem": message, "fatal": fatal})
        problem = base.Problem(kind, message, fatal, last_seq)
        self._perform(self.protocol.problem(replace(problem, told=self.is_told(problem))))
        if fatal:
            self._perform((base.Close(base.CLOSE_CODES[kind], message),))

    def taken_over(self, live: LiveSession) -> None:
        """Tell the client that another server has this session; nothing more of it is sent here."""
        if self.live is live:
            self.live = None
            self.problem("taken_over", "another server continues this session; resume it by its id", fatal=True)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _read(self, message_first: str) -> None:
        self._perform(self.protocol.opened())
        if message_first:
            self._receive(message_first)
        limits = self.hub.options.limits
        idle_s = min(limits.idle_s, self.protocol.idle_s or limits.idle_s)
        clock = asyncio.get_running_loop().time
        began = clock()
        while not self._replies.closing:
            await self._wait_for_lookup()
            # A message that comes byte by byte is not one after another.
            began = began if self.protocol.is_amid else clock()
            try:
                async with asyncio.timeout_at(began + idle_s):
                    message = await self.transport.receive()
            except TimeoutError:
                if self.live is not None and self.live.busy and not self.protocol.is_amid:
                    continue  # it waits for us
                self._end_in_silence(f"expected a whole message within {idle_s:g} s; none came")
                return
            except OverError as over:
                self._end_in_silence(str(over))
                return
            except MessageTooLargeError:
                told = f"expected messages of at most {self.protocol.times * limits.message} bytes; got a larger one"
                self.problem("too_large", told, fatal=True)
                return
            except GoneError as gone:
                if isinstance(gone, FloodError):
                    self.note_flood()
                self._perform(self.protocol.closed())
                return
            for piece in self.protocol.pieces(message):
                taken = self._receive(piece)
                await self._wait_for_room()
                if not taken or self._replies.closing:
                    break

    def _end_in_silence(self, told: str) -> None:
        """Close a client from which nothing more is taken, once it has the words of all that was heard."""
        asked = self.protocol.idle_s is not None  # the client, for such an end
        if self.live is None or self.live.finishing or not (asked or self.live.accepted):
            self.problem("idle", told, fatal=True)
            return
        self._silence = "" if asked else told
        self._perform(self.protocol.idle())

    def _receive(self, message: str | bytes) -> bool:
        """Carry out a message; returns whether it could be.

        All that is no audio counts against the rate, also what is no message at all.
        """
        clock = asyncio.get_running_loop().time
        self._pace.charge_message(message, clock())
        try:
            actions = list(self.protocol.receive(message))
        except base.ProtocolError as error:
            if self._within_rate(1):
                self.problem("bad_request", str(error), fatal=error.fatal)
            return False
        except Exception:  # a defect; the client is told that much
            log.exception("protocol failed", extra={"protocol": self.protocol.name})
            self.problem("internal", "the server made a mistake with this message", fatal=True)
            return False
        self._pace.charge_actions(actions, clock())
        if self._within_rate(messages_in(message, actions, self.protocol.fruitless)):
            self._perform(actions)
        return True

    def _within_rate(self, messages: int) -> bool:
        """Count messages; a client that sends too many is told, and closed for a while."""
        if self._pace.count(messages, asyncio.get_running_loop().time()):
            return True
        if not self._replies.closing:
            self.note_flood()
        rate = self.hub.options.limits.messages
        self.problem("too_fast", f"expected at most {rate} messages a second; got more", fatal=True)
        return False

    async def _wait_for_room(self) -> None:
        """Wait until the session can take more audio, the client reads its messages, and its pieces are paid for;
        meanwhile unread data waits in the network.
        """
        # Others may have their turn between two messages.
        await asyncio.sleep(self._pace.debt_s(asyncio.get_running_loop().time()))
        await self._wait_for_lookup()
        while not self._replies.closing and not self._has_room:
            await asyncio.sleep(_ROOM_S)

    @property
    def _has_room(self) -> bool:
        return self._replies.size < _QUEUED and (self.live is None or self.hub.has_room(self.live))

    # --- actions -----------------------------------------------------------------------------------------------------

    def _perform(self, actions: Iterable[base.Action]) -> None:
        for action in actions:
            if self._replies.closing:
                return
            match action:
                case base.Reply():
                    self._replies.add(action)
                case base.Close():
                    self._replies.add(_CUT_OFF if self._cut_off and action.code == _FINE else action)
                case base.Resume() if self.hub.look_up is not None and self.live is None:
                    self._lookup = asyncio.create_task(self._look_up(action, self.hub.look_up), name="look up")
                case base.Start() | base.Resume():
                    self._begin(action)
                case base.Abandon():
                    self._abandon()
                case _:
                    self._command(action)
        self._awake.set()

    async def _look_up(self, action: base.Resume, look_up: Callable[[str, str], Awaitable[None]]) -> None:
        """Ask the journal for a session that another server may have."""
        try:
            self.hub.places.check_guess(action.session, self.owner, self.party)
            await look_up(action.session, self.owner)
        except RefusedError as error:
            self.problem(error.kind, str(error), fatal=True)
            return
        self._begin(action)
        self._awake.set()

    async def _wait_for_lookup(self) -> None:
        """Stop reading while a session is looked up."""
        if self._lookup is not None:
            # Taken before it is awaited: two places ask for it, and it counts once.
            lookup, self._lookup = self._lookup, None
            await lookup

    def _begin(self, action: base.Start | base.Resume) -> None:
        if self.live is not None:
            self.problem("bad_request", "expected one session at a time; one is open already", fatal=True)
            return
        try:
            if isinstance(action, base.Start):
                live, started = self.hub.open(
                    action.settings,
                    self.owner,
                    self.protocol.name,
                    resumable=self.protocol.resumable,
                    limit_s=self.protocol.opening.server.limit_s,
                )
            else:
                live, started = self.hub.resume(action, self.owner, self.party)
        except RefusedError as error:
            self.problem(error.kind, str(error), fatal=True, last_seq=error.last_seq)
            return
        if live.wake is not None:  # the connection before is dead and does not know it yet
            self.hub.detach(live)
        self.live = live
        self._complained, self._lost = set(), set()
        live.wake = self._awake.set
        self._started = started
        self._welcome()

    def _welcome(self) -> None:
        """Tell the client that it has its session, and the position from which to send.

        A client that comes back goes on after what is safe. What came in and is not written yet would come again, with
        the commands that stood in it; so nothing is sent until that is written.
        """
        live, started = self.live, self._started
        if live is None or started is None or live.safe < live.accepted:
            return
        self._started, self._safe, self._processed = None, live.safe, 0
        self._perform(self.protocol.started(replace(started, received=live.safe)))

    def _command(self, action: base.Audio | base.Configure | base.Clear | base.Flush | base.Finish | base.Ack) -> None:
        if self.live is None:
            self.problem("bad_request", "expected a session to be open; none is", fatal=False)
        elif isinstance(action, base.Ack):
            self.hub.acknowledge(self.live, action.seq)
        elif not isinstance(action, base.Audio) or len(action.samples):
            found = self.hub.put(self.live, action)
            if found is not None and found.kind not in self._complained:
                self._complained.add(found.kind)  # once, not for every message that follows
                self.problem(found.kind, found.message, fatal=found.fatal)

    def _abandon(self) -> None:
        if self.live is not None:
            live, self.live = self.live, None
            self.hub.drop(live)

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        while True:
            # Cleared before it is looked at: whatever comes in the meantime wakes the writer again.
            self._awake.clear()
            self._hand_over()
            if not self._replies:
                await self._awake.wait()
                continue
            try:
                if await self._replies.send_next(self.transport, self.hub.options.limits.stall_s):
                    return
            except TimeoutError:
                self.hub.metrics.refused.labels("too_slow").inc()
                await self.transport.close(base.CLOSE_CODES["too_slow"], "expected the client to read what it is sent")
                return

    def _hand_over(self) -> None:
        """Give the protocol the new entries of the session."""
        self._welcome()
        live = self.live
        if live is None or self._replies.closing or self._started is not None:
            return
        self._say_what_is_lost(live)
        # With something to say anyway any progress is told, else one second of audio at a time.
        if live.safe - self._safe >= (1 if live.outbox.waiting else SAMPLE_RATE):
            self._safe = live.safe
            self._perform(self.protocol.accepted(live.safe))
        while self._replies.size < _QUEUED and (entries := live.outbox.take(_BATCH)):
            events: list[Event] = []
            for entry in entries:
                if isinstance(entry, Event):
                    events.append(entry)
                    continue
                # A mark answers for the events before it, so these are told first.
                self._tell(events)
                events = []
                self._perform(self.protocol.flushed() if entry == "flushed" else self.protocol.cleared())
            over = bool(events) and is_last(events[-1])
            if over:
                self.live = None  # the protocol may start another when it hears of the end
                self._cut_off = live.cut_off
            self._tell(events[:-1] if self._silence and over and isinstance(events[-1], End) else events)
            if not self.protocol.resumable:
                live.outbox.forget_sent()
            if over:
                self._leave(live)
                if self._silence:
                    self.problem("idle", self._silence, fatal=True)
                return
        if not live.outbox.waiting and live.processed > self._processed:
            self._processed = live.processed
            self._perform(self.protocol.processed(live.processed))
        if self._silence and not live.busy:  # all is said, and the session goes on
            self.problem("idle", self._silence, fatal=True)

    def _say_what_is_lost(self, live: LiveSession) -> None:
        """Tell the client, of each loss once until it is over."""
        losses, told = self.hub.losses(live), self._lost
        self._lost = losses.keys()
        for kind in sorted(losses.keys() - told):
            self.problem(kind, losses[kind], fatal=False)

    def _tell(self, events: list[Event]) -> None:
        if events:
            self._perform(self.protocol.events(events))

    def _leave(self, live: LiveSession) -> None:
        """Part from the session; a client that may come back might not have all of it."""
        (self.hub.park if self.protocol.resumable else self.hub.drop)(live)

    # --- the end -----------------------------------------------------------------------------------------------------

    async def _send_rest(self, writer: "asyncio.Task[None]") -> None:
        """Send the rest, up to the end, to a client of which nothing more is read but who may still read."""
        live = self.live
        if not self._replies.closing and not self._silence and live is not None and not live.finishing:
            return
        while self.live is not None and not self._replies.closing and not writer.done():
            await asyncio.wait((writer,), timeout=_ROOM_S)
        self._perform((base.Close(),))  # nothing, where one is due already
        await asyncio.wait((writer,), timeout=_CLOSING_S)

    def _release_session(self) -> None:
        live, self.live = self.live, None
        # Else the client has come back on another connection, which has the session now.
        # Equal and not identical: every access makes a new bound method.
        if live is not None and live.wake == self._awake.set:
            self._leave(live)

    def detach(self, live: LiveSession) -> None:
        """Close this connection: the session's client has come back on another."""
        if self.live is live:
            self.live = None
            self._perform((base.Close(4001, "the session was resumed on another connection"),))
