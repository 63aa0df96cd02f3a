"""A client that comes back, whatever happens to it or its server, and checks every promise of the native protocol.

It keeps what the guide says that a client keeps: the audio after the last `received` it was told, and the number of
the last event. What it is promised: nothing before `received` has to be sent again; events come without gaps, in
order, and the same when they come again; the words are those that were said.
"""

import asyncio
import json
import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from campaign.difference import Difference, difference
from served import events_of, text_of
from whispertide.events import End, Event
from whispertide.types import Word

PATIENCE_S = 120.0  # also on a core that others use
GONE = 4004  # the close code of a session that is not there
HARMLESS = ("shutdown", "unknown_session", "not_durable")  # problems that a session survives; the words say whether


class BrokenPromiseError(AssertionError):
    """The server did not do what docs/reference/server.md says."""


@dataclass(frozen=True)
class Talk:
    """What is said. `pauses` are samples between two words, where a flush cuts none."""

    words: tuple[Word, ...]
    duration: int

    @property
    def text(self) -> list[str]:
        """The words as `text_of` gives them."""
        return [word.text.strip() for word in self.words]

    @property
    def pauses(self) -> list[int]:
        """The middle between two words."""
        return [(one.end + two.start) // 2 for one, two in zip(self.words, self.words[1:], strict=False)]


def make_talk(dice: random.Random, least: int = 8, most: int = 30) -> Talk:
    """Words that all differ, with a pause now and then."""
    words: list[Word] = []
    at = dice.randrange(1_600, 16_000)
    for number in range(dice.randint(least, most)):
        words.append(Word(f" w{number}", at, at + 6_400))
        at += 8_000 + (dice.randrange(16_000, 40_000) if dice.random() < 0.2 else 0)
    return Talk(tuple(words), at + 8_000)


@dataclass
class Speaker:
    """One session from the client's side. `portion` is the most samples in a message."""

    talk: Talk
    dice: random.Random
    recipe: str = "whisper-streaming"
    pcm: bytes = b""  # 16-bit samples, where the model listens
    pause_s: float = 0.002
    session: str = ""
    sent: int = 0
    told: int = 0  # samples that need not be sent again
    seen: list[Event] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # promises
    told_of_loss: bool = False  # where a loss is no broken promise
    anew: int = 0  # sessions that were lost before anything was promised
    _socket: ClientConnection | None = None
    _reading: "asyncio.Task[None] | None" = None
    _started: asyncio.Event = field(default_factory=asyncio.Event)
    _code: int = 0
    _kept: int = -1  # the last event that the server was told is here: it need not have it any more

    @property
    def over(self) -> bool:
        """Whether the last event came."""
        return bool(self.seen) and isinstance(self.seen[-1], End)

    async def connect(self, port: int) -> None:
        """Open the session, or come back to it; with some of the events forgotten, now and then."""
        fresh = not self.session
        last = len(self.seen) - 1
        if self.seen and self.dice.random() < 0.3:
            last = max(self._kept, last - self.dice.randint(1, 5))
        self._kept = last
        query = "" if fresh else f"?session={self.session}&last_seq={last}"
        self._code = 0
        self._started.clear()
        where = f"ws://127.0.0.1:{port}/ws{query}"
        self._socket = await connect(where, proxy=None, open_timeout=PATIENCE_S, close_timeout=1)
        self._reading = asyncio.create_task(self._read(self._socket))
        if fresh:
            await self._send(json.dumps({"type": "start", "recipe": self.recipe}))
        async with asyncio.timeout(PATIENCE_S):
            while not self._started.is_set() and not self._reading.done():
                await asyncio.sleep(0.001)
        if not self._started.is_set():
            await self._reading
            await self._start_anew(port)

    async def _start_anew(self, port: int) -> None:
        """A session that its server did not write down before it died: right so long as nothing was promised."""
        if self.told or self.seen or self._code != GONE:
            raise BrokenPromiseError(
                f"the session is gone (code {self._code}); {self.told} samples and {len(self.seen)} events were told"
            )
        self.session, self.sent = "", 0
        self.anew += 1
        await self.connect(port)

    async def speak(self, until: int, portion: int = 0) -> None:
        """Send the audio up to a sample, in portions of any size or of this one; stops where the connection does."""
        while self.sent < until and self._code == 0:
            count = min(portion or self.dice.randint(1_600, 12_800), until - self.sent)
            if not await self._send(self.pcm[2 * self.sent : 2 * (self.sent + count)] or bytes(2 * count)):
                return
            self.sent += count
            await asyncio.sleep(self.dice.uniform(0, 2 * self.pause_s))

    async def flush(self) -> None:
        """End the utterance here; only between two words."""
        await self._send('{"type":"flush"}')

    async def acknowledge(self) -> None:
        """Tell what events need not be kept."""
        if len(self.seen) > 10:
            self._kept = max(self._kept, len(self.seen) - 8)
            await self._send(json.dumps({"type": "ack", "seq": self._kept}))

    async def finish(self) -> None:
        """Say that nothing follows."""
        await self._send('{"type":"finish"}')

    async def say_the_rest(self, port: int) -> None:
        """Come back, say the rest, and hear everything."""
        await self.connect(port)
        await self.speak(self.talk.duration)
        await self.finish()
        await self.closed()

    async def abort(self) -> None:
        """The connection breaks; nothing that was on its way arrives."""
        if self._socket is not None:
            self._socket.transport.abort()
        await self.closed()

    async def closed(self) -> int:
        """Read to the end; returns the close code."""
        if self._reading is not None:
            async with asyncio.timeout(PATIENCE_S):
                await self._reading
        self._socket = None
        return self._code

    def forget_after(self, seq: int, told: int) -> None:
        """A kill: what came after this event and this promise was never sent."""
        del self.seen[seq + 1 :]
        self.told = min(self.told, told)

    def difference(self) -> Difference:
        """Between what was said and what was confirmed."""
        return difference(self.talk.text, text_of(self.seen))

    def check_end(self) -> None:
        """Whether the session ended, with all of the audio. Raises `BrokenPromiseError` where there is no end."""
        if not self.over:
            raise BrokenPromiseError(f"expected the end of the session; the last event is {self.seen[-1:]}")
        duration = self.seen[-1].duration  # type: ignore[attr-defined]
        if duration != self.talk.duration:
            self.broken.append(f"expected {self.talk.duration} samples at the end; got {duration}")

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _send(self, message: str | bytes) -> bool:
        if self._socket is None:
            return False
        with suppress(ConnectionClosed):
            await self._socket.send(message)
            return True
        return False

    async def _read(self, socket: ClientConnection) -> None:
        with suppress(ConnectionClosed, InvalidHandshake, OSError):
            async for text in socket:
                self._take(json.loads(text))
        self._code = socket.close_code or 1006

    def _take(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "session":
                self.session, received = message["session"], message["received"]
                if not self.told <= received <= self.sent:
                    self.broken.append(f"{received} samples are known; {self.told} were promised, {self.sent} sent")
                self.sent = self.told = received
                self._started.set()
            case "received":
                self.told = max(self.told, message["received"])
            case "problem":
                if message["kind"] not in HARMLESS:
                    raise BrokenPromiseError(f"problem {message['kind']}: {message['message']}")
            case _:
                for event in events_of([message]):
                    self._take_event(event)

    def _take_event(self, event: Event) -> None:
        if event.seq == len(self.seen):
            self.seen.append(event)
        elif event.seq > len(self.seen):
            raise BrokenPromiseError(f"expected event {len(self.seen)}; got {event.seq}: some are missing")
        elif event != self.seen[event.seq]:
            self.broken.append(f"event {event.seq} is another when it comes again: {event}")
