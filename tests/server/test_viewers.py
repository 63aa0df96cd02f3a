"""Watching over real sockets: who comes when, who may not, and that the speaker never notices."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from served import SILENCE, TEXT, KnowingModel, Listening, client, keyed, limited, say_everything, served, web_client
from standing_server import frame, raw_socket
from whispertide.events import Confirmed
from whispertide.server.access import AccessControl, Authenticator
from whispertide.server.broadcasts import FAILED
from whispertide.server.captions import Captions
from whispertide.server.serving import Server
from whispertide.server.viewers import serve_viewer

KEY = "a-secret-key"


@dataclass
class Viewer:
    """One who watches, and what they read."""

    socket: ClientConnection
    text: str = ""
    last: dict[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        return [word.strip(" ,.!").lower() for word in self.text.split()]

    async def read(self) -> dict[str, Any]:
        self.last = json.loads(await self.socket.recv())
        self.text += self.last["text"]
        return self.last

    async def until(self, reached: Callable[["Viewer"], object]) -> None:
        """Read until something is true."""
        async with asyncio.timeout(60):  # of them all: a message comes now and then in any case
            while not reached(self):
                await self.read()

    async def until_words(self, count: int) -> None:
        await self.until(lambda viewer: len(viewer.words) >= count)

    async def code(self) -> int | None:
        """Read to the end."""
        with suppress(ConnectionClosed):
            await self.until(lambda _: False)
        return self.socket.close_code


@asynccontextmanager
async def watching(server: Listening, path: str, query: str = "") -> AsyncIterator[Viewer]:
    async with connect(f"ws://127.0.0.1:{server.port}/{path}{query}", proxy=None) as opened:
        yield Viewer(opened)


async def address(server: Server, session: str | list[str] | None = None, secret: str | None = None) -> dict[str, Any]:
    """Ask for an address to watch."""
    async with web_client(server) as web:
        answer = await web.post("/v1/watch", json={"session": session, "secret": secret})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_one_who_is_there_from_the_beginning_and_one_who_joins_late_read_the_same() -> None:
    async with served() as (server, hub):
        made = await address(server)
        async with watching(server, made["path"]) as early, client(server) as speaker:
            assert (await early.read())["speaking"] is False
            await speaker.send({"type": "start"})
            session = (await speaker.until("session"))["session"]
            assert await address(server, session, made["secret"]) == made
            await speaker.send(*[SILENCE] * 6)
            await early.until_words(3)
            assert early.last["speaking"]
            async with watching(server, made["path"]) as late:
                assert (await late.read())["text"], "the text so far"
                await speaker.send(*[SILENCE] * 5, {"type": "finish"})
                assert await speaker.rest() == 1000
                for viewer in (early, late):
                    await viewer.until_words(12)
                    await viewer.until(lambda one: not one.last["speaking"])
                    assert viewer.words == TEXT
                    assert viewer.text.endswith("\n")
                    assert viewer.last["guess"] == ""
                assert early.text == late.text
                assert hub.broadcasts.viewers == 2
                assert session not in json.dumps([early.last, late.last])


async def test_viewers_read_all_channels_of_a_speaker() -> None:
    async with served() as (server, _), client(server, "?multichannel=true&channels=2") as speaker:
        await speaker.send({"type": "start"})
        sessions = [(await speaker.until("session"))["session"] for _ in range(2)]
        made = await address(server, sessions)
        async with watching(server, made["path"]) as early:
            await speaker.send(*[SILENCE * 2] * 6)
            await early.until_words(6)
            async with watching(server, made["path"]) as late:
                await speaker.send(*[SILENCE * 2] * 5, {"type": "finish"})
                assert await speaker.rest() == 1000
                for viewer in (early, late):
                    await viewer.until(lambda one: not one.last.get("speaking", True))
                assert early.text == late.text
                assert sorted(early.words) == sorted(2 * TEXT)
            async with watching(server, made["path"]) as last:
                await last.read()
                said: dict[int, list[str]] = {1: [], 2: []}
                for number, line in zip(last.last["speakers"], last.text.split("\n"), strict=True):
                    said.get(number, []).extend(word.strip(" ,.!").lower() for word in line.split())
                assert said == {1: TEXT, 2: TEXT}


async def test_a_guess_is_seen_before_its_words_are_confirmed() -> None:
    async with served() as (server, _), client(server) as speaker:
        await speaker.send({"type": "start"})
        made = await address(server, (await speaker.until("session"))["session"])
        async with watching(server, made["path"]) as viewer:
            await speaker.send(SILENCE)
            await viewer.until(lambda one: one.last.get("guess"))
            assert (viewer.text + viewer.last["guess"]).lower().split()[0].strip(",.!") == "w0"


async def test_a_viewer_who_comes_back_gets_what_they_missed() -> None:
    async with served() as (server, _):
        made = await address(server)
        async with client(server) as speaker:
            await speaker.send({"type": "start"})
            await address(server, (await speaker.until("session"))["session"], made["secret"])
            await speaker.send(*[SILENCE] * 6)
            async with watching(server, made["path"]) as viewer:
                await viewer.until_words(3)
            await speaker.send(*[SILENCE] * 5, {"type": "finish"})
            await speaker.rest()
            place = f"?run={viewer.last['run']}&position={viewer.last['end']}"
            async with watching(server, made["path"], place) as again:
                await again.read()
                assert viewer.words + again.words == TEXT


async def test_the_speakers_connection_breaks_and_nobody_who_watches_notices() -> None:
    async with served() as (server, _):
        made = await address(server)
        async with watching(server, made["path"]) as viewer:
            async with client(server) as speaker:
                await speaker.send({"type": "start"})
                session = (await speaker.until("session"))["session"]
                await address(server, session, made["secret"])
                await speaker.send(*[SILENCE] * 4)
                await viewer.until_words(1)
                speaker.socket.transport.abort()
            async with client(server, f"?session={session}") as again:
                resumed = await again.until("session")
                await address(server, session, made["secret"])
                seconds = 11 - resumed["received"] / 16_000
                await say_everything(again, seconds=seconds)
                assert await again.rest() == 1000
            await viewer.until_words(12)
            assert viewer.words == TEXT


async def test_another_recording_goes_on_at_the_same_address() -> None:
    async with served() as (server, _):
        made = await address(server)
        async with watching(server, made["path"]) as viewer:
            for _ in range(2):
                async with client(server) as speaker:
                    await speaker.send({"type": "start"})
                    await address(server, (await speaker.until("session"))["session"], made["secret"])
                    await say_everything(speaker)
                    await speaker.rest()
            await viewer.until_words(24)
            assert viewer.words == TEXT * 2


async def test_the_key_opens_nothing_else_and_no_other_key_opens_it() -> None:
    async with served(keyed(KEY)) as (server, _):
        bearer = {"Authorization": f"Bearer {KEY}"}
        async with client(server, additional_headers=bearer) as speaker:
            await speaker.send({"type": "start"})
            session = (await speaker.until("session"))["session"]
            async with web_client(server) as web:
                assert (await web.post("/v1/watch", json={})).status_code == 401
                made = (await web.post("/v1/watch", json={"session": session}, headers=bearer)).json()
                for name in ("key", "secret"):
                    opened = await web.get("/v1/models", headers={"Authorization": f"Bearer {made[name]}"})
                    assert opened.status_code == 401
            async with watching(server, made["path"]) as viewer:  # without an API key
                await speaker.send(*[SILENCE] * 3)
                await viewer.until_words(1)
            for path in (f"/ws?api_key={made['key']}", f"/watch/{session}", f"/watch/{made['secret']}", "/watch/x"):
                with pytest.raises(InvalidStatus) as refused:
                    await connect(f"ws://127.0.0.1:{server.port}{path}", proxy=None)
                assert refused.value.response.status_code == (401 if path.startswith("/ws") else 404)


async def test_an_address_that_was_ended_is_gone_at_once() -> None:
    async with served() as (server, hub):
        async with client(server) as speaker:
            await speaker.send({"type": "start"})
            made = await address(server, (await speaker.until("session"))["session"])
            async with watching(server, made["path"]) as viewer, web_client(server) as web:
                await viewer.read()
                answer = await web.post("/v1/watch/end", json={"secret": made["secret"]})
                assert answer.json() == {"ended": True}
                assert await viewer.code() == 4003
                assert (await web.post("/v1/watch/end", json={"secret": made["secret"]})).json() == {"ended": False}
            with pytest.raises(InvalidStatus):
                await connect(f"ws://127.0.0.1:{server.port}/{made['path']}", proxy=None)
            await say_everything(speaker)
            assert await speaker.rest() == 1000
            assert speaker.text == TEXT
        assert hub.broadcasts.viewers == 0


async def test_too_many_viewers_are_refused_and_the_speaker_finds_a_place() -> None:
    async with served(limited(viewers=2, connections=1, sessions=1)) as (server, _):
        made = await address(server)
        async with watching(server, made["path"]), watching(server, made["path"]):
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"ws://127.0.0.1:{server.port}/{made['path']}", proxy=None)
            assert refused.value.response.status_code == 503
            assert b"at most 2 viewers of one session" in refused.value.response.body
            async with client(server) as speaker:
                await say_everything(speaker)
                assert await speaker.rest() == 1000


async def test_who_watches_says_nothing() -> None:
    async with served() as (server, hub):
        made = await address(server)
        async with watching(server, made["path"]) as viewer:
            await viewer.socket.send("let me in")
            assert await viewer.code() == 1008
        assert hub.broadcasts.floods.wait_s("127.0.0.1") > 0, "nor at once again"
        async with client(server) as speaker:  # from the same address
            await say_everything(speaker)
            assert await speaker.rest() == 1000


async def test_a_viewer_who_does_not_read_is_dropped_and_costs_nobody_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is queued for them meanwhile."""
    monkeypatch.setattr("whispertide.server.viewers._STILL_S", 0.2)  # a message that nobody reads
    async with served(limited(stall_s=0.3)) as (server, hub):
        made = await address(server)
        broadcast = hub.broadcasts.find(made["key"])
        assert broadcast is not None
        _, writer = await raw_socket(server.port, f"/{made['path']}", buffer=4096)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        (slow,) = server.server_state.connections
        slow.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        async with watching(server, made["path"]) as viewer, client(server) as speaker:
            await speaker.send({"type": "start"})
            await address(server, (await speaker.until("session"))["session"], made["secret"])
            broadcast.captions.text += 200 * ("x" * 999 + "\n")  # more than the sockets hold
            broadcast.captions.speakers += 200 * [None]  # a paragraph each
            broadcast.captions.take([])
            await say_everything(speaker)
            assert await speaker.rest() == 1000
            assert speaker.text == TEXT
            async with asyncio.timeout(60):
                while broadcast.viewers > 1:
                    await asyncio.sleep(0.02)
            await viewer.until(lambda one: one.words and one.words[-1] == TEXT[-1])
            assert slow.transport.get_write_buffer_size() < 2**20
        writer.transport.abort()


