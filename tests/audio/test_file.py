import io
import os
import re
import tempfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sounds import encode, encode_video, frequency, loudness, make_wav, tone, wav_bytes
from whispertide.audio import track as audio_track
from whispertide.audio.file import audio_tracks, channel_count, decode_blocks, duration_of, load_audio, pcm_blocks
from whispertide.errors import AudioError, AudioFileError, OptionError, TruncatedAudioError
from whispertide.types import SAMPLE_RATE, FloatArray


class Pipe(io.RawIOBase):
    """A stream that cannot seek and gives bytes in the portions named by `sizes` (then all that is asked for)."""

    def __init__(self, data: bytes, sizes: list[int] | None = None) -> None:
        self._data, self._sizes = io.BytesIO(data), list(sizes or [])

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._sizes.pop(0)) if self._sizes else len(buffer)
        data = self._data.read(size)
        buffer[: len(data)] = data
        return len(data)


def pipe(data: bytes, sizes: list[int] | None = None) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(Pipe(data, sizes)))


def collect(blocks: Iterator[FloatArray]) -> tuple[FloatArray, Exception | None]:
    """All blocks that came, and the error that ended them."""
    got: list[FloatArray] = [np.zeros(0, np.float32)]
    try:
        got.extend(blocks)
    except AudioError as error:
        return np.concatenate(got), error
    return np.concatenate(got), None


def check_tone(samples: FloatArray, seconds: float, slack: float = 0.001, level: float = 0.5) -> None:
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    assert len(samples) / SAMPLE_RATE == pytest.approx(seconds, abs=slack)
    middle = samples[2000:-2000]
    assert frequency(middle) == pytest.approx(440, abs=4)
    assert loudness(middle) == pytest.approx(level / np.sqrt(2), rel=0.05)


# --- what can be read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000, 192_000])
@pytest.mark.parametrize("kind", ["u8", "s16", "s24", "s32", "f32", "f64"])
def test_wav_of_any_rate_and_sample_type(tmp_path: Path, rate: int, kind: str) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(tone(0.7, rate), rate, kind))
    check_tone(load_audio(path), 0.7)
    assert duration_of(path) == pytest.approx(0.7, abs=1e-3)


@pytest.mark.parametrize("channels", [1, 2, 3, 6, 8])
def test_channels_are_mixed_by_their_mean(tmp_path: Path, channels: int) -> None:
    path = tmp_path / "a.wav"
    sound = np.zeros((33_600, channels), np.float32)
    sound[:, 0] = tone(0.7, 48_000)
    path.write_bytes(make_wav(sound, 48_000, "f32"))
    check_tone(load_audio(path), 0.7, level=0.5 / channels)


