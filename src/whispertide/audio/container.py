"""The size that an audio file's header promises, so that a truncated file can be told from a short one.

ffmpeg silently takes the end of the file for the end of the audio in the two formats where this matters most; only
those are read here: WAV (RIFF, RF64) and MP3 with a Xing or Info header. Pure functions over the first bytes.
"""

import struct

# A program that writes to a pipe cannot know the size, and puts 0, -1 or a little below 2 GiB (sox) there.
_PLACEHOLDERS_FROM = 0x7FFF_0000


def promised_size(head: bytes) -> int | None:
    """The least size of the file in bytes, by its first bytes; None if they do not say."""
    if head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return _wav_size(head)
    return _mp3_size(head)


def _wav_size(head: bytes) -> int | None:
    """The end of the data chunk (Microsoft RIFF; EBU Tech 3306 for sizes beyond 4 GiB)."""
    at, long_size = 12, 0
    while at + 8 <= len(head):
        name, size = head[at : at + 4], int.from_bytes(head[at + 4 : at + 8], "little")
        if name == b"data":
            size = long_size or (size if size < _PLACEHOLDERS_FROM else 0)
            return at + 8 + size if size else None
        if name == b"ds64" and at + 24 <= len(head):
            long_size = int.from_bytes(head[at + 16 : at + 24], "little")
        # Chunks begin at even places.
        at += 8 + size + size % 2
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
