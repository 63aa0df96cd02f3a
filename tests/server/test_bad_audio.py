"""Audio that is cut anywhere, no numbers or hardly there, over real sockets: it costs nobody a word."""

import asyncio
import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from served import SECONDS, TEXT, client
from standing_server import PORTS, SOCKETS, Standing, answers, tcp_answer
from whispertide.server.protocols.wyoming import Frame, encode

AT_16_KHZ = {"type": "audio/pcm", "rate": 16_000}


async def speak(town: Standing, where: str, portion: int) -> None:
    """All of the words over one protocol, in portions of so many bytes, to the end."""
    width = 4 if where == "/" else 2
    data = bytes(round(SECONDS * 16_000) * width)
    pieces = [data[at : at + portion] for at in range(0, len(data), portion)]
    if where in PORTS:
        if where == "wyoming":
            form = {"rate": 16_000, "width": 2, "channels": 1}
            pieces = [*(encode(Frame("audio-chunk", form, piece)) for piece in pieces), encode(Frame("audio-stop"))]
        await tcp_answer(town, where, *pieces)
        return
    first = {
        "/": json.dumps({"uid": "u", "language": "en"}),
        SOCKETS[1]: json.dumps(
            {"type": "session.update", "session": {"input_audio_format": AT_16_KHZ, "turn_detection": None}}
        ),
    }
    last: dict[str, str | bytes] = {
        "/ws": '{"type":"finish"}',
        SOCKETS[1]: '{"type":"input_audio_buffer.commit"}',
        SOCKETS[2]: '{"type":"CloseStream"}',
        SOCKETS[3]: '{"type":"Terminate"}',
        "/": b"END_OF_AUDIO",
        "/asr": b"",
    }
    path = where + ("?encoding=linear16&sample_rate=16000" if where == "/v1/listen" else "")
    async with connect(f"ws://127.0.0.1:{town.port}{path}", proxy=None) as socket:
        if where in first:
            await socket.send(first[where])
        if where == "/":
            await socket.recv()
        for piece in pieces:
            if where == SOCKETS[1]:
                text = base64.b64encode(piece).decode()
                await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": text}))
            else:
                await socket.send(piece)
        await socket.send(last[where])
        async with asyncio.timeout(60):
            with suppress(ConnectionClosed):
                while "input_audio_transcription.completed" not in str(await socket.recv()) or where != SOCKETS[1]:
                    pass


@pytest.mark.parametrize("where", [*SOCKETS, *PORTS])
async def test_odd_byte_counts_cost_no_word(town: Standing, where: str) -> None:
    """Samples that are cut anywhere are put together again, but on WhisperLive, whose own server takes whole ones."""
    town.watcher.sessions.clear()
    await speak(town, where, portion=8_192 if where == "/" else 8_191)
    async with asyncio.timeout(60):
        while town.words() != TEXT:
            await asyncio.sleep(0.02)


async def test_samples_that_are_no_numbers(town: Standing) -> None:
    async with town.bystander(), client(town.server) as one:
        await one.send({"type": "start", "format": "f32le"})
        await one.send(bytes.fromhex("0000c07f0000807f000080ffffff7f7f") * 4_000 + b"\x01\x02\x03")
        await one.send({"type": "finish"})
        assert await one.rest() == 1000


@pytest.mark.parametrize(("where", "closed"), [("/v1/listen", 1008), ("/asr", 1007)])
@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (
            (b"OggS" + bytes(22) + b"\xff" + b"\x02" * 255 + b"\xfb\x06" * 255) * 120,
            "at most 120 s of audio in a message",
        ),
        (b"\x1aE\xdf\xa3\x80" + b"\xec\x80" * 500_000, "at most 10000 elements of WebM in a message"),
        (b"\x1aE\xdf\xa3\x80" + (b"\xae\x4f\xa0" + b"\xec\x80" * 2_000) * 250, "at most 10000 elements"),
    ],
    ids=["Ogg", "WebM", "tracks of WebM"],
)
def test_a_small_message_that_holds_hours(
    town: Standing, where: str, closed: int, message: bytes, problem: str
) -> None:
    """The zip bomb of live audio: a container with hardly anything in it (files: `test_rest`)."""

    async def talk() -> tuple[list[Any], int]:
        async with town.bystander():
            return await answers(town, where, message, until="never")

    heard, code = asyncio.run(talk())
    assert code == closed
    assert problem in str(heard)
