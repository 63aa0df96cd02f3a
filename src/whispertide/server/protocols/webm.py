"""Opus packets out of WebM (RFC 8794, RFC 9559), as browsers record it, cut anywhere.

A recording that is still made has no sizes for its segment and its clusters. So elements are taken as they come: those
that hold others are entered, tracks and blocks are read, the rest is skipped. Damage is an error, not a gap.
"""

from collections.abc import Iterator

from whispertide.errors import AudioError

MAX_ELEMENT = 1 << 16  # bytes of a block that is read: an Opus packet has at most 61,200
_MAX_TRACK = 1 << 12  # bytes of what a track says of itself
MAX_SKIPPED = 1 << 24  # a larger element is damage: nobody records one
_MOST_ELEMENTS = 200  # in 1,000 bytes, those of tracks too: an empty one has two bytes, and each takes its time

# Identifiers with their markers, as RFC 9559 lists them
_EBML = 0x1A45DFA3  # what a recording begins with
_CONTAINERS = frozenset({0x18538067, 0x1F43B675, 0x1654AE6B, 0xA0})  # Segment, Cluster, Tracks, BlockGroup
_TRACK_ENTRY, _TRACK_NUMBER, _CODEC = 0xAE, 0xD7, 0x86
_BLOCKS = frozenset({0xA1, 0xA3})  # Block, SimpleBlock
_BLOCK_HEAD = 8 + 3  # the longest number of a track, a time of two bytes, flags
_LACING = 0x06


class WebmPackets:
    """The packets of a stream's first Opus track; other tracks, such as a picture, are skipped."""

    def __init__(self) -> None:
        self._waiting = b""
        self._to_skip = 0
        self._left = 0  # elements that these bytes may still have
        self._track: int | None = None

    def packets(self, data: bytes) -> Iterator[bytes]:
        """Return the packets that these bytes complete. Raises `AudioError` for bytes that are no WebM with Opus."""
        data = self._waiting + data
        at, self._left = 0, _MOST_ELEMENTS * max(1, len(data) // 1000)
        while True:
            at, self._to_skip = min(at + self._to_skip, len(data)), max(0, at + self._to_skip - len(data))
            head = _head(data, at)
            if head is None:
                break
            self._count()
            kind, size, body = head
            if kind == _EBML:
                self._track = None
            if kind in _CONTAINERS:
                at = body
                continue
            if size is None or size > MAX_SKIPPED:
                raise AudioError(f"expected WebM; got an element {kind:#x} of {size or 'unknown'} bytes")
            if kind in _BLOCKS:
                if len(data) < body + min(size, _BLOCK_HEAD):
                    break
                if self._is_other(data[body : body + min(size, _BLOCK_HEAD)]):
                    at, self._to_skip = body, size
                    continue
            elif kind != _TRACK_ENTRY:
                at, self._to_skip = body, size
                continue
            most = _MAX_TRACK if kind == _TRACK_ENTRY else MAX_ELEMENT
            if size > most:
                raise AudioError(f"expected elements {kind:#x} of at most {most} bytes; got one of {size}")
            if len(data) < body + size:
                break
            at = body + size
            if kind == _TRACK_ENTRY:
                self._enter(data[body:at])
            else:
                yield _packet(data[body:at])
        self._waiting = data[at:]

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise AudioError(f"expected at most {_MOST_ELEMENTS} elements of WebM in 1000 bytes; got more")

    def _enter(self, entry: bytes) -> None:
        """Enter a track: the first one with Opus is used."""
        number, codec, at = 0, b"", 0
        while (head := _head(entry, at)) is not None:
            self._count()
            kind, size, body = head
            at = body + (size or 0)
            if kind == _TRACK_NUMBER:
                number = int.from_bytes(entry[body:at])
            elif kind == _CODEC:
                codec = entry[body:at].rstrip(b"\0")
        if codec == b"A_OPUS" and self._track is None:
            self._track = number

    def _is_other(self, block: bytes) -> bool:
        if self._track is None:
            raise AudioError("expected WebM with Opus; got a block before any track with it")
        number = _number(block, 0, 8)
        return number is None or number[0] & ~(1 << 7 * number[1]) != self._track


def _packet(block: bytes) -> bytes:
    number = _number(block, 0, 8)
    at = 3 + (number[1] if number is not None else 0)
    if len(block) < at or block[at - 1] & _LACING:
        raise AudioError("expected one packet in each block of WebM; got another number")
    return block[at:]


def _head(data: bytes, at: int) -> tuple[int, int | None, int] | None:
    """Read an element's identifier, its size (None: unknown) and the start of its body; None if it is incomplete."""
    kind = _number(data, at, 4)
    size = _number(data, at + kind[1], 8) if kind is not None else None
    if kind is None or size is None:
        return None
    marker = 1 << 7 * size[1]
    known = None if size[0] == 2 * marker - 1 else size[0] - marker
    return kind[0], known, at + kind[1] + size[1]


def _number(data: bytes, at: int, longest: int) -> tuple[int, int] | None:
    """Read a number of EBML with its marker, and its length in bytes; None if it is incomplete."""
    if at >= len(data):
        return None
    # The zeros before the first one tell how many bytes follow.
    length = 9 - data[at].bit_length()
    if length > longest:
        raise AudioError(f"expected WebM; got a byte {data[at]:#04x} where an element begins")
    if at + length > len(data):
        return None
    return int.from_bytes(data[at : at + length]), length
