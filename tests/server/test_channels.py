"""A client whose channels are apart, over real sockets: a session each, and one end."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from served import SECONDS, TEXT, KnowingModel, client, limited, served
from whispertide.events import Event
from whispertide.server.options import ServerOptions
from whispertide.session import Session

STEREO = "/v1/listen?encoding=linear16&sample_rate=16000&channels=2&multichannel=true"
SECOND = bytes(64_000)  # of both channels


def words(messages: list[dict[str, Any]], channel: int) -> list[str]:
    results = [one for one in messages if one["type"] == "Results" and one["channel_index"] == [channel, 2]]
    return [word["word"] for one in results for word in one["channel"]["alternatives"][0]["words"]]


async def test_each_channel_has_a_session_and_the_last_message_ends_both() -> None:
    async with served() as (server, hub), client(server, path=STEREO) as one:
        await one.send(SECOND)
        async with asyncio.timeout(30):
            while len(hub.sessions) < 2:
                await asyncio.sleep(0.01)
        await one.send(*[SECOND] * round(SECONDS - 1), {"type": "CloseStream"})
        assert await one.rest() == 1000
        assert words(one.messages, 0) == words(one.messages, 1) == TEXT
        assert [message["type"] for message in one.messages].count("Metadata") == 1
        assert one.messages[-1]["type"] == "Metadata"
        assert (one.messages[-1]["channels"], "warnings" in one.messages[-1]) == (2, False)
        assert not hub.sessions


async def test_what_concerns_all_is_answered_once() -> None:
    async with served() as (server, _), client(server, path=STEREO) as one:
        await one.send({"type": "Configure", "keyterms": ["tide"]}, SECOND, {"type": "Finalize"})
        for _ in range(2):
            while not (await one.until("Results"))["from_finalize"]:
                pass
        await one.send({"type": "CloseStream"})
        assert await one.rest() == 1000
        assert len(one.said("ConfigureSuccess")) == 1


async def test_an_error_of_the_client_is_told_once() -> None:
    async with served() as (server, _), client(server, path=STEREO) as one:
        await one.send({"type": "Sing"}, {"type": "Dance"}, {"type": "CloseStream"})
        assert await one.rest() == 1000
        assert len(one.said("Error")) == 2


async def test_silence_that_ends_the_stream_is_told_once() -> None:
    async with served(limited(idle_s=0.2)) as (server, _), client(server, path=STEREO) as one:
        assert await one.rest() == 1011
        assert len(one.said("Error")) == 1


class Uneven(KnowingModel):
    """Every other session takes longer for a round than a client may be silent."""

    made = 0

    def session(self, *arguments: Any, **settings: Any) -> Session:
        self.made += 1
        return KnowingModel(round_s=0.0 if self.made % 2 else 2.0).session(*arguments, **settings)


@pytest.mark.parametrize(("path", "code"), [(STEREO, 1011), ("/ws?channels=2&multichannel=true", 4000)])
async def test_silence_costs_no_channel_a_word(path: str, code: int) -> None:
    """One is done at once; the other has its last words all the same."""
    async with served(limited(idle_s=1.5), Uneven()) as (server, _), client(server, path=path) as one:
        await one.send(SECOND)
        assert await one.rest() == code
        told = [message for message in one.messages if message["type"] in ("Results", "confirmed")]
        heard = {str(message.get("channel_index", message["channel"])): json.dumps(message) for message in told}
        assert len(heard) == 2
        assert all("w0" in text for text in heard.values())
        assert json.dumps(one.messages).count("a whole message") in (1, 2)  # Deepgram's has it in two fields


async def test_what_goes_on_elsewhere_is_not_flushed_here() -> None:
    """A flush would confirm words that the next second may change."""
    async with served() as (server, hub), client(server, path="/ws?channels=2&multichannel=true") as one:
        await one.send(SECOND)
        left, right = [(await one.until("session"))["session"] for _ in range(2)]
        while {message["channel"] for message in one.said("hypothesis")} < {1, 2}:
            await one.until("hypothesis")
        async with client(server, f"?session={left}") as other:
            await other.until("session")
            assert await one.rest() == 4001
        kinds = [entry.kind for entry in hub.sessions[right].outbox.entries if isinstance(entry, Event)]
        assert "hypothesis" in kinds
        assert "confirmed" not in kinds


async def test_audio_that_is_none_ends_the_stream_and_is_told_once() -> None:
    opus = STEREO.replace("linear16", "opus").replace("16000", "48000")
    async with served() as (server, _), client(server, path=opus) as one:
        await one.send(b"\xff" * 50)
        assert await one.rest() == 1008
        assert len(one.said("Error")) == 1


async def test_one_channel_without_a_place_ends_both() -> None:
    async with served(limited(sessions=1)) as (server, hub), client(server, path=STEREO) as one:
        assert await one.rest() == 1013
        assert not hub.sessions


async def test_a_flood_is_one_however_many_channels_there_are() -> None:
    async with served(limited(messages=5)) as (server, hub), client(server, path=STEREO) as one:
        with suppress(ConnectionClosed):
            await one.send(*[{"type": "KeepAlive"}] * 100)
        assert await one.rest() == 4029
        assert [flood.times for flood in hub.floods._floods.values()] == [1]


async def test_a_client_that_leaves_leaves_nothing() -> None:
    async with served(ServerOptions(), KnowingModel(round_s=0.01)) as (server, hub):
        # guesses too: on a busy machine one round may hear both seconds, and it takes two to confirm a word
        async with client(server, path=f"{STEREO}&interim_results=true") as one:
            await one.send(SECOND, SECOND)
            await one.until("Results")
        async with asyncio.timeout(30):
            while hub.sessions or hub.connections:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("encoding=linear16&channels=9&multichannel=true", "1 to 8 channels"),
        ("channels=2&multichannel=true", "expected an encoding"),
    ],
)
async def test_channels_that_cannot_be(query: str, told: str) -> None:
    async with served() as (server, _):
        with pytest.raises(InvalidStatus) as refused:
            async with client(server, path=f"/v1/listen?{query}"):
                pass
        response = refused.value.response
        assert response.status_code == httpx.codes.BAD_REQUEST
        assert told in response.body.decode()


async def test_one_channel_and_none_apart_are_as_ever() -> None:
    for query in ("channels=1&multichannel=true", "channels=2"):
        path = f"/v1/listen?encoding=linear16&sample_rate=16000&{query}"
        async with served() as (server, _), client(server, path=path) as one:
            await one.send(SECOND, {"type": "CloseStream"})
            assert await one.rest() == 1000
            assert {tuple(result["channel_index"]) for result in one.said("Results")} == {(0, 1)}
