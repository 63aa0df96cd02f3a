"""The frames of the Wyoming protocol (rhasspy/wyoming, README and event.py): one event each, in any portions.

A frame is a JSON line with `type` and perhaps `data`, `data_length` and `payload_length`; then that many bytes of JSON,
merged into `data`, and that many bytes of payload. Knows no event by name, and does no I/O.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from whispertide.errors import OptionError
from whispertide.server.protocols.messages import parsed

MAX_LINE = 64 * 1024  # what asyncio's streams, hence the reference implementation, take for a line
MAX_DATA = 1 << 20
MAX_PAYLOAD = 4 << 20  # clients send some kilobytes; all of a payload is decoded at once
VERSION = "1.10.2"  # of the protocol's reference implementation, whose events are spoken here


@dataclass(frozen=True, slots=True)
class Frame:
    """One event: its type, its data and what follows it in bytes (audio)."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""


def encode(frame: Frame) -> bytes:
    """The bytes of a frame, as the reference implementation writes them."""
    header: dict[str, Any] = {"type": frame.type, "version": VERSION}
    data = json.dumps(frame.data, ensure_ascii=False).encode() if frame.data else b""
    if data:
        header["data_length"] = len(data)
    if frame.payload:
        header["payload_length"] = len(frame.payload)
    return json.dumps(header).encode() + b"\n" + data + frame.payload


@dataclass(frozen=True, slots=True)
class _Header:
    """The line that a frame begins with, and where it, the data and the payload end."""

    type: str
    data: dict[str, Any]
    line: int
    start: int
    stop: int


@dataclass(slots=True)
class FrameReader:
    """Bytes -> frames. After an `OptionError` the stream is out of step and has to be closed."""

    _waiting: bytearray = field(default_factory=bytearray)
    _header: _Header | None = None  # of the frame that is not whole

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The next bytes; yields the frames that are complete.

        Raises `OptionError` for what cannot be a frame, and for lengths that no client needs.
        """
        self._waiting += data
        while (frame := self._next()) is not None:
            yield frame

    @property
    def is_amid(self) -> bool:
        """Whether a frame has begun and is not whole."""
        return bool(self._waiting)

    def _next(self) -> Frame | None:
        self._header = header = self._header or self._read_header()
        if header is None or len(self._waiting) < header.stop:
            return None
        data = header.data
        if header.start > header.line:
            rest = bytes(self._waiting[header.line : header.start])
            data = {**data, **_mapping(rest, "a JSON object as data")}
        frame = Frame(header.type, data, bytes(self._waiting[header.start : header.stop]))
        del self._waiting[: header.stop]
        self._header = None
        return frame

    def _read_header(self) -> _Header | None:
        end = self._waiting.find(b"\n", 0, MAX_LINE)
        if end < 0:
            if len(self._waiting) >= MAX_LINE:
                raise OptionError(f"expected a JSON line of at most {MAX_LINE} bytes; got no line end")
            return None
        values = _mapping(bytes(self._waiting[:end]), "a JSON object")
        data_length = _length(values, "data_length", MAX_DATA)
        payload_length = _length(values, "payload_length", MAX_PAYLOAD)
        kind, data = values.get("type"), values.get("data") or {}
        if not isinstance(kind, str) or not isinstance(data, dict):
            raise OptionError(f"expected an event with a type and an object as data; got {_short(values)}")
        start = end + 1 + data_length
        return _Header(kind, data, end + 1, start, start + payload_length)


def _mapping(raw: bytes, what: str) -> dict[str, Any]:
    try:
        value = parsed(raw)
    except ValueError:
        value = raw
    if not isinstance(value, dict):
        raise OptionError(f"expected {what}; got {_short(value)}")
    return value


def _length(header: dict[str, Any], name: str, limit: int) -> int:
    value = header.get(name)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= limit:
        raise OptionError(f"expected {name} between 0 and {limit}; got {_short(value)}")
    return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
