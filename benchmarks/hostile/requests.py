"""What hostile clients ask over HTTP: too often, too much, without the right, or without reading the answer."""

import re
import secrets
from contextlib import ExitStack
from pathlib import Path

from hostile.assault import FLAC, HOURS, Assault
from hostile.wire import Wire, connection, request, websocket

SLOW = 40  # files of one client on their way
_STATUS = re.compile(rb"HTTP/1.1 (\d{3}) ")  # the rest of the last answer may come before it
_BOUNDARY = "a-line-between"
ANSWERED_S = 120.0  # the longest that an answer takes: a file is read first


def uploads(assault: Assault, _: int) -> None:
    """Hours of silence as a file of few bytes, whose container does not say how long it is."""
    _upload(assault, assault.material / HOURS)


def stated_uploads(assault: Assault, _: int) -> None:
    """The same as FLAC, which says at once how long it is."""
    _upload(assault, assault.material / FLAC)


def _upload(assault: Assault, file: Path) -> None:
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{file.name}"\r\n\r\n'
    body = head.encode() + file.read_bytes() + f"\r\n--{_BOUNDARY}--\r\n".encode()
    asked = request(
        "POST",
        "/v1/audio/transcriptions",
        assault.key,
        f"Content-Type: multipart/form-data; boundary={_BOUNDARY}",
        body=body,
    )
    with connection(assault) as wire:
        _ask(wire, asked, stays=True)


def _ask(wire: Wire, asked: bytes, *, stays: bool = False) -> None:
    wire.write(asked)
    answer = _STATUS.search(wire.until(b"\r\n\r\n", ANSWERED_S, stays=stays))
    if answer:
        wire.assault.met[f"HTTP {answer[1].decode()}"] += 1


def wrong_keys(assault: Assault, number: int) -> None:
    """Another wrong key with every connection; every other one wants a WebSocket."""
    guess = secrets.token_urlsafe(16)
    if number % 2:
        with websocket(assault, key=guess):
            return
    with connection(assault) as wire:
        _ask(wire, request("GET", "/v1/models", guess))


def guesses(assault: Assault, _: int) -> None:
    """Guesses sessions of others to resume."""
    with websocket(assault, f"/ws?session={secrets.token_urlsafe(16)}&last_seq=0") as wire:
        wire.until(b"unknown_session")


def ahead(assault: Assault, _: int) -> None:
    """Requests sent ahead, thousands of them, of which no answer is read."""
    asked = request("GET", "/openapi.json", assault.key) * 1000
    with connection(assault, buffer=4096) as wire:
        wire.reads = False
        for _turn in assault.turns():
            wire.write(asked)


def requests(assault: Assault, _: int) -> None:
    """What may be asked, as fast as it is answered."""
    paths = ("/metrics", "/v1/models", "/openapi.json", "/")
    with connection(assault) as wire:
        for turn in assault.turns():
            wire.write(request("GET", paths[turn % len(paths)], assault.key))
            wire.until(b"HTTP/1.1 ")


def temporary_keys(assault: Assault, _: int) -> None:
    """Makes temporary keys, as fast as it is given them."""
    settings = (
        b'{"session":{"type":"transcription","audio":{"input":{"transcription":{"prompt":"' + b"x" * 9_000 + b'"}}}}}'
    )
    asked = request("POST", "/v1/realtime/client_secrets", assault.key, "Content-Type: application/json", body=settings)
    with connection(assault) as wire:
        for _turn in assault.turns():
            _ask(wire, asked)


def slow_bodies(assault: Assault, _: int) -> None:
    """Files that come a byte at a time: each has a place among those that are on their way."""
    head = request("POST", "/v1/audio/transcriptions", assault.key, "Content-Type: multipart/form-data; boundary=x")
    with ExitStack() as stack:
        wires = [stack.enter_context(connection(assault)) for _ in range(SLOW)]
        for wire in wires:
            wire.write(head.replace(b"\r\n\r\n", b"\r\nContent-Length: 100000000\r\n\r\n"))
        for turn in assault.turns():
            wires[turn % SLOW].write(b"-")
            wires[turn % SLOW].read()
            assault.rest(0.5 / SLOW)
