"""What a server has bounds for, on loopback: sessions, their length, messages, idle and slow clients."""

import asyncio
import base64
import json
import socket
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from served import SECONDS, SILENCE, TEXT, KnowingModel, client, limited, say_everything, served

IDLE_S = 1.5  # so long that a busy machine alone does not make a client late
COMPLETED = "conversation.item.input_audio_transcription.completed"


async def test_more_sessions_than_there_is_room_for() -> None:
    async with served(limited(sessions=1)) as (server, _), client(server) as first, client(server) as second:
        await first.send(SILENCE)
        await first.until("session")
        await second.send(SILENCE)
        assert await second.rest() == 1013
        (problem,) = second.said("problem")
        assert problem["kind"] == "overloaded"
        await say_everything(first, seconds=SECONDS - 1)
        assert await first.rest() == 1000
        assert first.text == TEXT


async def test_a_session_that_gets_too_long_is_finished_and_says_everything() -> None:
    async with served(limited(session_s=4)) as (server, _), client(server) as one:
        for _ in range(7):
            await one.send(SILENCE)
        assert await one.rest() == 1000
        assert [problem["kind"] for problem in one.said("problem")][:1] == ["too_long"]
        assert one.said("end")[0]["duration"] == 4
        assert one.text == TEXT[:5]  # the sixth begins at 4.7 s


async def test_messages_that_are_too_large() -> None:
    async with served(limited(message=100_000)) as (server, _), client(server) as one, client(server) as other:
        await one.send(SILENCE)
        with suppress(ConnectionClosed):  # what is sent may meet a closed socket already
            await one.send(bytes(200_000))
        assert await one.rest() == 1009
        await say_everything(other)
        assert await other.rest() == 1000
        assert other.text == TEXT


async def test_openai_clients_may_append_much_audio_at_once() -> None:
    """15 MiB, as there, in base64: twenty times the usual limit of a message. No more of it is taken than of any other
    audio that comes too fast.
    """
    options, audio = limited(message=2**16, inbox_s=1), base64.b64encode(bytes(round(SECONDS * 48_000))).decode()
    commit = {"type": "input_audio_buffer.commit"}
    async with (
        served(options, KnowingModel(round_s=0.05)) as (server, hub),
        client(server, path="/v1/realtime?intent=transcription") as one,
    ):
        most, heard = 0, 0

        async def watch() -> None:
            nonlocal most, heard
            while True:
                most = max([most, *(live.unheard for live in hub.sessions.values())])
                heard = max([heard, *(live.accepted for live in hub.sessions.values())])
                await asyncio.sleep(0.001)

        watching = asyncio.create_task(watch())
        await one.send({"audio": audio, "type": "input_audio_buffer.append"}, commit)
        words: list[str] = []
        while len(words) < len(TEXT):
            said = (await one.until(COMPLETED))["transcript"].lower().split()
            words += [word.strip(",.!") for word in said]
        watching.cancel()
    assert words == TEXT
    assert SECONDS * 16_000 - heard <= 0.03 * 16_000, "the resampler keeps the rest until the commit"
    assert most <= 3 * 16_000


async def test_an_append_of_more_than_theirs_is_too_large() -> None:
    async with served(limited(message=2**12)) as (server, _), client(server, path="/v1/realtime") as one:
        with suppress(ConnectionClosed):
            await one.send({"type": "input_audio_buffer.append", "audio": "A" * 22 * 2**12})
        assert await one.rest() == 1009


async def test_too_many_text_messages() -> None:
    async with served(limited(messages=10)) as (server, _), client(server) as one:
        with suppress(ConnectionClosed):
            for _ in range(10_000):
                await one.send({"type": "keepalive"})
        assert await one.rest() == 4029


