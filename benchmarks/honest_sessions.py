"""An honest session on each protocol of the server, for `benchmarks/siege.py`: it speaks at the pace of life.

What counts is the moment from which a word stands for good. WhisperLive's clients are not told which words of the
newest segment are confirmed; there it is the moment after which the word did not change.
"""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from paced_sessions import Heard, Talk, converse, listen_to_livekit, listen_to_us, pace

from whispertide.server.protocols.wyoming import Frame, FrameReader, encode
from whispertide.types import SAMPLE_RATE
from whispertide_lab.speech.manifest import bare_word

_READ = 2**16


@dataclass(frozen=True)
class Place:
    """Where the server is: its port for HTTP, its TCP ports, and the key of the honest."""

    port: int
    ports: Mapping[str, int]
    key: str

    def address(self, path: str) -> str:
        """Of a WebSocket, with the key."""
        return f"ws://127.0.0.1:{self.port}{path}{'&' if '?' in path else '?'}api_key={self.key}"


class Listen(Protocol):
    """Says the talk on a protocol, and notes what is heard."""

    async def __call__(self, place: Place, talk: Talk, heard: Heard) -> None:
        """One session."""


def words_of(text: str) -> list[str]:
    """A text's words as they are compared."""
    return [word for word in map(bare_word, text.split()) if word]


async def native(place: Place, talk: Talk, heard: Heard) -> None:
    """Our own."""
    await listen_to_us(place.port, talk, heard, f"?api_key={place.key}")


async def asr(place: Place, talk: Talk, heard: Heard) -> None:
    """WhisperLiveKit's."""
    await listen_to_livekit(place.port, talk, heard, f"?api_key={place.key}")


async def deepgram(place: Place, talk: Talk, heard: Heard) -> None:
    """Deepgram's: final results."""

    def take(message: dict[str, Any], now: float) -> bool:
        if message["type"] == "Results" and message["is_final"]:
            heard.words += [(word, now) for word in words_of(message["channel"]["alternatives"][0]["transcript"])]
        elif message["type"] == "Error":
            heard.problem = str(message)
        heard.complete = message["type"] == "Metadata"
        return heard.complete

    path = "/v1/listen?encoding=linear16&sample_rate=16000&interim_results=true"
    await converse(place.address(path), talk, heard, '{"type":"CloseStream"}', take)


async def assemblyai(place: Place, talk: Talk, heard: Heard) -> None:
    """AssemblyAI's: words that are final."""
    known: dict[int, int] = {}  # final words of a turn that were noted

    def take(message: dict[str, Any], now: float) -> bool:
        if message["type"] == "Turn":
            turn = message["turn_order"]
            words = words_of(message["transcript"])
            heard.words += [(word, now) for word in words[known.get(turn, 0) :]]
            known[turn] = max(known.get(turn, 0), len(words))
        elif message["type"] == "Error":
            heard.problem = str(message)
        heard.complete = message["type"] == "Termination"
        return heard.complete

    path = "/v3/ws?sample_rate=16000"
    await converse(place.address(path), talk, heard, '{"type":"Terminate"}', take)


async def realtime(place: Place, talk: Talk, heard: Heard) -> None:
    """OpenAI's: deltas of one item, which the client commits at the end."""

    def take(message: dict[str, Any], now: float) -> bool:
        kind = message["type"].removeprefix("conversation.item.input_audio_transcription.")
        if kind == "delta":
            heard.words += [(word, now) for word in words_of(message["delta"])]
        elif kind == "error":
            heard.problem = str(message["error"])
        heard.complete = kind == "completed"
        return heard.complete

    form = {"format": {"type": "audio/pcm", "rate": SAMPLE_RATE}, "turn_detection": None}
    first = {"type": "session.update", "session": {"type": "transcription", "audio": {"input": form}}}
    last = {"type": "input_audio_buffer.commit"}
    path = "/v1/realtime?intent=transcription"
    await converse(place.address(path), talk, heard, json.dumps(last), take, json.dumps(first), _appended)


def _appended(block: bytes) -> str:
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(block).decode()})


async def whisperlive(place: Place, talk: Talk, heard: Heard) -> None:
    """WhisperLive's: words from when they did not change any more."""
    completed: dict[str, list[str]] = {}  # by start

    def take(message: dict[str, Any], now: float) -> bool:
        if "segments" not in message:
            heard.problem = message["message"] if message.get("status") == "ERROR" else heard.problem
            return False
        open_words: list[str] = []
        for segment in message["segments"]:
            if segment["completed"]:
                completed[segment["start"]] = words_of(segment["text"])
            elif segment["start"] not in completed:
                open_words = words_of(segment["text"])
        words = [word for segment in completed.values() for word in segment] + open_words
        same = 0
        while same < min(len(words), len(heard.words)) and words[same] == heard.words[same][0]:
            same += 1
        heard.words[same:] = [(word, now) for word in words[same:]]
        return False  # the server closes

    first = {"uid": "honest", "language": "en", "send_last_n_segments": 100, "audio_format": "int16"}
    await converse(place.address("/"), talk, heard, b"END_OF_AUDIO", take, json.dumps(first))
    heard.complete = not heard.problem


async def lines(place: Place, talk: Talk, heard: Heard) -> None:
    """The lines of whisper_streaming, over TCP."""
    waiting = b""

    def take(data: bytes, now: float) -> bool:
        nonlocal waiting
        *whole, waiting = (waiting + data).split(b"\n")
        heard.words += [(word, now) for line in whole for word in words_of(line.decode().split(" ", 2)[-1])]
        return False

    await _over_tcp(place.ports["lines"], talk, heard, take)
    heard.complete = not heard.problem


async def wyoming(place: Place, talk: Talk, heard: Heard) -> None:
    """Wyoming's chunks of a transcript, over TCP."""
    reader = FrameReader()
    form = {"rate": SAMPLE_RATE, "width": 2, "channels": 1}

    def take(data: bytes, now: float) -> bool:
        for frame in reader.feed(data):
            if frame.type == "transcript-chunk":
                heard.words += [(word, now) for word in words_of(frame.data["text"])]
            elif frame.type == "error":
                heard.problem = str(frame.data)
            heard.complete = heard.complete or frame.type == "transcript"
        return heard.complete

    first = encode(Frame("transcribe")) + encode(Frame("audio-start", form))
    last = encode(Frame("audio-stop"))
    await _over_tcp(
        place.ports["wyoming"], talk, heard, take, first, last, lambda block: encode(Frame("audio-chunk", form, block))
    )


async def _over_tcp(
    port: int,
    talk: Talk,
    heard: Heard,
    take: Callable[[bytes, float], bool],
    first: bytes = b"",
    last: bytes = b"",
    wrap: Callable[[bytes], bytes] = bytes,
) -> None:
    """`converse` where there are no messages: without `last`, the end is that of our side."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)
        began = time.perf_counter()

        async def send(block: bytes) -> None:
            writer.write(wrap(block))
            await writer.drain()

        async def speak() -> None:
            await pace(talk, send)
            if last:
                writer.write(last)
            else:
                writer.write_eof()

        speaking = asyncio.create_task(speak())
        try:
            while data := await reader.read(_READ):
                if take(data, time.perf_counter() - began):
                    break
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    except Exception as error:
        heard.problem = heard.problem or f"{type(error).__name__}: {error}"


PROTOCOLS: Mapping[str, Listen] = {
    "native": native,
    "asr": asr,
    "deepgram": deepgram,
    "assemblyai": assemblyai,
    "whisperlive": whisperlive,
    "realtime": realtime,
    "wyoming": wyoming,
    "lines": lines,
}