async def test_captions_that_fail_close_their_viewers_and_the_speaker_can_share_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take = Captions.take

    def fails_at_words(captions: Captions, entries: Any) -> bool:
        if any(isinstance(entry, Confirmed) for entry in entries):
            raise IndexError("a text and not its voices")
        return take(captions, entries)

    async with served() as (server, hub), client(server) as speaker:
        await speaker.send({"type": "start"})
        session = (await speaker.until("session"))["session"]
        made = await address(server, session)
        monkeypatch.setattr(Captions, "take", fails_at_words)
        async with watching(server, made["path"]) as viewer:
            await speaker.send(bytes(5 * 32_000))
            assert await viewer.code() == FAILED[0]
            assert viewer.socket.close_reason == FAILED[1]
        assert hub.broadcasts.find(made["key"]) is None
        told = await speaker.until("problem")
        assert (told["kind"], told["fatal"]) == ("not_shared", False)
        monkeypatch.setattr(Captions, "take", take)
        assert await address(server, session, made["secret"]) == made
        async with watching(server, made["path"]) as viewer:
            await speaker.send(bytes(6 * 32_000), {"type": "finish"})
            await viewer.until_words(1)
        assert await speaker.rest() == 1000
    assert speaker.text == TEXT
    assert len(speaker.said("problem")) == 1, "the address is open again"
    (line,) = [line for line in caplog.records if line.levelno >= logging.ERROR]
    assert line.getMessage() == "the broadcast of a session failed; it continues without it"


