"""Files with nothing in them, still being written, cut off or damaged."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoded_audio import check_tone, collect, pipe
from each_row import each_row
from sounds import encode, frequency, make_wav, tone, wav_bytes
from whispertide.audio.buffer import to_float
from whispertide.audio.file import decode_blocks, duration_of, load_audio
from whispertide.errors import AudioFileError, TruncatedAudioError
from whispertide.types import SAMPLE_RATE, FloatArray


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


def sound_later(path: Path, whole: Path, by_s: float) -> Path:
    """The same film, with its sound `by_s` after the picture."""
    import av

    with av.open(str(whole)) as source, av.open(str(path), "w") as target:
        copies = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.dts is None or packet.pts is None:
                continue
            if packet.stream.type == "audio":
                packet.pts += round(by_s / packet.time_base)
                packet.dts += round(by_s / packet.time_base)
            packet.stream = copies[packet.stream.index]
            target.mux(packet)
    return path


@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "aac"), ("a.mp4", "aac")])
def test_sound_that_begins_after_the_picture_has_silence_before_it(tmp_path: Path, name: str, codec: str) -> None:
    """../shared/bug-inputs/delay7.mkv: subtitles were early by the delay, and the file was called cut off."""
    whole = encode(tmp_path / f"whole-{name}", codec, tone(2.0, 44_100), 44_100, video=True)
    samples, error = collect(decode_blocks(sound_later(tmp_path / name, whole, 3.0)))
    assert error is None
    assert len(samples) / SAMPLE_RATE == pytest.approx(5.0, abs=0.1)
    assert not samples[: round(2.9 * SAMPLE_RATE)].any()
    assert frequency(samples[-20_000:-3_000]) == pytest.approx(440, abs=4)


def onset_after_begin(path: Path) -> float:
    """Seconds from the beginning of a file to its first sound, by ffmpeg's time stamps of them."""
    import av

    with av.open(str(path)) as container:
        begin = (container.start_time or 0) / av.time_base
        for frame in container.decode(audio=0):
            loud = np.abs(to_float(frame.to_ndarray()[0])) > 0.1
            if loud.any():
                assert frame.time is not None
                return float(frame.time - begin + loud.argmax() / frame.sample_rate)
    raise AssertionError("there is no sound")


@pytest.mark.parametrize("by_s", [0.0, 0.06])
@each_row(
    ("name", "codec"),
    [("a.mkv", "aac"), ("a.mp4", "aac"), ("a.mov", "pcm_s16le"), ("a.ts", "aac"), ("a.mpg", "mp2"), ("a.avi", "mp3")],
)
def test_sound_begins_where_the_container_says(tmp_path: Path, by_s: float, name: str, codec: str) -> None:
    """MP4, Matroska, Ogg and MP3 mark what their encoder put before the sound, and ffmpeg skips it. MPEG-TS, AVI and
    plain AAC do not: there it is sound of the file, as in every player.
    """
    whole = encode(tmp_path / f"whole-{name}", codec, tone(1.0, 48_000), 48_000, video=True)
    path = sound_later(tmp_path / name, whole, by_s)
    samples = load_audio(path)
    assert np.argmax(np.abs(samples) > 0.1) / SAMPLE_RATE == pytest.approx(onset_after_begin(path), abs=0.001)


@each_row(
    ("name", "codec", "rate", "marked"),
    [
        ("a.m4a", "aac", 44_100, True),
        ("a.mka", "aac", 44_100, True),
        ("a.ogg", "libopus", 48_000, True),
        ("a.mp3", "mp3", 44_100, True),
        ("a.aac", "aac", 44_100, False),
        ("a.mp2", "mp2", 44_100, False),
    ],
)
def test_what_encoders_put_before_the_sound(tmp_path: Path, name: str, codec: str, rate: int, marked: bool) -> None:
    path = encode(tmp_path / name, codec, tone(1.0, rate), rate)
    begins = np.argmax(np.abs(load_audio(path)) > 0.1) / SAMPLE_RATE
    assert begins == pytest.approx(onset_after_begin(path), abs=0.001)
    assert (begins < 0.003) == marked


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


def test_an_mp4_with_its_index_at_its_end_is_not_for_pipes(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.m4a", "aac", tone(6.0, 44_100), 44_100)
    with pytest.raises(AudioFileError, match=r"none could be decoded: .*name the file, or put the index first"):
        load_audio(pipe(path.read_bytes()))
    check_tone(load_audio(path), 6.0, slack=0.06)
    check_tone(load_audio(pipe(faststart(path).read_bytes())), 3.0, slack=0.06)


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
