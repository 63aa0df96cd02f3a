import struct

from each_row import each_row
from sounds import extensible_wav, wav_bytes
from whispertide.audio.container import promised_size, with_full_width


def test_a_wav_promises_the_end_of_its_data() -> None:
    whole = wav_bytes(bytes(3200), 16_000, 1, 16)
    assert promised_size(whole) == len(whole)
    assert promised_size(whole[:100]) == len(whole)


@each_row("size", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0xFFFFFFFF - 44])
def test_a_wav_written_to_a_pipe_promises_nothing(size: int) -> None:
    assert promised_size(wav_bytes(bytes(3200), 16_000, 1, 16, size=size)) is None


def test_other_chunks_are_skipped_with_their_padding() -> None:
    whole = wav_bytes(bytes(3200), 16_000, 1, 16)
    extended = whole[:12] + b"LIST" + struct.pack("<I", 5) + b"abcde\0" + whole[12:]
    assert promised_size(extended) == len(extended)


@each_row("form", [b"RF64", b"BW64"])
def test_sizes_beyond_four_gibibytes_stand_in_their_own_chunk(form: bytes) -> None:
    whole = wav_bytes(b"", 16_000, 1, 16, size=0xFFFFFFFF)
    ds64 = b"ds64" + struct.pack("<IQQQI", 28, 2**33 + 100, 2**33, 2**32, 0)
    head = form + whole[4:12] + ds64 + whole[12:]
    assert promised_size(head) == len(head) + 2**33


def xing(flags: int, size: int) -> bytes:
    return bytes([0xFF, 0xFB, 0x90, 0x64]) + bytes(32) + b"Xing" + struct.pack(">3I", flags, 1000, size) + bytes(300)


def test_an_mp3_promises_what_its_xing_header_says() -> None:
    assert promised_size(xing(3, 5000)) == 5000
    tag = b"ID3\x04\0\0" + bytes([0, 0, 2, 1]) + bytes(257)
    assert promised_size(tag + xing(3, 5000)) == 5000 + len(tag)


@each_row("head", [b"", b"RIFF", b"ID3", b"OggS" + bytes(200), xing(1, 5000), xing(3, 0), xing(3, 9)[:50]])
def test_anything_else_promises_nothing(head: bytes) -> None:
    assert promised_size(head) is None


def test_all_bits_of_a_sample_count() -> None:
    """Also where other chunks come first."""
    narrow, full = (extensible_wav(bytes(64), 48_000, 1, 32, valid) for valid in (24, 32))
    junk = b"JUNK" + struct.pack("<I", 3) + bytes(4)
    assert with_full_width(narrow) == with_full_width(full) == full
    assert with_full_width(narrow[:12] + junk + narrow[12:]) == full[:12] + junk + full[12:]


@each_row(
    "head",
    [
        *(b"", b"RIFF", b"OggS" + bytes(100), wav_bytes(bytes(64), 48_000, 1, 24)),
        *(extensible_wav(bytes(64), 48_000, 1, 32, 24)[:count] for count in (12, 20, 40, 45)),
        extensible_wav(bytes(64), 48_000, 1, 16_384, 24),  # samples of 2 kB
        extensible_wav(bytes(64), 48_000, 1, 32, 24, tag=0x55),  # MP3: not the width of a sample
    ],
)
def test_nothing_else_is_changed(head: bytes) -> None:
    assert with_full_width(head) == head
