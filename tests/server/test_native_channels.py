"""The native protocol where channels are apart: a session each over one connection, and all are resumed together."""

import asyncio
import gc
import json
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import InvalidStatus

from each_row import each_row
from served import SECONDS, TEXT, Client, KnowingModel, client, complete, events_of, keyed, limited, served, text_of
from whispertide.events import End, Event
from whispertide.server.protocols.base import Ack, Actions, Audio, Flush, ProtocolError, Reply, Start, Started
from whispertide.server.protocols.native import NativeProtocol
from wire_conversation import opening

APART = "?multichannel=true&channels=2"
SECOND = bytes(64_000)  # of both channels
TOTAL = round(SECONDS * 16_000)


def of(events: list[Event], channel: int) -> list[Event]:
    return [event for event in events if event.channel == channel]


# --- without sockets -------------------------------------------------------------------------------------------------


def both(**query: str) -> list[NativeProtocol]:
    found = NativeProtocol.conversations(opening(multichannel="true", channels="2", **query))
    for protocol in found:
        protocol.opened()
    return found


def told(actions: Actions) -> list[dict[str, Any]]:
    return [json.loads(action.message) for action in actions if isinstance(action, Reply)]


def heard(actions: Actions) -> list[float]:
    return [float(value) for action in actions if isinstance(action, Audio) for value in action.samples]


def frames(*values: tuple[int, int]) -> bytes:
    return np.array(values, "<i2").tobytes()


def started(session: str, received: int = 0) -> Started:
    return Started(session, "nano.en", "tide", None, received=received, resumed=received > 0)


def test_each_takes_its_own_channel_of_the_audio() -> None:
    left, right = both()
    sent = frames((1 << 14, 1 << 13), (0, -(1 << 14)))
    assert [heard(one.receive(sent)) for one in (left, right)] == [[0.5, 0], [0.25, -0.5]]


def test_what_has_a_channel_is_for_that_one_and_all_else_for_all() -> None:
    left, right = both(language="en")
    german = '{"type":"start","channel":2,"language":"de"}'
    assert left.receive(german) == ()
    (start,) = right.receive(german)
    assert isinstance(start, Start)
    assert start.settings.language == "de"
    (other,) = [action for action in left.receive(bytes(4)) if isinstance(action, Start)]
    assert (other.settings.language, other.settings.speakers) == ("en", 0), "each is a speaker, whatever is usual"
    assert [one.receive('{"type":"flush"}') for one in (left, right)] == [(Flush(),), (Flush(),)]
    acknowledged = '{"type":"ack","seq":3,"channel":1}'
    assert [one.receive(acknowledged) for one in (left, right)] == [(Ack(3),), ()]


def test_they_begin_together() -> None:
    left, right = both()
    assert left.started(started("a")) == ()
    replies = told(right.started(started("b")))
    assert [(reply["channel"], reply["session"], reply["channels"]) for reply in replies] == [(1, "a", 2), (2, "b", 2)]


def test_what_one_channel_has_and_the_other_lacks_comes_again_for_that_one_alone() -> None:
    left, right = both(session="a,b", last_seq="4,-1", rate="32000")
    assert told(left.started(started("a", 16_003))) == []
    replies = told(right.started(started("b", 16_000)))
    assert [reply["received"] for reply in replies] == [32_000, 32_000]
    audio = bytes(4 * 6) + bytes(4 * 32_000)
    taken = [len(heard(one.receive(audio))) + len(heard(one.receive('{"type":"finish"}'))) for one in (left, right)]
    assert taken == [16_000, 16_003]
    assert told(left.accepted(32_003))[0] == {"type": "received", "received": 64_006, "channel": 1}


