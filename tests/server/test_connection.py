"""One connection by itself, with a transport that does what the test wants."""

import asyncio
from typing import Any

import pytest

from served import KnowingModel, limited
from whispertide.server.connection import Connection, GoneError
from whispertide.server.hub import Hub
from whispertide.server.protocols.native import NativeProtocol
from whispertide.streaming.recipes import get_recipe
from wire_conversation import opening


class Leaving:
    """A client that sends one message, and is gone when it is told the next thing."""

    def __init__(self, message: str) -> None:
        self.messages = [message]
        self.told = 0

    async def receive(self) -> str:
        if self.messages:
            return self.messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: str | bytes) -> None:
        self.told += 1
        if self.told > 1:
            raise GoneError

    async def close(self, code: int, reason: str) -> None:
        pass


def test_a_session_is_looked_up_for_nobody_who_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader is between two messages when the writer finds out: nobody waits for the answer any more."""

    async def run() -> None:
        hub = Hub({"nano.en": KnowingModel()}, get_recipe("whisper-streaming"), limited())  # type: ignore[dict-item]
        asked, given_up = asyncio.Event(), asyncio.Event()

        async def look_up(session: str, owner: str) -> None:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()

        async def between_messages(connection: Connection) -> None:
            await asked.wait()
            connection.problem("bad_request", "so that the writer has something to say", fatal=False)
            await asyncio.Event().wait()

        hub.look_up = look_up
        monkeypatch.setattr(Connection, "_room", between_messages)
        transport: Any = Leaving('{"type":"resume","session":"another server\'s"}')
        await Connection(hub, NativeProtocol(opening()), transport, "").run()
        assert given_up.is_set()

    asyncio.run(asyncio.wait_for(run(), 30))