@pytest.mark.parametrize("rate", [16_000, 48_000])
def test_a_channel_can_be_had_by_itself(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "a.wav"
    sound = np.zeros((len(tone(0.7, rate)), 3), np.float32)
    sound[:, 1] = tone(0.7, rate)
    path.write_bytes(make_wav(sound, rate, "f32"))
    assert channel_count(path) == 3
    quiet, loud, none = (np.concatenate(list(decode_blocks(path, channel=number))) for number in (1, 2, 4))
    check_tone(loud, 0.7)
    assert np.abs(quiet).max() == np.abs(none).max() == 0
    assert len(none) == len(loud)


@pytest.mark.parametrize(
    ("name", "codec", "rate", "seconds"),
    [
        ("a.flac", "flac", 44_100, 1.2),
        ("a.mp3", "mp3", 44_100, 1.2),
        ("a.ogg", "libopus", 48_000, 1.2),
        ("a.webm", "libopus", 48_000, 1.2),
        ("a.m4a", "aac", 44_100, 1.2),
        ("a.aac", "aac", 44_100, 1.2),
        ("a.mka", "flac", 16_000, 1.2),
        ("a.amr", "amr_nb", 8_000, 1.2),
        ("a.aiff", "pcm_s16be", 22_050, 1.2),
        ("a.mp2", "mp2", 48_000, 1.2),
    ],
)
def test_containers_and_codecs(tmp_path: Path, name: str, codec: str, rate: int, seconds: float) -> None:
    path = encode(tmp_path / name, codec, tone(seconds, rate), rate, b="96000" if codec == "aac" else "")
    samples, error = collect(decode_blocks(path))
    assert error is None
    assert len(samples) / SAMPLE_RATE == pytest.approx(seconds, abs=0.06)  # encoders pad
    middle = samples[3000 : int(seconds * SAMPLE_RATE) - 1500]
    assert frequency(middle) == pytest.approx(440, abs=4)
    assert 0.2 < loudness(middle) < 0.5


def test_the_sound_of_a_video(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", "aac", tone(1.2, 44_100), 44_100, video=True)
    samples = load_audio(path)
    assert len(samples) / SAMPLE_RATE == pytest.approx(1.2, abs=0.06)
    assert frequency(samples[3000:16000]) == pytest.approx(440, abs=4)


def test_a_rate_that_changes_in_mid_stream(tmp_path: Path) -> None:
    parts = [
        encode(tmp_path / f"{rate}.mp3", "mp3", tone(1.0, rate), rate, write_xing="0", id3v2_version="0")
        for rate in (44_100, 22_050)
    ]
    path = tmp_path / "both.mp3"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    samples, error = collect(decode_blocks(path))
    assert error is None
    assert len(samples) / SAMPLE_RATE == pytest.approx(2.0, abs=0.2)
    assert frequency(samples[2000:14_000]) == pytest.approx(440, abs=4)
    assert frequency(samples[-14_000:-2000]) == pytest.approx(440, abs=4)


def test_samples_beyond_full_scale_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(tone(0.2) * 5, SAMPLE_RATE, "f32"))
    assert np.array_equal(load_audio(path), tone(0.2) * 5)


def test_samples_that_are_no_numbers_become_silence_with_a_warning(tmp_path: Path) -> None:
    sound = tone(0.5).astype(np.float64)
    sound[100], sound[200], sound[300] = np.nan, np.inf, 1e300
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(sound, SAMPLE_RATE, "f64"))
    with pytest.warns(UserWarning, match=r"a\.wav: 3 samples were not numbers"):
        samples = load_audio(path)
    expected = tone(0.5)
    expected[[100, 200, 300]] = 0
    assert np.array_equal(samples, expected)


@pytest.mark.parametrize("block", [1, 160, 1000, SAMPLE_RATE, 10**6])
def test_blocks_have_the_asked_size(tmp_path: Path, block: int) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(tone(0.3, 8_000), 8_000))
    blocks = list(decode_blocks(path, block=block))
    assert {len(item) for item in blocks[:-1]} <= {block}
    assert 1 <= len(blocks[-1]) <= block
    assert np.array_equal(np.concatenate(blocks), load_audio(path))


def test_a_block_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="at least 1 sample; got 0"):
        next(decode_blocks("whatever.wav", block=0))


@pytest.mark.parametrize(
    ("name", "codec"), [("a.wav", "pcm_s16le"), ("a.flac", "flac"), ("a.ogg", "libopus"), ("a.mp3", "mp3")]
)
def test_file_objects_and_pipes_give_what_the_file_gives(tmp_path: Path, name: str, codec: str) -> None:
    path = encode(tmp_path / name, codec, tone(1.0, 48_000), 48_000)
    expected = load_audio(path)
    with open(path, "rb") as file:
        assert duration_of(file) == pytest.approx(1.0, abs=0.1)
        file.seek(0)
        assert np.array_equal(load_audio(file), expected)
        assert not file.closed
    assert np.array_equal(load_audio(io.BytesIO(path.read_bytes())), expected)
    piped = load_audio(pipe(path.read_bytes(), [3, 1, 700]))
    assert np.array_equal(piped[:15_500], expected[:15_500])
    assert 0 <= len(piped) - len(expected) < 400  # of an MP3, ffmpeg can cut the padding only where it can seek


def test_a_file_object_is_read_from_where_it_stands(tmp_path: Path) -> None:
    file = io.BytesIO(b"header of something else" + make_wav(tone(0.5), SAMPLE_RATE))
    file.seek(24)
    check_tone(load_audio(file), 0.5)


def test_text_paths_work(tmp_path: Path) -> None:
    path = tmp_path / "über all:name.wav"  # not a protocol
    path.write_bytes(make_wav(tone(0.5), SAMPLE_RATE))
    check_tone(load_audio(str(path)), 0.5)