async def test_a_viewer_whose_captions_cannot_be_written_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a defect")

    async with served() as (server, hub):
        made = await address(server)
        monkeypatch.setattr(Captions, "message", broken)
        async with watching(server, made["path"]) as viewer:
            assert (await viewer.code(), viewer.socket.close_reason) == FAILED
        assert hub.broadcasts.find(made["key"]) is not None
    assert [line.getMessage() for line in caplog.records if line.levelno >= logging.ERROR] == ["a viewer failed"]


async def test_one_who_leaves_before_the_greeting_is_not_counted() -> None:
    async def coming() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def gone(_: Any) -> None:
        raise OSError("the connection is gone")

    async with served() as (server, hub), web_client(server) as web:
        made = await address(server)
        scope = {"type": "websocket", "path_params": {"key": made["key"]}, "query_string": b"", "headers": []}
        access = AccessControl(Authenticator(hub.options.access), hub.options)
        with pytest.raises(OSError, match="gone"):
            await serve_viewer(WebSocket(scope, coming, gone), hub, access)
        assert "\nwhispertide_viewers 0.0\n" in (await web.get("/metrics")).text
        async with watching(server, made["path"]) as viewer:
            await viewer.read()
            assert "\nwhispertide_viewers 1.0\n" in (await web.get("/metrics")).text


