"""Messages and settings that cannot be, over real sockets: the server answers properly, never dies, and nobody else
loses a word.

docs/internals/server.md says which of these tests covers what. Bad audio is in `test_bad_audio`, what is no message at
all in `test_bad_frames`; floods and clients that dawdle are in `test_floods`.
"""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus

from few_examples import quick
from served import SILENCE, client, limited
from slow_rows import slow_but
from standing_server import (
    PORTS,
    SOCKETS,
    Standing,
    answers,
    every_socket,
    frame,
    raw_socket,
    tcp_answer,
    until_closed,
)
from whispertide.server.app import PROTOCOLS
from whispertide.server.options import ServerOptions
from whispertide.server.protocols.wyoming import Frame, encode
from wire_messages import messages, vendor_messages

MESSAGE = 100_000


@pytest.fixture(scope="module")
def limits() -> ServerOptions:
    return limited(idle_s=10, stall_s=10, message=MESSAGE)


# --- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@quick(40)
@given(path=st.sampled_from(SOCKETS), sent=st.lists(messages | vendor_messages(), max_size=10))
def test_any_messages_to_any_protocol(town: Standing, path: str, sent: list[str | bytes]) -> None:
    async def talk() -> None:
        async with town.bystander():
            heard, code = await answers(town, path, *sent)
        assert "Traceback" not in str(heard)
        assert code != 1011, "a client's message is not the server's mistake"
        assert code == 0 or 1000 <= code < 5000

    asyncio.run(talk())
    assert not town.errors, town.errors[0]


@pytest.mark.slow
@quick(20)
@given(port=st.sampled_from(PORTS), sent=st.lists(vendor_messages().filter(lambda m: isinstance(m, bytes)), max_size=8))
def test_any_bytes_to_any_port(town: Standing, port: str, sent: list[bytes]) -> None:
    async def talk() -> None:
        async with town.bystander():
            assert b"Traceback" not in await tcp_answer(town, port, *sent)

    asyncio.run(talk())
    assert not town.errors, town.errors[0]


BROKEN = [
    "{",
    "[]",
    "null",
    "NaN",
    '"text"',
    "[" * 90_000,
    '{"type":"\\ud800"}',
    '{"a":1e999}',
    '{"a":' + "9" * 5_000 + "}",
]


@pytest.mark.parametrize("path", slow_but(SOCKETS, "/ws"))
async def test_malformed_json_is_told(town: Standing, path: str) -> None:
    """By a message in the protocol's own words, or its close code."""
    async with town.bystander():
        for text in BROKEN:
            heard, code = await answers(town, path, text, until="expected")
            told = " ".join(str(message) for message in heard)
            assert code in (0, 1007, 1008, 3006), text[:12]
            assert "expected" in told, text[:12]
            assert len(told) < 5_000, f"no more of {text[:12]} is quoted than helps"


@every_socket
@pytest.mark.parametrize("text", ["x", "UklGRg==", "\u0000\u0001", "ÿ" * 1000])
def test_text_where_audio_belongs(town: Standing, path: str, text: str) -> None:
    async def talk() -> tuple[list[Any], int]:
        return await answers(town, path, bytes(640), text, until="expected")

    heard, code = asyncio.run(talk())
    assert "expected" in " ".join(str(message) for message in heard)
    assert code in (0, 1007, 1008, 3006)


@every_socket
def test_bytes_where_text_belongs_are_audio_or_refused(town: Standing, path: str) -> None:
    async def talk() -> tuple[list[Any], int]:
        return await answers(town, path, b'{"type":"Finalize"}', b"\xff" * 999)

    heard, code = asyncio.run(talk())
    assert code in (0, 1007, 1008, 3006)
    assert code == 0 or "expected" in str(heard)


