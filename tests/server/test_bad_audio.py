"""Audio that is cut anywhere, no numbers or hardly there, over real sockets: it costs nobody a word."""

import asyncio
from typing import Any

import pytest

from served import TEXT, client
from slow_rows import slow_but
from speaking import speak
from standing_server import PORTS, SOCKETS, Standing, answers


@pytest.mark.parametrize("where", slow_but([*SOCKETS, *PORTS], "/ws", "wyoming"))
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
            "at most 20 s of audio in 1024 bytes",
        ),
        (b"\x1aE\xdf\xa3\x80" + b"\xec\x80" * 500_000, "at most 200 elements of WebM"),
        (b"\x1aE\xdf\xa3\x80" + (b"\xae\x4f\xa0" + b"\xec\x80" * 2_000) * 250, "at most 200 elements"),
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