async def test_half_a_frame_and_a_sudden_end_leave_nothing() -> None:
    async with served() as (server, hub):
        made = await address(server)
        for data in (frame(1, b"x" * 100)[:50], b"\xff\xff\xff", b""):
            _, writer = await raw_socket(server.port, f"/{made['path']}")
            writer.write(data)
            await writer.drain()
            writer.transport.abort()
        async with asyncio.timeout(60):
            while hub.broadcasts.viewers:
                await asyncio.sleep(0.01)


async def test_the_server_stops_with_viewers() -> None:
    """`served` looks for what is left."""
    async with served(model=KnowingModel()) as (server, _):
        made = await address(server)
        socket = await connect(f"ws://127.0.0.1:{server.port}/{made['path']}", proxy=None)
        await socket.recv()
    await socket.wait_closed()
    assert socket.close_code in (1001, 1012)


async def test_viewers_have_the_last_words_when_the_server_stops() -> None:
    """A session that is not finished is finished then, and its last words are said at the very end."""
    async with served() as (server, _), client(server) as speaker:
        await speaker.send({"type": "start"})
        made = await address(server, (await speaker.until("session"))["session"])
        async with watching(server, made["path"]) as viewer:
            await speaker.send(*[SILENCE] * 4)
            await viewer.until_words(1)
            server.should_exit = True
            code = await viewer.code()
            assert await speaker.rest() == 1012
            assert viewer.words == [word.lower() for word in speaker.text]
            assert not viewer.last["speaking"]
            assert code == 1012
