"""What an audio file's header says and ffmpeg does not heed: the size that it promises, so that a truncated file can be
told from a short one, and the width of samples of which not all bits are valid.

ffmpeg silently takes the end of the file for the end of the audio in the two formats where this matters most; only
those are read here: WAV (RIFF, RF64, BW64) and MP3 with a Xing or Info header. Pure functions over the first bytes.
"""

import struct
from collections.abc import Iterator

# A program that writes to a pipe cannot know the size, and puts 0, -1 or a little below 2 GiB (sox) there.
_PLACEHOLDERS_FROM = 0x7FFF_0000
# Of the format of a WAV (Microsoft, WAVEFORMATEXTENSIBLE): the places of its numbers, and what they are.
_TAG, _CHANNELS, _ALIGN, _VALID, _SUBFORMAT = slice(0, 2), slice(2, 4), slice(12, 14), slice(18, 20), slice(24, 26)
_EXTENSIBLE, _INTEGER, _FLOAT, _WIDEST = 0xFFFE, 1, 3, 64


def promised_size(head: bytes) -> int | None:
    """The least size of the file in bytes, by its first bytes; None if they do not say."""
    return _wav_size(head) if _is_wav(head) else _mp3_size(head)


def with_full_width(head: bytes) -> bytes:
    """The first bytes of a file, in which all bits of a WAV's samples count.

    An extensible header says how many are valid; the lower ones are zero then. ffmpeg takes that number for the width
    of a sample: it reads 24 bits in 32 as floats, and 16 in 32 as twice as many samples.
    """
    if not _is_wav(head):
        return head
    for name, at, size in _chunks(head):
        if name == b"fmt " and size >= _SUBFORMAT.stop and len(head) >= at + _SUBFORMAT.stop:
            tag, channels, align, valid, subformat = (
                int.from_bytes(head[at:][place], "little") for place in (_TAG, _CHANNELS, _ALIGN, _VALID, _SUBFORMAT)
            )
            width = 8 * align // max(1, channels)
            if tag == _EXTENSIBLE and subformat in (_INTEGER, _FLOAT) and valid < width <= _WIDEST:
                return head[: at + _VALID.start] + width.to_bytes(2, "little") + head[at + _VALID.stop :]
    return head


def _is_wav(head: bytes) -> bool:
    return head[:4] in (b"RIFF", b"RF64", b"BW64") and head[8:12] == b"WAVE"


def _chunks(head: bytes) -> Iterator[tuple[bytes, int, int]]:
    """The chunks of a WAV: the name of each, where its content begins, and its size."""
    at = 12
    while at + 8 <= len(head):
        size = int.from_bytes(head[at + 4 : at + 8], "little")
        yield head[at : at + 4], at + 8, size
        # Chunks begin at even places.
        at += 8 + size + size % 2


def _wav_size(head: bytes) -> int | None:
    """The end of the data chunk (Microsoft RIFF; EBU Tech 3306 for sizes beyond 4 GiB)."""
    long_size = 0
    for name, at, size in _chunks(head):
        if name == b"data":
            size = long_size or (size if size < _PLACEHOLDERS_FROM else 0)
            return at + size if size else None
        if name == b"ds64" and at + 16 <= len(head):
            long_size = int.from_bytes(head[at + 8 : at + 16], "little")
    return None


def _mp3_size(head: bytes) -> int | None:
    """The end of the audio by the Xing header, which sits in the first frame after an ID3v2 tag and its own zeros."""
    at = 0
    if head[:3] == b"ID3" and len(head) >= 10:
        a, b, c, d = head[6:10]  # seven bits each
        at = 10 + (a << 21 | b << 14 | c << 7 | d)
    frame = head[at : at + 64]
    if len(frame) < 4 or frame[0] != 0xFF or frame[1] & 0xE0 != 0xE0:
        return None
    # A name that is not there is at -1, and there is one of them at most.
    tag = max(frame.find(b"Xing"), frame.find(b"Info"))
    if tag < 0 or tag + 16 > len(frame):
        return None
    flags, _, size = struct.unpack_from(">3I", frame, tag + 4)
    # Flags 1 and 2: the header tells the frames, and after them the bytes.
    return at + size if flags & 3 == 3 and size else None
