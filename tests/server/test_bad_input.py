"""Whatever is sent to a server, over real sockets: it answers properly, never dies, and nobody else loses a word.

docs/server.md says which of these tests covers what. Floods and clients that dawdle are in `test_floods`.
"""

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from served import SECONDS, SILENCE, TEXT, client, keyed, limited, served
from standing_server import PORTS, SOCKETS, Standing, frame, raw_socket, standing, until_closed
from whispertide.server.protocols.wyoming_frames import Frame, encode
from wire_conversation import quick
from wire_messages import messages, vendor_messages

MESSAGE = 100_000
every_socket = pytest.mark.parametrize("path", SOCKETS)
every_port = pytest.mark.parametrize("port", PORTS)


@pytest.fixture(scope="module")
def town() -> Iterator[Standing]:
    with standing(limited(idle_s=3, stall_s=3, message=MESSAGE)) as town:
        yield town


def run(talk: Any) -> Any:
    return asyncio.run(talk)


async def answers(
    town: Standing, path: str, *sent: str | bytes, until: str = "", patience_s: float = 0.05
) -> tuple[list[Any], int]:
    """What a client of this path gets, until the server closes (with this code, else 0), or nothing comes for a
    moment after a message with `until` in it.
    """
    heard: list[Any] = []
    async with connect(f"ws://127.0.0.1:{town.port}{path}", proxy=None) as socket:
        try:
            for message in sent:
                await socket.send(message)
            while True:
                async with asyncio.timeout(patience_s if until in str(heard) else 5):
                    heard.append(await socket.recv())
        except TimeoutError:
            return heard, 0
        except ConnectionClosed:
            return heard, socket.close_code or 0


async def tcp_answer(town: Standing, port: str, *sent: bytes, end: bool = True) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", town.tcp[port])
    with suppress(ConnectionError):
        for data in sent:
            writer.write(data)
            await writer.drain()
        if end:
            writer.write_eof()
    answer = await until_closed(reader)
    writer.transport.abort()
    return answer


# --- messages --------------------------------------------------------------------------------------------------------


@quick(40)
@given(path=st.sampled_from(SOCKETS), sent=st.lists(messages | vendor_messages(), max_size=10))
def test_any_messages_to_any_protocol(town: Standing, path: str, sent: list[str | bytes]) -> None:
    async def talk() -> None:
        async with town.bystander():
            heard, code = await answers(town, path, *sent)
        assert "Traceback" not in str(heard)
        assert code != 1011, "a client's message is not the server's mistake"
        assert code == 0 or 1000 <= code < 5000

    run(talk())
    assert not town.errors, town.errors[0]


@quick(20)
@given(port=st.sampled_from(PORTS), sent=st.lists(vendor_messages().filter(lambda m: isinstance(m, bytes)), max_size=8))
def test_any_bytes_to_any_port(town: Standing, port: str, sent: list[bytes]) -> None:
    async def talk() -> None:
        async with town.bystander():
            assert b"Traceback" not in await tcp_answer(town, port, *sent)

    run(talk())
    assert not town.errors, town.errors[0]


AT_16_KHZ = {"type": "audio/pcm", "rate": 16_000}
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


@every_socket
@pytest.mark.parametrize("text", BROKEN, ids=lambda text: text[:12])
def test_malformed_json_is_told(town: Standing, path: str, text: str) -> None:
    """By a message in the protocol's own words, or its close code."""

    async def talk() -> tuple[list[Any], int]:
        async with town.bystander():
            return await answers(town, path, text, until="expected")

    heard, code = run(talk())
    told = " ".join(str(message) for message in heard)
    assert code in (0, 1007, 1008, 3006)
    assert "expected" in told
    assert len(told) < 5_000, "no more of it is quoted than helps"


@every_socket
@pytest.mark.parametrize("text", ["x", "UklGRg==", "\u0000\u0001", "ÿ" * 1000])
def test_text_where_audio_belongs(town: Standing, path: str, text: str) -> None:
    async def talk() -> tuple[list[Any], int]:
        return await answers(town, path, bytes(640), text, until="expected")

    heard, code = run(talk())
    assert "expected" in " ".join(str(message) for message in heard)
    assert code in (0, 1007, 1008, 3006)


@every_socket
def test_bytes_where_text_belongs_are_audio_or_refused(town: Standing, path: str) -> None:
    async def talk() -> tuple[list[Any], int]:
        return await answers(town, path, b'{"type":"Finalize"}', b"\xff" * 999)

    heard, code = run(talk())
    assert code in (0, 1007, 1008, 3006)
    assert code == 0 or "expected" in str(heard)


# --- size ------------------------------------------------------------------------------------------------------------


@every_socket
@pytest.mark.parametrize("kind", ["binary", "text", "fragments"])
def test_messages_that_are_too_large(town: Standing, path: str, kind: str) -> None:
    async def talk() -> bytes:
        async with town.bystander():
            reader, writer = await raw_socket(town.port, path)
            with suppress(ConnectionError):
                if kind == "fragments":
                    writer.write(frame(2, bytes(50_000), fin=False))
                    writer.write(frame(0, bytes(50_000), fin=False) * 3)
                else:
                    writer.write(frame(1 if kind == "text" else 2, b" " * (MESSAGE + 1)))
                await writer.drain()
            said = await until_closed(reader)
            writer.transport.abort()
            return said

    assert (1009).to_bytes(2, "big") in run(talk())


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

    answer = run(talk())
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

    response = run(talk()).response
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

    native, realtime, wyoming = run(talk())
    assert "expected a rate" in native
    assert rate is None or "expected" in realtime
    assert b"expected" in wyoming


