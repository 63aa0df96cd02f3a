"""A client of each protocol that says everything."""

import asyncio
import base64
import json
from contextlib import suppress

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from served import SECONDS
from standing_server import PORTS, SOCKETS, Standing, tcp_answer
from whispertide.server.protocols.wyoming import Frame, encode

AT_16_KHZ = {"type": "audio/pcm", "rate": 16_000}


async def speak(town: Standing, where: str, portion: int, seconds: float = SECONDS) -> None:
    """All of the words over one protocol, in portions of so many bytes and as fast as they can be sent, to the end."""
    width = 4 if where == "/" else 2
    data = bytes(round(seconds * 16_000) * width)
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
        "/v2/listen": '{"type":"CloseStream"}',
    }
    path = where + ("?encoding=linear16&sample_rate=16000" if where.endswith("/listen") else "")
    async with connect(f"ws://127.0.0.1:{town.port}{path}", proxy=None, close_timeout=0.5) as socket:
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
