"""Live sessions for `benchmarks/server.py`: what they say, how they say it as fast as it is spoken, and what they hear.

Knows our native protocol and the WebSocket of WhisperLiveKit; knows nothing of how a server is started.
"""

import asyncio
import difflib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.client import connect

from whispertide import api
from whispertide.audio.file import load_audio
from whispertide.audio.wav import pcm
from whispertide.types import SAMPLE_RATE, FloatArray, Word, seconds
from whispertide_lab.speech.manifest import bare_word

CLIPS = tuple(
    Path(__file__).parents[1] / "tests" / "clips" / f"{name}.flac" for name in ("river", "winter", "letter", "quiet")
)
BLOCK = SAMPLE_RATE // 10
PAUSE = SAMPLE_RATE  # between two clips
PATIENCE_S = 60.0  # for the last words
SETTINGS: dict[str, Any] = {"proxy": None, "max_queue": None, "max_size": None, "close_timeout": 1}


@dataclass(frozen=True)
class Talk:
    """What every session says; `words` are (normalised text, end in seconds) as the model hears them offline."""

    samples: FloatArray
    words: tuple[tuple[str, float], ...]


@dataclass
class Heard:
    """What one session was sent: words in the order of their confirmation, each with its time since the first block."""

    words: list[tuple[str, float]] = field(default_factory=list)
    complete: bool = False
    problem: str = ""

    def latencies(self, talk: Talk) -> list[float]:
        """Of the words that the offline transcript has too."""
        mine, theirs = [word for word, _ in self.words], [word for word, _ in talk.words]
        blocks = difflib.SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
        return [
            self.words[block.a + step][1] - talk.words[block.b + step][1]
            for block in blocks
            for step in range(block.size)
        ]


Listen = Callable[[int, Talk, Heard], Awaitable[None]]


def make_talk(model: str, precision: Any, duration_s: float, clips: Sequence[Path] = CLIPS) -> Talk:
    """The clips one after the other, up to about that length, and their words."""
    return make_talks(model, precision, duration_s, [*map(load_audio, clips)])[0]


def make_talks(
    model: str, precision: Any, duration_s: float, clips: Sequence[FloatArray], number: int = 1
) -> list[Talk]:
    """So many talks of about that length; each begins with another clip, as long as there are any."""
    transcriber = api.load(model, precision=precision)
    heard = cache(lambda clip: transcriber.transcribe(clips[clip]).words)
    return [_talk(clips, heard, duration_s, first) for first in range(min(number, len(clips)))]


def _talk(clips: Sequence[FloatArray], heard: Callable[[int], Sequence[Word]], duration_s: float, first: int) -> Talk:
    """From clip `first` on, around and around."""
    samples: list[FloatArray] = []
    words: list[tuple[str, float]] = []
    at = 0
    for number in count(first):
        if seconds(at) >= duration_s:
            break
        clip = clips[number % len(clips)]
        words += [(bare_word(word.text), seconds(at + word.end)) for word in heard(number % len(clips))]
        samples += [clip, np.zeros(PAUSE, np.float32)]
        at += len(clip) + PAUSE
    return Talk(np.concatenate(samples), tuple(word for word in words if word[0]))


def beginning(talk: Talk, duration_s: float) -> Talk:
    """Its first seconds, to warm a server up."""
    return Talk(talk.samples[: round(duration_s * SAMPLE_RATE)], ())


def in_common(one: Sequence[str], other: Sequence[str]) -> float:
    """The share of words that two texts have in common, in order."""
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


async def pace(talk: Talk, send: Callable[[bytes], Awaitable[None]]) -> None:
    """Send the talk as fast as it is spoken."""
    samples = np.frombuffer(pcm(talk.samples), "<i2")
    began = time.perf_counter()
    for start in range(0, len(samples), BLOCK):
        block = samples[start : start + BLOCK]
        await asyncio.sleep(max(0.0, began + (start + len(block)) / SAMPLE_RATE - time.perf_counter()))
        await send(block.tobytes())


async def converse(
    address: str,
    talk: Talk,
    heard: Heard,
    last: str | bytes,
    take: Callable[..., bool],
    first: str = "",
    wrap: Callable[[bytes], str | bytes] = bytes,
) -> None:
    """Say `first`, the talk in messages that `wrap` makes of blocks of 16-bit samples, and then `last`.

    `take(message, seconds since the first block)` is told what comes, until True.
    """
    try:
        async with connect(address, **SETTINGS) as socket:
            if first:
                await socket.send(first)
            began = time.perf_counter()

            async def speak() -> None:
                await pace(talk, lambda block: socket.send(wrap(block)))
                await socket.send(last)

            speaking = asyncio.create_task(speak())
            try:
                async with asyncio.timeout(seconds(len(talk.samples)) + PATIENCE_S):
                    async for message in socket:
                        if take(json.loads(message), time.perf_counter() - began):
                            break
            finally:
                speaking.cancel()
                await asyncio.gather(speaking, return_exceptions=True)
    except Exception as error:
        heard.problem = heard.problem or f"{type(error).__name__}: {error}"


async def listen_to_us(port: int, talk: Talk, heard: Heard, query: str = "") -> None:
    """One session of the native protocol."""

    def take(event: dict[str, Any], now: float) -> bool:
        if event["type"] == "confirmed":
            heard.words += [(bare_word(word["text"]), now) for word in event["words"] if bare_word(word["text"])]
        elif event["type"] in ("problem", "error"):
            heard.problem = event["message"]
        elif event["type"] == "end":
            heard.complete = abs(event["duration"] - seconds(len(talk.samples))) < 0.001
        return False  # the server closes

    await converse(f"ws://127.0.0.1:{port}/ws{query}", talk, heard, '{"type":"finish"}', take)


async def listen_to_livekit(port: int, talk: Talk, heard: Heard, query: str = "") -> None:
    """One session of WhisperLiveKit's own WebSocket: its `lines` are what it confirmed."""

    def take(state: dict[str, Any], now: float) -> bool:
        heard.complete = state.get("type") == "ready_to_stop"
        text = " ".join(line.get("text") or "" for line in state.get("lines", ()))
        words = [word for word in map(bare_word, text.split()) if word]
        heard.words += [(word, now) for word in words[len(heard.words) :]]
        return heard.complete

    await converse(f"ws://127.0.0.1:{port}/asr{query}", talk, heard, b"", take)
