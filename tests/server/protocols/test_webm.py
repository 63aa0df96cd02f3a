"""Opus out of WebM: as FFmpeg writes it, with and without sizes, and element by element."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from opus_files import opus_file
from whispertide.errors import AudioError
from whispertide.server.protocols.encodings import AudioInput
from whispertide.server.protocols.webm import MAX_ELEMENT, MAX_SKIPPED, WebmPackets

EBML, SEGMENT, CLUSTER, TRACKS, INFO, VOID = "1a45dfa3", "18538067", "1f43b675", "1654ae6b", "1549a966", "ec"
TRACK, NUMBER, CODEC, SIMPLE_BLOCK, GROUP, BLOCK = "ae", "d7", "86", "a3", "a0", "a1"
UNKNOWN = b"\x01" + b"\xff" * 7


def element(kind: str, body: bytes = b"", size: bytes | None = None) -> bytes:
    return bytes.fromhex(kind) + (size or (len(body) | 1 << 56).to_bytes(8)) + body


def track(number: int, codec: bytes) -> bytes:
    return element(TRACK, element(CODEC, codec) + element(NUMBER, bytes([number])))


def block(packet: bytes, number: int = 1, flags: int = 0x80, kind: str = SIMPLE_BLOCK) -> bytes:
    return element(kind, bytes([0x80 | number, 0, 0, flags]) + packet)


HEAD = element(EBML, b"\0" * 9) + element(SEGMENT, size=UNKNOWN)
BEGUN = HEAD + element(TRACKS, track(1, b"A_OPUS")) + element(CLUSTER, size=UNKNOWN)


def packets(*portions: bytes) -> list[bytes]:
    webm = WebmPackets()
    return [packet for portion in portions for packet in webm.packets(portion)]


@quick(25)
@given(st.booleans(), st.data())
def test_a_file_and_a_recording_may_be_cut_anywhere(live: bool, data: st.DataObject) -> None:
    expected, file = opus_file("webm", **({"live": "1"} if live else {}))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(file)), max_size=8)))
    assert packets(*(file[a:b] for a, b in pairwise([0, *cuts, len(file)]))) == expected


def test_byte_by_byte() -> None:
    expected, file = opus_file("webm")
    assert packets(*(bytes([byte]) for byte in file)) == expected


def test_other_tracks_and_elements_are_skipped() -> None:
    """Also pictures larger than a packet may be, and in the middle of them."""
    tracks = element(TRACKS, track(1, b"V_VP8") + track(2, b"A_OPUS\0") + track(3, b"A_OPUS"))
    picture = block(bytes(3 * MAX_ELEMENT), 1)
    data = HEAD + element(VOID, bytes(99)) + tracks + element(CLUSTER, size=UNKNOWN) + picture
    group = element(GROUP, block(b"b", 2, kind=BLOCK) + element(VOID))
    data += block(b"a", 2) + group + block(b"x", 3) + element(CLUSTER, size=UNKNOWN) + block(b"c", 2)
    assert packets(data) == packets(data[:70_000], data[70_000:]) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_recording_that_begins_anew(number: int) -> None:
    """Its audio may be another track than before."""
    other = track(3 - number, b"V_VP8") + track(number, b"A_OPUS")
    anew = HEAD + element(TRACKS, other) + element(CLUSTER, size=UNKNOWN)
    assert packets(BEGUN + block(b"a") + anew + block(b"picture", 3 - number) + block(b"b", number)) == [b"a", b"b"]


@each_row(
    "data",
    [
        HEAD + element(TRACKS, track(1, b"A_VORBIS")) + element(CLUSTER, size=UNKNOWN) + block(b"a"),
        BEGUN + block(b"a", flags=0x02),
        BEGUN + element(SIMPLE_BLOCK, b"\x81"),
        BEGUN + bytes(20),
        BEGUN + element(SIMPLE_BLOCK, size=UNKNOWN),
        BEGUN + block(bytes(MAX_ELEMENT)),
        BEGUN + element(VOID, size=(MAX_SKIPPED + 1 | 1 << 56).to_bytes(8)),
    ],
)
def test_what_is_no_webm_with_opus_is_refused(data: bytes) -> None:
    with pytest.raises(AudioError, match="expected"):
        packets(data)


@pytest.mark.parametrize(
    "data",
    [BEGUN + b"\xec\x80" * 50_000, HEAD + element(TRACK, b"\xec\x80" * 1_500) * 30],
    ids=["in it", "in tracks"],
)
def test_elements_without_anything_in_them_count(data: bytes) -> None:
    """A hundred thousand bytes hold half as many."""
    with pytest.raises(AudioError, match="at most 200 elements"):
        packets(data)


def test_a_track_says_little_of_itself() -> None:
    with pytest.raises(AudioError, match="0xae of at most 4096 bytes; got one of 5000"):
        packets(HEAD + element(TRACK, bytes(5_000)))


def test_a_message_that_holds_hours_is_refused() -> None:
    with pytest.raises(AudioError, match="at most 20 s of audio in 1024 bytes"):
        AudioInput("webm-opus").feed(BEGUN + block(b"\xfb\x06") * 20_000)


@quick(60)
@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_after_a_beginning_are_packets_or_an_error(portions: list[bytes]) -> None:
    with suppress(AudioError):
        packets(BEGUN, *portions)