@each_row(
    ("message", "expected"),
    [
        ('{"type":"ack","seq":3}', '"channel" in ack'),
        ('{"type":"resume","session":"a"}', '"channel" in resume'),
        ('{"type":"flush","channel":3}', "from 1 to 2; got 3"),
        ('{"type":"flush","channel":true}', "from 1 to 2; got True"),
        ('{"type":"start","channels":3}', "expected 2 channels, as in the address"),
        ('{"type":"start","speakers":2}', "got both"),
    ],
)
def test_messages_that_cannot_be_used(message: str, expected: str) -> None:
    for protocol in both():
        with pytest.raises(ProtocolError, match=expected):
            protocol.receive(message)


def test_channels_are_kept_apart_by_the_address_alone() -> None:
    protocol = NativeProtocol(opening())
    with pytest.raises(ProtocolError, match='"multichannel" in the address'):
        protocol.receive('{"type":"start","channels":2,"multichannel":true}')
    assert len(NativeProtocol.conversations(opening(channels="2"))) == 1


# --- over sockets ----------------------------------------------------------------------------------------------------


async def test_each_channel_has_a_session_and_its_events_its_number() -> None:
    async with served() as (server, hub), client(server, APART) as one:
        await one.send(*[SECOND] * round(SECONDS))
        async with asyncio.timeout(30):
            while len(hub.sessions) < 2:
                await asyncio.sleep(0.01)
        await one.send({"type": "flush"}, {"type": "finish"})
        assert await one.rest() == 1000
    assert len(one.said("hello")) == 1
    assert [message["channel"] for message in one.said("flushed")] in ([1, 2], [2, 1])
    for channel in (1, 2):
        events = of(one.events, channel)
        assert complete(events)
        assert text_of(events) == TEXT
        words = [
            word for message in one.said("confirmed") if message["channel"] == channel for word in message["words"]
        ]
        assert {word["speaker"] for word in words} == {channel}


async def test_what_is_wrong_with_a_message_is_told_once() -> None:
    async with served() as (server, _), client(server, APART) as one:
        await one.send({"type": "sing"}, {"type": "sing"}, {"type": "start", "channel": 2}, {"type": "flush"})
        await one.send(SECOND, {"type": "finish"})
        assert await one.rest() == 1000
    sing, again, flush = one.said("problem")
    assert "got 'sing'" in sing["message"]
    assert again["message"] == sing["message"], "another message is wrong anew"
    assert flush["message"] == "expected flush in a session that is open; this one is idle"
    assert flush["channel"] == 1
    assert [flushed["channel"] for flushed in one.said("flushed")] == [2], "for it nothing is wrong"


async def test_settings_that_no_channel_can_have_are_told_once() -> None:
    async with served() as (server, _), client(server, APART) as one:
        await one.send({"type": "start", "model": "nobody's"})
        assert await one.rest() == 1008
        assert len(one.said("problem")) == 1


async def test_one_channel_may_end_before_the_other() -> None:
    async with served() as (server, _), client(server, APART) as one:
        await one.send(SECOND, {"type": "finish", "channel": 1})
        assert (await one.until("end"))["channel"] == 1
        await one.send({"type": "flush", "channel": 2})
        assert (await one.until("flushed"))["channel"] == 2
        await one.send({"type": "abandon"})
        assert await one.rest() == 1000


async def talk_on(one: Client, position: int, count: int) -> int:
    """Send so many messages from a position on; returns the next one."""
    for _ in range(count):
        samples = min(9_600, TOTAL - position)
        await one.send(bytes(4 * samples))
        position += samples
    return position


def back(messages: list[dict[str, Any]]) -> str:
    """The address to come back to: both sessions, and the last event of each."""
    ids = {message["channel"]: message["session"] for message in messages if message["type"] == "session"}
    seen = {number: [event.seq for event in of(events_of(messages), number)] for number in ids}
    last = ",".join(str(max(seen[number], default=-1)) for number in sorted(ids))
    return f"{APART}&session={','.join(ids[number] for number in sorted(ids))}&last_seq={last}"


