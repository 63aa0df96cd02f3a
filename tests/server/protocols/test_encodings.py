"""Audio encodings of wire protocols, against FFmpeg's codecs and against the whole at once."""

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from opus_files import TONE, opus_file
from whispertide.errors import AudioError, OptionError
from whispertide.server.protocols.encodings import ENCODINGS, AudioInput
from whispertide.types import FloatArray


def feed(audio: AudioInput, portions: list[bytes]) -> FloatArray:
    return np.concatenate([*(audio.feed(portion) for portion in portions), audio.drain()])


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_g711_is_what_ffmpeg_decodes(law: str) -> None:
    codes = bytes(range(256))
    codec = av.CodecContext.create(f"pcm_{law}", "r")
    codec.sample_rate, codec.layout = 16_000, "mono"
    (frame,) = codec.decode(av.Packet(codes))
    expected = frame.to_ndarray()[0].astype(np.float32) / 32_768
    np.testing.assert_array_equal(AudioInput(law, rate=16_000).feed(codes), expected)


def test_16_khz_pcm_is_passed_on_as_it_is() -> None:
    np.testing.assert_array_equal(AudioInput("s16le", rate=16_000).feed(TONE.tobytes()), TONE / np.float32(32_768))


def test_raw_opus_is_one_packet_per_message() -> None:
    packets, _ = opus_file()
    heard = feed(AudioInput("opus"), [*packets, b""])
    assert abs(len(heard) - 16_000) < 700  # the encoder's delay
    spectrum = np.abs(np.fft.rfft(heard[2_000:10_000]))
    assert np.argmax(spectrum) == 220  # bins of 2 Hz


@quick(15)
@given(st.sampled_from(["ogg", "webm"]), st.data())
def test_containers_may_be_cut_anywhere(container: str, data: st.DataObject) -> None:
    packets, file = opus_file(container)
    expected = feed(AudioInput("opus"), packets)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(file)), max_size=6)))
    portions = [file[a:b] for a, b in zip([0, *cuts], [*cuts, len(file)], strict=True)]
    np.testing.assert_array_equal(feed(AudioInput(f"{container}-opus"), portions), expected)


def test_a_channel_can_be_taken_by_itself() -> None:
    both = np.stack([TONE, np.zeros_like(TONE)], axis=1).tobytes()
    left, right = (AudioInput("s16le", rate=16_000, channels=2, channel=number) for number in (0, 1))
    np.testing.assert_array_equal(left.feed(both), TONE / np.float32(32_768))
    assert not right.feed(both).any()


@quick(40)
@given(st.sampled_from(["u8", "s16le", "s32le", "mulaw", "alaw"]), st.integers(1, 3), st.data())
def test_portions_do_not_matter(encoding: str, channels: int, data: st.DataObject) -> None:
    raw = np.random.default_rng(7).bytes(6_000)
    rate = data.draw(st.sampled_from([8_000, 16_000, 24_000, 44_100]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    portions = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    whole = feed(AudioInput(encoding, rate=rate, channels=channels), [raw])
    np.testing.assert_allclose(feed(AudioInput(encoding, rate=rate, channels=channels), portions), whole, atol=1e-6)


def test_draining_loses_nothing_and_keeps_half_samples() -> None:
    raw = TONE.tobytes()
    audio = AudioInput("s16le", rate=48_000)
    parts = [audio.feed(raw[:30_001]), audio.drain(), audio.feed(raw[30_001:]), audio.drain()]
    heard = np.concatenate(parts)
    assert abs(len(heard) - 16_000) <= 2
    whole = AudioInput("s16le", rate=48_000)
    expected = np.concatenate([whole.feed(raw), whole.drain()])
    away = np.abs(np.arange(len(heard)) - 5_000) > 400  # the cut itself rings
    np.testing.assert_allclose(heard[away][:15_000], expected[: len(heard)][away][:15_000], atol=0.02)


@quick(60)
@given(st.sampled_from(ENCODINGS), st.lists(st.binary(max_size=200), max_size=8))
def test_any_bytes_are_audio_or_an_audio_error(encoding: str, portions: list[bytes]) -> None:
    audio = AudioInput(encoding, rate=8_000)
    for portion in portions:
        try:
            samples = audio.feed(portion)
        except AudioError:
            return
        assert samples.ndim == 1
        assert np.isfinite(samples).all()


def test_an_ogg_packet_without_end_is_refused() -> None:
    page = b"OggS" + bytes(22) + bytes([255]) + bytes([255] * 255) + bytes(255 * 255)
    audio = AudioInput("ogg-opus")
    for _ in range(16):
        audio.feed(page)
    with pytest.raises(AudioError, match="longer"):
        audio.feed(page)


@pytest.mark.parametrize(("rate", "channels"), [(0, 1), (10**9, 1), (16_000, 0), (16_000, 1_000)])
def test_absurd_formats_are_refused(rate: int, channels: int) -> None:
    with pytest.raises(OptionError, match="expected"):
        AudioInput("s16le", rate=rate, channels=channels)


def test_opus_has_one_or_two_channels() -> None:
    with pytest.raises(OptionError, match="1 or 2 channels"):
        AudioInput("opus", channels=6)


def test_unknown_encodings_are_refused() -> None:
    with pytest.raises(OptionError, match="encoding"):
        AudioInput("amr-nb")


def ogg_page(packets: list[bytes]) -> bytes:
    """One page of an Ogg stream; nobody here looks at its checksum."""
    return b"OggS" + bytes(22) + bytes([len(packets), *map(len, packets)]) + b"".join(packets)


BOMB = ogg_page([b"\xfb\x06"] * 255)  # two bytes of Opus are 0.12 s; a megabyte of them would be sixteen hours


@pytest.mark.parametrize("pages", [1, 1000])
def test_bytes_that_hold_hours_are_refused_before_they_are_decoded(pages: int) -> None:
    audio = AudioInput("ogg-opus")
    with pytest.raises(AudioError, match="at most 20 s of audio in 1024 bytes"):
        audio.feed(BOMB * pages)


def test_packets_without_audio_count_too() -> None:
    """A megabyte holds nearly a million of them, and each takes its time."""
    audio, pages = AudioInput("ogg-opus"), ogg_page([b""] * 255)
    assert not len(audio.feed(pages * 30))
    with pytest.raises(AudioError, match="at most 20 s of audio in 1024 bytes"):
        audio.feed(pages * 40)


def test_much_audio_may_come_at_once_where_there_are_bytes_for_it() -> None:
    """A page of long packets, whole with its last byte."""
    audio = AudioInput("ogg-opus")
    packet = b"\xfb\x46" + bytes([40]) + bytes(40)  # six frames of 20 ms, and as many bytes of padding
    assert len(audio.feed(ogg_page([packet] * 255))) > 30 * 16_000