# --- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", slow_but(SOCKETS, "/ws"))
@pytest.mark.parametrize("kind", ["binary", "text", "fragments"])
def test_messages_that_are_too_large(town: Standing, path: str, kind: str) -> None:
    most = MESSAGE * PROTOCOLS[path.partition("?")[0]].times

    async def talk() -> bytes:
        async with town.bystander():
            reader, writer = await raw_socket(town.port, path)
            with suppress(ConnectionError):
                if kind == "fragments":
                    writer.write(frame(2, bytes(50_000), fin=False))
                    writer.write(frame(0, bytes(50_000), fin=False) * (most // 50_000 + 1))
                else:
                    writer.write(frame(1 if kind == "text" else 2, b" " * (most + 1)))
                await writer.drain()
            said = await until_closed(reader)
            writer.transport.abort()
            return said

    assert (1009).to_bytes(2, "big") in asyncio.run(talk())


@pytest.mark.parametrize(
    "data",
    [
        b"{" * 70_000,
        b'{"type":"ping","data_length":1000000000000}\n',
        b'{"type":"ping","payload_length":-1}\n',
        b'{"type":"audio-chunk","payload_length":1e99}\n',
        b'{"type":"audio-chunk","payload_length":"9"}\n',
        b'{"type":7}\n',
        b"[]\n",
        b'{"type":"ping","data":{"text":"\\ud800"}}\n',
        b'{"type":"ping","data_length":3}\n[1]',
    ],
)
def test_wyoming_frames_that_are_none(town: Standing, data: bytes) -> None:
    async def talk() -> bytes:
        async with town.bystander():
            return await tcp_answer(town, "wyoming", data, end=False)

    answer = asyncio.run(talk())
    assert b"bad_request" in answer
    assert b"expected" in answer


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *(f"/ws?rate={rate}" for rate in ("0", "-1", "7999", "192001", "1e9", "16000.5", "nan", "9" * 5000, "²")),
        *(f"/ws?channels={count}" for count in ("0", "9", "1000000", "x")),
        *(f"/ws?session=x&last_seq={seq}" for seq in ("²", "9" * 5000, "-2", "1e3", "")),
        "/ws?format=mp3",
        *(f"/v1/listen?encoding=linear16&sample_rate={rate}" for rate in ("0", "-8000", "3999", "1e12", "nan", "inf")),
        "/v1/listen?encoding=linear16&sample_rate=16000&channels=1000000",
        "/v1/listen?encoding=zip",
        *(f"/v3/ws?sample_rate={rate}" for rate in ("0", "-16000", "1e12", "nan", "", "9" * 5000)),
        "/v3/ws?sample_rate=16000&encoding=zip",
        "/v3/ws?sample_rate=16000&min_turn_silence=1e999",
    ],
    ids=lambda path: path[:60],
)
def test_absurd_rates_and_settings_are_refused(town: Standing, path: str) -> None:
    async def talk() -> InvalidStatus:
        with pytest.raises(InvalidStatus) as refused:
            await answers(town, path)
        return refused.value

    response = asyncio.run(talk()).response
    assert response.status_code == 400
    assert "expected" in json.loads(response.body)["error"]["message"]


@pytest.mark.parametrize("rate", [0, 1, -24_000, 10**12, 1.5, "fast", None, [], {}])
def test_absurd_rates_in_messages(town: Standing, rate: object) -> None:
    update = {"session": {"type": "transcription", "audio": {"input": {"format": {"type": "audio/pcm", "rate": rate}}}}}
    start = {"rate": rate, "width": 2, "channels": 1}

    async def talk() -> tuple[str, str, bytes]:
        native, _ = await answers(town, "/ws", json.dumps({"type": "start", "rate": rate}), until="expected")
        realtime, _ = await answers(
            town,
            SOCKETS[1],
            json.dumps({"type": "session.update", **update}),
            until="session.updated" if rate is None else "expected",
        )
        wyoming = await tcp_answer(town, "wyoming", encode(Frame("audio-start", start)))
        return str(native), str(realtime), wyoming

    native, realtime, wyoming = asyncio.run(talk())
    assert "expected a rate" in native
    assert rate is None or "expected" in realtime
    assert b"expected" in wyoming


async def test_no_client_can_ask_for_what_the_others_pay_for(town: Standing) -> None:
    """Minutes of building graphs, memory without end: refused at once, or told while the session goes on."""
    bad: list[dict[str, Any]] = [
        {"framing": "masked"},
        {"beam": 10**9},
        {"beam": 10**250},
        {"beam": True},
        {"step_s": 1e-9},
        {"trim_s": 1e300},
        {"hard_cap_s": "long"},
        {"max_tokens": 10**9},
    ]
    later: list[dict[str, Any]] = [
        {"best_of": 10**9},
        {"best_of": None},
        {"patience": 1e9},
        {"temperatures": [0.5] * 1000},
        {"temperatures": "hot"},
        {"length_penalty": "x"},
        {"logprob_threshold": "x"},
        {"compression_ratio_threshold": "x"},
        {"no_speech_threshold": "x"},
        {"best_of": 2.5},
        {"suppress_tokens": [10**9]},
        {"prompt": "x" * 50_000},
        {"prompt": 7},
        {"language": "klingon"},
        {"language": "de"},
    ]
    for changes in bad:
        heard, code = await answers(town, "/ws", json.dumps({"type": "start", "changes": changes}), until="never")
        assert code == 1008, changes
        assert "bad_setting" in str(heard)
    heard, code = await answers(town, "/ws", json.dumps({"type": "start", "prompt": "x" * 50_000}), until="never")
    assert code == 1008
    async with client(town.server) as one:
        await one.send(SILENCE)
        for changes in (*bad, *later):
            await one.send({"type": "configure", "changes": changes})
        await one.send({"type": "flush"})
        await one.until("flushed")
        errors = one.said("error")
        assert len(errors) == len(bad) + len(later)
        assert not any(error["fatal"] for error in errors)
