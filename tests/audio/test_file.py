import io
import os
import re
import tempfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pytest

from decoded_audio import check_tone, collect, pipe
from each_row import each_row
from sounds import encode, encode_video, extensible_wav, frequency, loudness, make_wav, to_pcm, tone, wav_bytes
from whispertide.audio import track as audio_track
from whispertide.audio.file import audio_tracks, channel_count, decode_blocks, duration_of, load_audio, pcm_blocks
from whispertide.errors import AudioError, AudioFileError, OptionError
from whispertide.types import SAMPLE_RATE

# --- what can be read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000, 192_000])
@pytest.mark.parametrize("kind", ["u8", "s16", "s24", "s32", "f32", "f64"])
def test_wav_of_any_rate_and_sample_type(tmp_path: Path, rate: int, kind: str) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(tone(0.7, rate), rate, kind))
    check_tone(load_audio(path), 0.7)
    assert duration_of(path) == pytest.approx(0.7, abs=1e-3)


@each_row(("kind", "valid"), [("s32", 24), ("s32", 20), ("s32", 16), ("s24", 20), ("s24", 16), ("s16", 8), ("f32", 32)])
def test_samples_may_have_fewer_valid_bits_than_places(kind: str, valid: int) -> None:
    """As sound cards and recorders write 24 bits in 32; ffmpeg by itself takes these for floats: loud noise."""
    data, bits, tag = to_pcm(tone(0.7, 48_000), kind)
    whole = extensible_wav(data, 48_000, 1, bits, valid, tag)
    check_tone(load_audio(io.BytesIO(whole)), 0.7)
    check_tone(load_audio(pipe(whole)), 0.7)


@pytest.mark.parametrize("channels", [1, 2])
def test_samples_may_have_64_bits(channels: int) -> None:
    sound = np.repeat(tone(0.7)[:, None], channels, axis=1)
    data = np.round(sound.astype(np.float64) * 2.0**62 * 1.9).astype("<i8").tobytes()
    check_tone(load_audio(io.BytesIO(wav_bytes(data, SAMPLE_RATE, channels, 64))), 0.7, level=0.475)


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
        (wav_bytes(bytes(3200), SAMPLE_RATE, 0, 16), "no audio track that ffmpeg can read"),
    ],
    ids=["empty", "byte", "text", "zeros", "pdf", "subtitles", "image", "half a header", "no channels"],
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