def test_stopping_early_closes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(tone(2.0), SAMPLE_RATE))
    blocks = decode_blocks(path, block=1000)
    next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    open_files = [os.readlink(f"/proc/self/fd/{fd}") for fd in _open_descriptors()]
    assert str(path) not in open_files


def _open_descriptors() -> list[str]:
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}")]


# --- files with nothing in them, being written, or cut off ------------------------------------------------------------


def test_a_header_without_samples_yields_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(tone(0.0), SAMPLE_RATE))
    assert list(decode_blocks(path)) == []
    assert load_audio(path).shape == (0,)
    assert duration_of(path) is None


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFF000])
def test_a_wav_that_is_still_being_written_gives_what_is_there(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.wav"
    data = np.round(tone(0.8) * 32767).astype("<i2").tobytes()
    path.write_bytes(wav_bytes(data, SAMPLE_RATE, 1, 16, size=size))
    check_tone(load_audio(path), 0.8)
    check_tone(load_audio(pipe(path.read_bytes())), 0.8)


def test_what_arrives_after_opening_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    data = np.round(tone(10.0) * 32767).astype("<i2").tobytes()
    path.write_bytes(wav_bytes(data, SAMPLE_RATE, 1, 16, size=0))
    total = 0
    with open(path, "ab") as recorder:
        for block in decode_blocks(path):
            recorder.write(data)  # faster than it is read
            recorder.flush()
            total += len(block)
    assert total == 10 * SAMPLE_RATE


def faststart(path: Path) -> Path:
    return encode(path, "aac", tone(3.0, 44_100), 44_100, movflags="faststart")


CUT: dict[str, Callable[[Path], Path]] = {
    "a.wav": lambda path: encode(path, "pcm_s16le", tone(3.0, 44_100), 44_100),
    "a.flac": lambda path: encode(path, "flac", tone(3.0, 44_100), 44_100),
    "a.mp3": lambda path: encode(path, "mp3", tone(3.0, 44_100), 44_100),
    "a.webm": lambda path: encode(path, "libopus", tone(3.0, 48_000), 48_000),
    "a.m4a": faststart,
    "a.aiff": lambda path: encode(path, "pcm_s16be", tone(3.0, 44_100), 44_100),
}


@pytest.mark.parametrize("name", CUT)
def test_a_file_that_was_cut_off_gives_what_is_there_and_then_an_error(tmp_path: Path, name: str) -> None:
    path = CUT[name](tmp_path / name)
    whole = path.read_bytes()
    assert collect(decode_blocks(path))[1] is None
    path.write_bytes(whole[: int(len(whole) * 0.6)])
    samples, error = collect(decode_blocks(path, block=1000))
    assert isinstance(error, TruncatedAudioError)
    assert str(path) in str(error)
    assert "cut off" in str(error)
    assert 1.2 < len(samples) / SAMPLE_RATE < 2.2
    assert frequency(samples[3000:16_000]) == pytest.approx(440, abs=4)


def later(path: Path, whole: Path, from_s: float, by_s: float) -> Path:
    """The same audio; the time stamps from `from_s` on are `by_s` later."""
    import av

    with av.open(str(whole)) as source, av.open(str(path), "w") as target:
        track: Any = source.streams.audio[0]
        copied = target.add_stream_from_template(track)
        for packet in source.demux(track):
            if packet.dts is None or packet.pts is None:  # the last one is empty
                continue
            if packet.pts * packet.time_base >= from_s:
                packet.pts += round(by_s / packet.time_base)
                packet.dts = packet.pts
            packet.stream = copied
            target.mux(packet)
    return path


def silent(samples: FloatArray) -> float:
    """Seconds without any sound, in pieces of 50 ms."""
    pieces = samples[: len(samples) // 800 * 800].reshape(-1, 800)
    return float((np.abs(pieces).max(axis=1) < 1e-3).sum()) * 0.05


@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "aac"), ("a.mp4", "aac")])
def test_sound_that_begins_after_the_picture_has_silence_before_it(tmp_path: Path, name: str, codec: str) -> None:
    """../shared/bug-inputs/delay7.mkv: subtitles were early by the delay, and the file was called cut off."""
    import av

    whole = encode(tmp_path / f"whole-{name}", codec, tone(2.0, 44_100), 44_100, video=True)
    path = tmp_path / name
    with av.open(str(whole)) as source, av.open(str(path), "w") as target:
        copies = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.dts is None or packet.pts is None:
                continue
            if packet.stream.type == "audio":
                packet.pts += round(3.0 / packet.time_base)
                packet.dts += round(3.0 / packet.time_base)
            packet.stream = copies[packet.stream.index]
            target.mux(packet)
    samples, error = collect(decode_blocks(path))
    assert error is None
    assert len(samples) / SAMPLE_RATE == pytest.approx(5.0, abs=0.1)
    assert not samples[: round(2.9 * SAMPLE_RATE)].any()
    assert frequency(samples[-20_000:-3_000]) == pytest.approx(440, abs=4)


