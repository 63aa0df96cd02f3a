"""Audio as it comes out of a telephone, a voice message or an old sound file: at other rates, through real codecs."""

import io
from collections.abc import Iterator

import av
import numpy as np

from whispertide.audio.file import load_audio
from whispertide.types import SAMPLE_RATE, FloatArray

# codec -> container, the rates that it has (none: every one), and bits a second where it asks for them
CODECS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "pcm_s16le": ("wav", (), ()),
    "pcm_mulaw": ("wav", (), ()),
    "libmp3lame": ("mp3", (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000), (16_000, 32_000)),
    "libopus": ("ogg", (8_000, 12_000, 16_000, 24_000, 48_000), (6_000, 12_000)),
}


def coded(samples: FloatArray, codec: str = "pcm_s16le", rate: int = SAMPLE_RATE, bit_rate: int | None = None) -> bytes:
    """A file of 16 kHz mono [n], recorded at `rate` samples a second; a codec without that rate gets its next one."""
    form, rates, _ = CODECS[codec]
    carried = min((each for each in rates if each >= rate), default=rates[-1] if rates else rate)
    file = io.BytesIO()
    with av.open(file, "w", format=form) as out:
        stream = out.add_stream(codec, rate=carried, layout="mono")
        if bit_rate is not None:
            stream.bit_rate = bit_rate
        narrow = _resampled(_frames(samples), rate)
        for frame in _resampled(narrow, carried, stream.format.name, stream.frame_size):
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return file.getvalue()


def through(samples: FloatArray, codec: str, rate: int, bit_rate: int | None = None) -> FloatArray:
    """16 kHz mono as it comes back, [m]."""
    return load_audio(io.BytesIO(coded(samples, codec, rate, bit_rate)))


def _frames(samples: FloatArray) -> Iterator[av.AudioFrame]:
    frame = av.AudioFrame.from_ndarray(np.clip(samples, -1, 1)[None], format="fltp", layout="mono")
    frame.sample_rate, frame.pts = SAMPLE_RATE, 0
    yield frame


def _resampled(
    frames: Iterator[av.AudioFrame], rate: int, form: str = "fltp", size: int | None = None
) -> Iterator[av.AudioFrame]:
    resampler = av.AudioResampler(format=form, layout="mono", rate=rate, frame_size=size or None)
    for frame in frames:
        yield from resampler.resample(frame)
    yield from resampler.resample(None)
