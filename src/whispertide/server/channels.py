"""One client whose channels are apart: each has a protocol, a connection and a session of its own, over one transport.

Every channel's protocol is given all that the client says, and takes its own channel of the audio. What they say goes
out in the order in which it comes. What is wrong with it for all is told once. Where one is closed with an error all
are; else the client is closed when all are done, after the message that ends the conversation, which the first channel
alone gives.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from whispertide.server.connection import Connection
from whispertide.server.hub import Hub
from whispertide.server.protocols.base import CLOSE_CODES, Problem, WireProtocol
from whispertide.server.transport import GoneError, MessageTooLargeError, OverError, Transport

_AHEAD = 4  # messages that wait for the slowest channel; meanwhile unread data waits in the network
_FINE = 1000
_STOPPING = CLOSE_CODES["shutdown"]
_ELSEWHERE = CLOSE_CODES["taken_over"]
# Problems of what the client says, or of the server, that all channels have.
_SHARED = frozenset({"bad_request", "bad_setting", "too_large", "too_fast", "idle", "shutdown"})


@dataclass(frozen=True, slots=True)
class _Said:
    """What the client says to all channels, or that it says nothing more, and the problems with it that were told."""

    message: str | bytes | Exception
    told: set[Problem] = field(default_factory=set)


class _Channel:
    """The transport of one channel's connection."""

    def __init__(self, client: "_Client", protocol: WireProtocol) -> None:
        self._client = client
        self._protocol = protocol
        self._said = client.opening
        self.incoming: asyncio.Queue[_Said] = asyncio.Queue(_AHEAD)
        self.closed = asyncio.Event()

    async def receive(self) -> str | bytes:
        """Return the next message of the client; see `transport.Transport`."""
        self._said = await self.incoming.get()
        if isinstance(self._said.message, Exception):
            raise self._said.message
        return self._said.message

    def is_told(self, problem: Problem) -> bool:
        """True if another channel has told the same of what the client said last."""
        if problem in self._said.told or isinstance(self._said.message, OverError):
            return True
        if problem.kind in _SHARED:
            self._said.told.add(problem)
        return False

    async def send(self, message: str | bytes) -> None:
        """Send, in turn with the other channels."""
        if self._protocol.is_last(message):
            self._client.last = message
            return
        async with self._client.turn:
            await self._client.transport.send(message)

    async def close(self, code: int, reason: str) -> None:
        """This channel is done; the client is closed at once only if something is wrong."""
        self.closed.set()
        if code != _FINE and self._client.ending == (_FINE, ""):
            self._client.ending = code, reason
            if code != _STOPPING:  # then all have their last words first
                self._client.failed.set()


class _Client:
    """What the channels share."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.turn = asyncio.Lock()
        self.failed = asyncio.Event()
        self.ending = (_FINE, "")
        self.last: str | bytes | None = None
        self.opening = _Said("")  # before it says anything


async def serve_channels(
    hub: Hub, protocols: Sequence[WireProtocol], transport: Transport, owner: str, party: str
) -> None:
    """Serve a client with a protocol for each channel. Returns when everything about them is done."""
    client = _Client(transport)
    channels = [_Channel(client, protocol) for protocol in protocols]
    connections = [
        Connection(hub, protocol, channel, owner, party) for protocol, channel in zip(protocols, channels, strict=True)
    ]
    note_flood = _once(connections[0].note_flood)  # all notice it
    for connection, channel in zip(connections, channels, strict=True):
        connection.note_flood, connection.is_told = note_flood, channel.is_told
    running = [asyncio.create_task(connection.run(), name="channel") for connection in connections]
    reader = asyncio.create_task(_deal_out(transport, channels), name="channels")
    failed = asyncio.create_task(client.failed.wait(), name="a channel failed")
    try:
        everyone = asyncio.gather(*running)
        await asyncio.wait((everyone, failed), return_when=asyncio.FIRST_COMPLETED)
        if client.failed.is_set():
            await _leave(channels, elsewhere=client.ending[0] == _ELSEWHERE)
        await everyone
    finally:
        for task in (reader, failed, *running):
            task.cancel()
        await asyncio.gather(reader, failed, *running, return_exceptions=True)
    if client.last is not None:
        await _say_last(client)
    await transport.close(*client.ending)


def _once(note: Callable[[], None]) -> Callable[[], None]:
    """A call of which only the first counts."""
    calls = iter((note,))
    return lambda: next(calls, lambda: None)()


async def _deal_out(transport: Transport, channels: Sequence[_Channel]) -> None:
    """Give each channel what the client says, until it says nothing more."""
    while True:
        try:
            said = _Said(await transport.receive())
        except (GoneError, MessageTooLargeError) as error:
            said = _Said(error)
        for channel in channels:
            await _give(channel, said)
        if isinstance(said.message, GoneError):
            return


async def _give(channel: _Channel, said: _Said) -> None:
    """Wait until a channel takes a message; one that is done takes none."""
    put, closed = asyncio.create_task(channel.incoming.put(said)), asyncio.create_task(channel.closed.wait())
    try:
        await asyncio.wait((put, closed), return_when=asyncio.FIRST_COMPLETED)
    finally:
        put.cancel()
        closed.cancel()


async def _leave(channels: Sequence[_Channel], *, elsewhere: bool) -> None:
    """The other channels end as well: with their last words, unless the client goes on `elsewhere`."""
    end = GoneError() if elsewhere else OverError("another channel has ended")
    for channel in channels:
        while not channel.incoming.empty():
            channel.incoming.get_nowait()
        channel.incoming.put_nowait(_Said(end))


async def _say_last(client: _Client) -> None:
    try:
        await client.transport.send(client.last or "")
    except GoneError:
        return