@pytest.mark.parametrize("name", ["a.ts", "a.mp4", "a.mkv"])
def test_lost_packets_are_silent(tmp_path: Path, name: str) -> None:
    """../shared/bug-inputs/gap15.ts: what followed lost packets was early by their length. MP4: called cut off."""
    import av

    whole = encode(tmp_path / f"whole-{name}", "aac", tone(4.0, 48_000), 48_000)
    path = tmp_path / name
    with av.open(str(whole)) as source, av.open(str(path), "w") as target:
        track: Any = source.streams.audio[0]
        copied = target.add_stream_from_template(track)
        begin = float(track.start_time * track.time_base)
        for packet in source.demux(track):
            if packet.dts is None or packet.pts is None or 1.0 <= packet.pts * packet.time_base - begin < 3.0:
                continue
            packet.stream = copied
            target.mux(packet)
    samples, error = collect(decode_blocks(path))
    assert error is None
    assert len(samples) / SAMPLE_RATE == pytest.approx(4.0, abs=0.1)
    assert silent(samples) == pytest.approx(2.0, abs=0.15)


def two_tracks(path: Path) -> Path:
    """A film with two languages: 440 Hz in English, 880 Hz in German."""
    import av

    with av.open(str(path), "w") as container:
        streams: list[Any] = [container.add_stream("pcm_s16le", rate=SAMPLE_RATE, layout="mono") for _ in range(2)]
        for stream, language in zip(streams, ("eng", "ger"), strict=True):
            stream.metadata["language"] = language
        for stream, freq in zip(streams, (440.0, 880.0), strict=True):
            sound = np.round(tone(1.0, freq=freq) * 32767).astype(np.int16)
            frame = av.AudioFrame.from_ndarray(sound[None, :], format="s16", layout="mono")
            frame.rate, frame.pts = SAMPLE_RATE, 0
            container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    return path


def test_which_of_several_tracks(tmp_path: Path) -> None:
    path = two_tracks(tmp_path / "a.mka")
    tracks = audio_tracks(path)
    assert tracks.names == ("eng", "ger")
    assert str(tracks) == "2 audio tracks: 1 (eng), 2 (ger)"
    pitches = [
        frequency(np.concatenate(list(decode_blocks(path, track=number)))) for number in (None, tracks.preferred, 1, 2)
    ]
    assert pitches == pytest.approx([pitches[1], pitches[1], 440, 880], abs=4)
    with pytest.raises(AudioFileError, match=r"a\.mka: expected a track from 1 to 2; got 3"):
        next(decode_blocks(path, track=3))


def test_channels_that_cancel_each_other_out_are_told_of(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(np.stack([tone(1.0), -tone(1.0)], axis=1), SAMPLE_RATE))
    with pytest.warns(UserWarning, match=r"a\.wav: for 1\.0 s the channels cancel each other out"):
        check_tone(load_audio(path), 1.0)