@pytest.mark.parametrize("cuts", [(3, 1, 7), (6,)])
async def test_a_client_that_comes_back_has_all_of_every_channel(cuts: tuple[int, ...]) -> None:
    async with served(limited(), KnowingModel(round_s=0.005)) as (server, _):
        said: list[dict[str, Any]] = []
        for sends in (*cuts, 100):
            async with client(server, back(said) if said else APART) as one:
                if not said:
                    await one.send({"type": "start"})
                positions = [(await one.until("session"))["received"] for _ in range(2)]
                assert positions[0] == positions[1]
                await talk_on(one, positions[0], sends)
                if sends == 100:
                    await one.send({"type": "finish"})
                    assert await one.rest() == 1000
                else:
                    await one.until("confirmed", "hypothesis", "received")
                    one.socket.transport.abort()
                    await one.rest()
                said += one.messages
        for channel in (1, 2):
            events = of(events_of(said), channel)
            assert complete(events)
            assert text_of(events) == TEXT
            assert isinstance(events[-1], End)
            assert events[-1].duration == TOTAL


@pytest.mark.slow
async def test_a_restart_keeps_every_channel(tmp_path: Path) -> None:
    options = replace(limited(), journal=str(tmp_path))
    async with served(options) as (server, _), client(server, APART) as one:
        await talk_on(one, 0, 8)
        await one.until("confirmed")
    async with served(options) as (server, _), client(server, back(one.messages)) as again:
        first, second = [(await again.until("session"))["received"] for _ in range(2)]
        assert first == second > 0
        await talk_on(again, first, 100)
        await again.send({"type": "finish"})
        assert await again.rest() == 1000
    for channel in (1, 2):
        assert complete(of(one.events + again.events, channel))
        assert text_of(of(one.events + again.events, channel)) == TEXT


async def test_each_channel_counts_as_a_session() -> None:
    async with served(limited(sessions=1)) as (server, hub), client(server, APART) as one:
        await one.send({"type": "start"})
        assert await one.rest() == 1013
        assert one.said("problem")[0]["kind"] == "overloaded"
        assert one.said("problem")[0]["channel"] in (1, 2)
        assert not [live for live in hub.sessions.values() if live.wake is not None]


async def test_a_key_that_is_not_its_own_resumes_no_channel() -> None:
    keys = ("mine-mine", "other-other")
    async with served(keyed(*keys)) as (server, _):
        async with client(server, f"{APART}&api_key={keys[0]}") as one:
            await one.send({"type": "start"})
            for _ in range(2):
                await one.until("session")
        async with client(server, f"{back(one.messages)}&api_key={keys[1]}") as thief:
            assert await thief.rest() == 4004


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("?multichannel=true", "channels from 2 to 8"),
        ("?multichannel=true&channels=1", "channels from 2 to 8 in the address, to keep them apart; got 1"),
        ("?multichannel=true&channels=9", "channels from 2 to 8"),
        ("?multichannel=perhaps&channels=2", "multichannel"),
        (f"{APART}&session=a", "session of 2 channels between commas; got 1"),
        (f"{APART}&session=a,b&last_seq=1,2,3", "last_seq of 2 channels between commas; got 3"),
        (f"{APART}&speakers=2", "got both"),
    ],
)
async def test_addresses_that_cannot_be(query: str, told: str) -> None:
    async with served() as (server, _):
        with pytest.raises(InvalidStatus) as refused:
            async with client(server, query):
                pass
        assert refused.value.response.status_code == 400
        assert told in refused.value.response.body.decode()


@pytest.mark.parametrize("begins", [False, True])
def test_nothing_of_them_stays_without_the_collector_of_cycles(begins: bool) -> None:
    gc.disable()
    try:
        protocols = both()
        for number in range(2) if begins else ():
            protocols[number].started(started("a"))
        known = [weakref.ref(protocol) for protocol in protocols]
        del protocols
        assert [one() for one in known] == [None, None]
    finally:
        gc.enable()