@pytest.mark.slow
async def test_audio_that_comes_as_text_is_audio() -> None:
    """OpenAI's clients send it in JSON; a recording comes as fast as it can be read, in pieces of 10 ms."""
    append = {"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(480)).decode()}
    async with served(limited(messages=10)) as (server, _), client(server, path="/v1/realtime") as one:
        for _ in range(round(SECONDS * 100)):
            await one.send(append)
        await one.send({"type": "input_audio_buffer.commit"})
        while not one.said(COMPLETED) or "w11" not in one.messages[-1]["transcript"].lower():
            await one.until(COMPLETED)
        assert not one.said("error")


async def test_text_that_holds_no_audio_counts() -> None:
    async with served(limited(messages=10)) as (server, _), client(server, path="/v1/realtime") as one:
        with suppress(ConnectionClosed):
            for _ in range(1_000):
                await one.send({"type": "input_audio_buffer.append", "audio": ""})
        assert await one.rest() == 4029


async def test_a_silent_client_is_left() -> None:
    async with served(limited(idle_s=0.2)) as (server, _), client(server) as one:
        assert await one.rest() == 4000
        assert one.said("problem")[0]["kind"] == "idle"


async def test_a_silent_client_that_said_nothing_leaves_nothing() -> None:
    async with served(limited(idle_s=0.2)) as (server, hub), client(server) as one:
        await one.send({"type": "start"})
        assert await one.rest() == 4000
        async with asyncio.timeout(30):
            while hub.sessions:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(("said_s", "words"), [(1.2, ["w0 w1"]), (0, [])])
async def test_a_client_that_asked_for_an_end_after_silence_has_its_last_words(said_s: float, words: list[str]) -> None:
    """AssemblyAI's clients, as soon as the server's own limit allows; in the middle of speech, or before any."""
    address = "?sample_rate=16000&inactivity_timeout=5"
    async with served(limited(idle_s=IDLE_S)) as (server, _), client(server, address, "/v3/ws") as one:
        await one.send(bytes(round(said_s * 32_000)))
        assert await one.rest() == 1000
        assert [turn["transcript"] for turn in one.said("Turn") if turn["end_of_turn"]] == words
        assert one.messages[-1]["type"] == "Termination"


APPENDED = {"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(round(1.2 * 48_000))).decode()}
HEARD = bytes(round(1.2 * 32_000))  # two words, of which none is confirmed yet


HEARS: dict[str, tuple[list[Any], int]] = {
    "/ws": ([HEARD], 4000),
    "/v1/realtime?intent=transcription": ([APPENDED], 4000),
    "/v1/listen?encoding=linear16&sample_rate=16000": ([HEARD], 1011),
    "/v2/listen?model=flux-general-en&encoding=linear16&sample_rate=16000": ([HEARD], 1011),
    "/v3/ws?sample_rate=16000": ([HEARD], 3006),
    "/?": ([{"uid": "me", "language": "en", "model": "nano.en", "audio_format": "int16"}, HEARD], 4000),
    "/asr?": ([HEARD], 4000),
}


async def test_silence_costs_no_word() -> None:
    """What was heard is confirmed before the close, which is the same as ever; the reason is the last message."""
    async with served(limited(idle_s=IDLE_S)) as (server, hub):

        async def listen(path: str) -> tuple[int, list[str]]:
            async with client(server, path=path) as one:
                await one.send(*HEARS[path][0])
                return await one.rest(), [json.dumps(message) for message in one.messages]

        for path, (code, told) in zip(HEARS, await asyncio.gather(*map(listen, HEARS)), strict=True):
            assert code == HEARS[path][1], path
            assert "w1" in "".join(told[:-1]), path
            assert [at for at, text in enumerate(told) if "a whole message within" in text] == [len(told) - 1], path
        assert all(live.is_parked for live in hub.sessions.values())


async def test_a_session_that_was_left_for_silence_goes_on() -> None:
    """All that was heard is confirmed, and nobody asked for that, so no mark of it is told."""
    async with served(limited(idle_s=IDLE_S)) as (server, _):
        async with client(server) as one:
            await one.send(HEARD)
            assert await one.rest() == 4000
            assert one.text == TEXT[:2]
            assert not one.said("flushed")
        session, last = one.said("session")[0]["session"], one.events[-1].seq
        async with client(server, f"?session={session}&last_seq={last}") as again:
            assert (await again.until("session"))["received"] == len(HEARD) // 2
            await say_everything(again, seconds=SECONDS - 1.2)
            assert await again.rest() == 1000
            assert again.text == TEXT[2:]
            assert not again.said("flushed")


async def test_a_client_that_waits_for_what_it_said_is_not_left() -> None:
    """Audio came quickly, the model is slow, and nothing more is to be said."""
    async with served(limited(idle_s=0.6), KnowingModel(round_s=0.3)) as (server, _), client(server) as one:
        await say_everything(one)
        assert await one.rest() == 1000
        assert one.text == TEXT


async def test_a_session_may_take_longer_than_a_request() -> None:
    async with served(limited(stall_s=0.6)) as (server, _), client(server) as one:
        await one.send(SILENCE)
        await asyncio.sleep(0.8)
        await say_everything(one, seconds=SECONDS - 1)
        assert await one.rest() == 1000
        assert one.text == TEXT


async def test_audio_that_comes_too_fast_is_read_more_slowly_and_not_dropped() -> None:
    options = limited(inbox_s=1, message=2**22)
    async with served(options, KnowingModel(round_s=0.05)) as (server, hub), client(server) as one:
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max([most, *(live.unheard for live in hub.sessions.values())])
                await asyncio.sleep(0.001)

        watching = asyncio.create_task(watch())
        await say_everything(one, portion=32_000)
        assert await one.rest() == 1000
        watching.cancel()
        assert one.text == TEXT
        assert one.said("end")[0]["duration"] == SECONDS
        assert most <= 3 * 16_000


@pytest.mark.slow
async def test_a_client_that_does_not_read_is_closed() -> None:
    options = limited(stall_s=1.0, messages=10**6)
    async with served(options) as (server, hub):
        # Small buffers are full after some hundred answers, also on a slow machine; connections inherit this one.
        server.servers[0].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        raw = socket.create_connection(("127.0.0.1", server.port))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader, writer = await asyncio.open_connection(sock=raw)
        try:
            await shake_hands(reader, writer)
            writer.transport.set_write_buffer_limits(2**26)
            bad = json.dumps({"type": "x" * 400}).encode()
            frame = bytes([0x81, 0xFE]) + len(bad).to_bytes(2, "big") + bytes(4) + bad
            async with asyncio.timeout(60):
                while hub.connections:  # every one is answered, and the answers quote it
                    writer.write(frame * 200)
                    await asyncio.sleep(0.005)
        finally:
            writer.transport.abort()


async def shake_hands(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head


async def test_more_connections_than_there_is_room_for() -> None:
    async with served(limited(connections=1)) as (server, _), client(server) as first:
        await first.until("hello")
        with pytest.raises(InvalidStatus) as refused:
            async with client(server):
                pass
        assert refused.value.response.status_code == 503