@pytest.mark.parametrize(("name", "codec", "rate"), [("a.mka", "flac", 16_000), ("a.webm", "libopus", 48_000)])
@pytest.mark.parametrize(("from_s", "silent_s"), [(-1.0, 0.0), (1.0, 1.0)], ids=["a late beginning", "a gap"])
def test_time_stamps_may_begin_late_and_have_gaps(
    tmp_path: Path, name: str, codec: str, rate: int, from_s: float, silent_s: float
) -> None:
    """Nothing comes before the sound, so a late beginning is the beginning; a gap is silent."""
    whole = encode(tmp_path / f"whole-{name}", codec, tone(2.0, rate), rate)
    path = later(tmp_path / name, whole, from_s, 1.0)
    promised = duration_of(path)
    assert promised is not None
    assert promised > 2.9
    samples, error = collect(decode_blocks(path))
    assert error is None
    assert len(samples) / SAMPLE_RATE == pytest.approx(2.0 + silent_s, abs=0.06)
    assert silent(samples) == pytest.approx(silent_s, abs=0.1)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 7 // 10])
    assert isinstance(collect(decode_blocks(path))[1], TruncatedAudioError)


def test_a_pipe_that_was_cut_off_is_noticed_too() -> None:
    whole = make_wav(tone(2.0), SAMPLE_RATE)
    samples, error = collect(decode_blocks(pipe(whole[: len(whole) // 2])))
    assert isinstance(error, TruncatedAudioError)
    assert len(samples) == pytest.approx(SAMPLE_RATE, abs=30)


def test_a_cut_ogg_is_simply_shorter(tmp_path: Path) -> None:
    """It promises no length, so a recording that was ended and one that was cut off look the same."""
    path = encode(tmp_path / "a.ogg", "libopus", tone(5.0, 48_000), 48_000)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 5])
    samples, _ = collect(decode_blocks(path))
    assert 1.5 < len(samples) / SAMPLE_RATE < 3.5


def test_damage_in_the_middle_loses_only_that_part(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.flac", "flac", tone(5.0, 44_100), 44_100)
    data = bytearray(path.read_bytes())
    middle, size = len(data) // 2, len(data) // 5
    data[middle : middle + size] = b"\xaa" * size
    path.write_bytes(data)
    samples, error = collect(decode_blocks(path))
    assert isinstance(error, TruncatedAudioError)
    assert len(samples) / SAMPLE_RATE == pytest.approx(5.0, abs=0.1)
    assert 0.5 < silent(samples) < 2.0  # what comes after the damage stays where it was
    assert frequency(samples[-16_000:-2000]) == pytest.approx(440, abs=4)


@given(cut=st.floats(0, 1), noise=st.binary(max_size=30), seed=st.integers(0, 10**6))
def test_any_damage_is_an_audio_error_or_audio(cut: float, noise: bytes, seed: int) -> None:
    data = bytearray(make_wav(np.stack([tone(0.4)] * 2, axis=1), SAMPLE_RATE))
    at = seed % len(data) if seed % 3 else seed % 60  # two of three times anywhere, else in the header
    data[at : at + len(noise)] = noise
    samples, error = collect(decode_blocks(io.BytesIO(bytes(data[: int(cut * len(data))]))))
    assert error is None or isinstance(error, AudioFileError | TruncatedAudioError)
    assert np.isfinite(samples).all()


# --- what cannot be read ----------------------------------------------------------------------------------------------


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = (4).to_bytes(4, "big") * 2 + b"\x08\x00\0\0\0"
    pixels = zlib.compress(b"\0\1\2\3\4" * 4)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"x", "not audio"),
        (b"This is a letter, and not a sound.\n" * 50, "not audio"),
        (bytes(50_000), "not audio"),
        (b"%PDF-1.7\n" + bytes(range(256)) * 40, "not audio"),
        (b"1\n00:00:01,000 --> 00:00:02,000\nhello\n\n" * 3, "not audio"),
        (png(), "not audio"),
        (make_wav(tone(0.1), SAMPLE_RATE)[:20], "not audio"),
    ],
    ids=["empty", "byte", "text", "zeros", "pdf", "subtitles", "image", "half a header"],
)
def test_what_is_not_audio_is_a_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "thing.wav"
    path.write_bytes(content)
    for use in (load_audio, duration_of):
        with pytest.raises(AudioFileError, match=message) as caught:
            use(path)
        assert str(path) in str(caught.value)
    if content:
        with pytest.raises(AudioFileError, match=r"the input: .*" + message):
            load_audio(pipe(content))