def test_no_client_can_ask_for_what_the_others_pay_for(town: Standing) -> None:
    """Minutes of building graphs, memory without end: refused at once, or told while the session goes on."""
    bad: list[dict[str, Any]] = [
        {"policy": "align-att", "framing": "buckets", "search": "unrolled"},
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
        {"suppress_tokens": [10**9]},
        {"prompt": "x" * 50_000},
        {"prompt": 7},
        {"language": "klingon"},
        {"language": "de"},
    ]

    async def talk() -> None:
        for changes in bad:
            heard, code = await answers(town, "/ws", json.dumps({"type": "start", "changes": changes}))
            assert code == 1008, changes
            assert "bad_setting" in str(heard)
        heard, code = await answers(town, "/ws", json.dumps({"type": "start", "prompt": "x" * 50_000}))
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

    run(talk())


# --- audio -----------------------------------------------------------------------------------------------------------


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
        async with asyncio.timeout(10):
            with suppress(ConnectionClosed):
                while "input_audio_transcription.completed" not in str(await socket.recv()) or where != SOCKETS[1]:
                    pass


@pytest.mark.parametrize("where", [*SOCKETS, *PORTS])
def test_odd_byte_counts_cost_no_word(town: Standing, where: str) -> None:
    """Samples that are cut anywhere are put together again, on every protocol."""

    async def talk() -> None:
        town.watcher.sessions.clear()
        await speak(town, where, portion=8_191)
        async with asyncio.timeout(5):
            while town.words() != TEXT:
                await asyncio.sleep(0.02)

    run(talk())


def test_samples_that_are_no_numbers(town: Standing) -> None:
    async def talk() -> None:
        async with town.bystander(), client(town.server) as one:
            await one.send({"type": "start", "format": "f32le"})
            await one.send(bytes.fromhex("0000c07f0000807f000080ffffff7f7f") * 4_000 + b"\x01\x02\x03")
            await one.send({"type": "finish"})
            assert await one.rest() == 1000

    run(talk())


def test_a_small_message_that_holds_hours(town: Standing) -> None:
    """The zip bomb of live audio: Ogg Opus with hardly anything in its packets (files: `test_rest`)."""
    page = b"OggS" + bytes(22) + bytes([255]) + bytes([2]) * 255 + b"\xfb\x06" * 255

    async def talk() -> tuple[list[Any], int]:
        async with town.bystander():
            return await answers(town, "/v1/listen", page * 120, until="never")

    heard, code = run(talk())
    assert code == 1008
    assert "at most 120 s of audio in a message" in str(heard)


# --- frames and requests that are none -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        frame(1, b"\xff\xfe"),  # no UTF-8
        frame(3, b"x"),  # a reserved opcode
        frame(0, b"x"),  # a continuation of nothing
        frame(2, b"x" * 10, length=2**40),  # a length that is absurd
        b"\x82\x05hello",  # not masked
        frame(9, b"x" * 126),  # a ping that is too long
        frame(8, b"\x03"),  # a close of one byte
        frame(8, (999).to_bytes(2, "big")),  # a close code that is none
        bytes(range(256)) * 4,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
@every_socket
def test_frames_that_are_none(town: Standing, path: str, data: bytes) -> None:
    async def talk() -> None:
        reader, writer = await raw_socket(town.port, path)
        writer.write(data)
        said = await until_closed(reader)
        assert b"Traceback" not in said
        assert b"\x88" in said, "a close frame"
        writer.transport.abort()

    run(talk())


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 1000,
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/x\r\nHost: x\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=range(8),
)
def test_requests_that_are_none(town: Standing, data: bytes) -> None:
    async def talk() -> bytes:
        async with town.bystander():
            reader, writer = await asyncio.open_connection("127.0.0.1", town.port)
            with suppress(OSError):
                writer.write(data)
                writer.write_eof()
            answer = await until_closed(reader, 8)
            writer.transport.abort()
            return answer

    answer = run(talk())
    assert b"Traceback" not in answer
    assert not answer or answer.startswith(b"HTTP/1.1 4")


# --- who may not -----------------------------------------------------------------------------------------------------


@every_socket
@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Authorization": "Bearer wrong-key"}, 401), ({"Authorization": "right-key\x01"}, 400)],
)
def test_the_unauthorized_get_nowhere(path: str, headers: dict[str, str], status: int) -> None:
    async def talk() -> None:
        async with served(keyed("right-key")) as (server, hub):
            with pytest.raises(InvalidStatus) as refused:
                async with client(server, path=path, additional_headers=headers):
                    pass
            assert refused.value.response.status_code == status
            assert not hub.connections
            assert not hub.sessions

    run(talk())


@pytest.mark.parametrize(
    "path",
    [
        "/../../pyproject.toml",
        "/%2e%2e/%2e%2e/pyproject.toml",
        "/..%2f..%2fpyproject.toml",
        "/..%5c..%5cpyproject.toml",
        "//etc/passwd",
        "/%00",
        "/main.js/../../serving.py",
        "/%2fetc%2fpasswd",
        "/v1/models/../../../etc/passwd",
        "/" + "a" * 300,
    ],
)
def test_no_path_leads_out_of_the_page(town: Standing, path: str) -> None:
    async def talk() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", town.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = await until_closed(reader)
        writer.transport.abort()
        return answer

    answer = run(talk())
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400"))
    assert b"Traceback" not in answer
    assert b"import" not in answer


def test_afterwards_nothing_is_left(town: Standing) -> None:
    """The last test of all of this server's."""
    run(town.settled())
    assert not town.errors, town.errors[0]