@pytest.mark.parametrize("most", [0, 1000], ids=["in memory", "on disk"])
def test_a_temporary_file_has_no_name_in_messages(most: int, tmp_path: Path) -> None:
    """An upload's `name` is None, or the number of its descriptor."""
    with tempfile.SpooledTemporaryFile(most) as file:
        file.write(bytes(50_000 if most else 500))
        if most:
            assert isinstance(file.name, int)
        file.seek(0)
        with pytest.raises(AudioFileError, match=r"^the input: expected audio"):
            load_audio(cast(BinaryIO, file))
    named = tmp_path / "named.wav"
    named.write_bytes(bytes(500))
    for name in (str(named), os.fsencode(named)):
        with open(name, "rb") as file, pytest.raises(AudioFileError, match=f"^{re.escape(str(named))}: expected audio"):
            load_audio(file)


def test_an_empty_pipe_is_a_clear_error() -> None:
    with pytest.raises(AudioFileError, match="nothing came"):
        load_audio(pipe(b""))


def test_a_video_without_sound_is_a_clear_error(tmp_path: Path) -> None:
    path = encode_video(tmp_path / "a.mp4")
    with pytest.raises(AudioFileError, match="expected an audio track; the file holds only video"):
        load_audio(path)


def test_a_missing_file_and_a_directory_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match=r"nothing\.wav: there is no such file"):
        load_audio(tmp_path / "nothing.wav")
    with pytest.raises(AudioFileError, match="got a directory"):
        load_audio(tmp_path)
    with pytest.raises(AudioFileError, match="cannot be opened"):
        load_audio(tmp_path / ("x" * 300))


def test_an_unreadable_file_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(tone(0.1), SAMPLE_RATE))

    def refuse(*_: object) -> None:  # the tests may run as root, who may read everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(AudioFileError, match="may not be read"):
        load_audio(path)


def test_a_rate_that_no_sound_card_has_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(tone(0.1), 100))
    with pytest.raises(AudioFileError, match=r"a\.wav: expected a sample rate"):
        load_audio(path)


SESSION = b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 5004 RTP/AVP 0\n"


@pytest.mark.parametrize("lock", ["format_whitelist", "protocol_whitelist", "both"])
@pytest.mark.parametrize(
    "text",
    [
        "ffconcat version 1.0\nfile secret.wav\n",
        "ffconcat version 1.0\nfile {secret}\n",
        "ffconcat version 1.0\nfile pipe\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:1,\n{secret}\n#EXT-X-ENDLIST\n",
        SESSION.decode(),
    ],
    ids=["relative", "absolute", "pipe", "m3u8", "sdp"],
)
def test_a_file_does_not_lead_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, lock: str) -> None:
    """Each of the two lists is enough by itself. A named pipe that is opened would wait for its other end forever."""
    secret = tmp_path / "secret.wav"
    secret.write_bytes(make_wav(tone(0.5), SAMPLE_RATE))
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "list.wav"
    path.write_text(text.format(secret=secret))
    monkeypatch.chdir(tmp_path)
    if lock != "both":
        monkeypatch.setattr(audio_track, "_OPTIONS", {lock: audio_track._OPTIONS[lock]})
    with pytest.raises(AudioFileError, match="expected audio"):
        load_audio(path)
    with pytest.raises(AudioFileError, match="expected audio"):
        load_audio(io.BytesIO(path.read_bytes()))


def test_what_is_not_decoded_opens_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def ports() -> int:
        return len(Path("/proc/self/net/udp").read_text().splitlines())

    if not Path("/proc/self/net/udp").exists():
        pytest.skip("only Linux tells")
    before = ports()
    with pytest.raises(AudioFileError):
        duration_of(io.BytesIO(SESSION))
    assert ports() == before


def test_a_stream_that_does_not_wait_is_not_taken_for_its_end() -> None:
    class Impatient(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> None:
            return None

    stream = cast(BinaryIO, Impatient())
    with pytest.raises(AudioError, match="non-blocking mode"):
        list(decode_blocks(stream))
    with pytest.raises(AudioError, match="non-blocking mode"):
        list(pcm_blocks(stream, SAMPLE_RATE))


# --- raw PCM ----------------------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 700), max_size=30),
    rate=st.sampled_from([8_000, 16_000, 44_100]),
    block=st.sampled_from([1, 160, 5000]),
)
def test_pcm_in_any_portions_and_blocks(sizes: list[int], rate: int, block: int) -> None:
    data = np.round(tone(0.2, rate) * 32767).astype("<i2").tobytes()
    whole = np.concatenate(list(pcm_blocks(pipe(data), rate)))
    blocks = list(pcm_blocks(pipe(data, sizes), rate, block=block))
    assert {len(item) for item in blocks[:-1]} <= {block}
    assert np.array_equal(np.concatenate(blocks), whole)
    assert len(whole) == pytest.approx(0.2 * SAMPLE_RATE, abs=1)


def test_pcm_of_two_float_channels() -> None:
    stereo = np.stack([tone(0.5), np.zeros(8000, np.float32)], axis=1)
    blocks = pcm_blocks(pipe(stereo.astype("<f4").tobytes()), SAMPLE_RATE, channels=2, sample_format="f32le")
    check_tone(np.concatenate(list(blocks)), 0.5, level=0.25)


def test_pcm_gives_what_has_arrived_without_waiting_for_more() -> None:
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as reader, open(write_end, "wb", buffering=0) as writer:
        blocks = pcm_blocks(reader, SAMPLE_RATE, block=100)
        writer.write(bytes(200))
        assert len(next(blocks)) == 100  # and the writer is still there
        writer.write(bytes(402))
        assert [len(next(blocks)) for _ in range(2)] == [100, 100]
        writer.close()
        assert [len(block) for block in blocks] == [1]


def test_pcm_that_ends_inside_a_sample_is_an_error_after_everything_whole() -> None:
    data = np.round(tone(0.1) * 32767).astype("<i2").tobytes()
    samples, error = collect(pcm_blocks(pipe(data + b"\7"), SAMPLE_RATE, block=1000))
    assert len(samples) == 1600
    assert isinstance(error, TruncatedAudioError)
    assert "expected a multiple of 2 bytes (1 x s16le), got 1 more" in str(error)


def test_pcm_that_ends_inside_its_first_sample_is_no_audio() -> None:
    samples, error = collect(pcm_blocks(pipe(b"\7"), SAMPLE_RATE))
    assert len(samples) == 0
    assert isinstance(error, AudioError)
    assert not isinstance(error, TruncatedAudioError)


def test_pcm_of_nothing_is_nothing() -> None:
    assert list(pcm_blocks(pipe(b""), 8_000)) == []


def test_pcm_floats_that_are_no_numbers_are_reported() -> None:
    data = np.array([0.5, np.nan, 0.25], "<f4").tobytes()
    with pytest.warns(UserWarning, match="1 samples were not numbers"):
        samples, _ = collect(pcm_blocks(pipe(data), SAMPLE_RATE, sample_format="f32le"))
    assert samples.tolist() == [0.5, 0.0, 0.25]


# --- long files -------------------------------------------------------------------------------------------------------


def check_memory(path: Path, hours: float) -> None:
    next(decode_blocks(path))  # what is imported and loaded once does not count
    tracemalloc.start()
    try:
        total = sum(len(block) for block in decode_blocks(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == round(hours * 3600) * SAMPLE_RATE
    assert peak < 8e6


def long_wav(path: Path, hours: float, rate: int = 8_000) -> Path:
    size = round(hours * 3600) * rate
    with open(path, "wb") as file:
        file.write(wav_bytes(b"", rate, 1, 8, size=size))
        file.truncate(file.tell() + size)  # a hole: no disk space
    return path


@pytest.mark.slow
def test_a_long_file_needs_no_more_memory(tmp_path: Path) -> None:
    check_memory(long_wav(tmp_path / "a.wav", 0.1), 0.1)


@pytest.mark.slow
def test_twenty_minutes_need_no_more_memory(tmp_path: Path) -> None:
    import resource

    path = long_wav(tmp_path / "a.wav", 1 / 3)
    next(decode_blocks(path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # of the process, so ffmpeg's memory counts too; traced, as the short file is, it would take four times as long
    assert sum(len(block) for block in decode_blocks(path)) == 1200 * SAMPLE_RATE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB; all samples would be 77 MB
