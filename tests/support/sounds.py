"""Sounds and sound files for the tests: everything is computed, nothing is shipped."""

import struct
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from whispertide.types import SAMPLE_RATE, FloatArray


def tone(seconds: float, rate: int = SAMPLE_RATE, freq: float = 440.0, level: float = 0.5) -> FloatArray:
    samples: FloatArray = (level * np.sin(2 * np.pi * freq * np.arange(round(seconds * rate)) / rate)).astype(
        np.float32
    )
    return samples


@cache
def babble(seconds: float, seed: int = 0) -> FloatArray:
    """What a voice detector takes for speech: a moving pitch through three resonances, five vowels per second."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    vowels = np.array([[730, 1090, 2440], [270, 2290, 3010], [300, 870, 2240], [530, 1840, 2480], [570, 840, 2410]])
    syllable = 5 * t
    centers = vowels[rng.integers(0, len(vowels), len(t) // 3200 + 2)]
    at = syllable.astype(int)
    mix = np.clip(4 * (syllable - at - 0.5) + 0.5, 0, 1)[:, None]
    resonances = centers[at] * (1 - mix) + centers[at + 1] * mix
    pitch = 120 + 25 * np.sin(2 * np.pi * 0.7 * t) + 10 * np.sin(2 * np.pi * 2.3 * t + 1)
    phase = 2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE
    sound = np.zeros(len(t))
    for harmonic in range(1, 40):
        distance = (harmonic * pitch[:, None] - resonances) / np.array([60, 90, 120])
        gain = (np.array([1, 0.5, 0.25]) / (1 + distance**2)).sum(axis=1)
        sound += gain / np.sqrt(harmonic) * np.sin(harmonic * phase)
    sound *= np.sqrt(np.abs(np.sin(np.pi * syllable)))
    scaled: FloatArray = (0.3 * sound / np.abs(sound).max()).astype(np.float32)
    scaled.flags.writeable = False  # every caller has this array
    return scaled


def silence(seconds: float) -> FloatArray:
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


def wav_bytes(data: bytes, rate: int, channels: int, bits: int, tag: int = 1, size: int | None = None) -> bytes:
    """A WAV file; `tag` 1 = integer, 3 = float; `size` = what the header says about the data."""
    width = channels * bits // 8
    size = len(data) if size is None else size
    fmt = struct.pack("<HHIIHH", tag, channels, rate, rate * width, width, bits)
    chunks = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", min(4 + len(chunks), 0xFFFFFFFF)) + chunks


def extensible_wav(data: bytes, rate: int, channels: int, bits: int, valid: int, tag: int = 1) -> bytes:
    """A WAV file with an extensible header: samples of `bits` each, of which the upper `valid` count."""
    width = channels * bits // 8
    fmt = struct.pack("<HHIIHH", 0xFFFE, channels, rate, rate * width, width, bits)
    fmt += struct.pack("<HHIH", 22, valid, 0, tag) + bytes.fromhex("000000001000800000aa00389b71")
    chunks = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


def to_pcm(samples: npt.NDArray[Any], kind: str) -> tuple[bytes, int, int]:
    """Samples -> (bytes, bits, WAV format tag)."""
    if kind in ("f32", "f64"):
        return samples.astype(f"<f{int(kind[1:]) // 8}").tobytes(), int(kind[1:]), 3
    if kind == "u8":
        return np.round(samples * 127 + 128).astype("u1").tobytes(), 8, 1
    bits = int(kind[1:])
    values = np.round(samples.astype(np.float64) * (2 ** (bits - 1) - 1)).astype("<i4")
    if bits == 24:
        return values.reshape(-1, 1).view("u1")[:, :3].tobytes(), 24, 1
    return values.astype(f"<i{bits // 8}").tobytes(), bits, 1


def make_wav(samples: npt.NDArray[Any], rate: int, kind: str = "s16") -> bytes:
    """Samples [n] or [n, channels] -> the bytes of a WAV file."""
    data, bits, tag = to_pcm(samples, kind)
    return wav_bytes(data, rate, 1 if samples.ndim == 1 else samples.shape[1], bits, tag)


def encode(path: Path, codec: str, samples: FloatArray, rate: int, video: bool = False, **options: str) -> Path:
    """Write mono `samples` with ffmpeg's encoder `codec`; with `video`, next to a small video track."""
    import av

    with av.open(str(path), "w", options=options) as container:
        pictures = _add_video(container) if video else None
        try:
            stream: Any = container.add_stream(codec, rate=rate)
        except av.codec.codec.UnknownCodecError:
            pytest.skip(f"this build of ffmpeg cannot write {codec}")
        stream.codec_context.layout = "mono"
        if pictures is not None:
            _encode_pictures(container, pictures)
        convert = av.AudioResampler(stream.codec_context.format.name, "mono", rate)
        frame = av.AudioFrame.from_ndarray(samples[None, :], format="fltp", layout="mono")
        frame.rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        fifo = av.AudioFifo()
        for converted in [*convert.resample(frame), *convert.resample(None)]:
            fifo.write(converted)
        size = stream.codec_context.frame_size or 1024
        while (piece := fifo.read(size, partial=True)) is not None:
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    return path


def encode_video(path: Path) -> Path:
    """A video without a sound track."""
    import av

    with av.open(str(path), "w") as container:
        _encode_pictures(container, _add_video(container))
    return path


def _add_video(container: Any) -> Any:
    video = container.add_stream("mpeg4", rate=10)
    video.width = video.height = 64
    video.pix_fmt = "yuv420p"
    return video


def _encode_pictures(container: Any, video: Any) -> None:
    import av

    for at in range(10):
        picture = av.VideoFrame(64, 64, "yuv420p")
        picture.pts = at
        container.mux(video.encode(picture))
    container.mux(video.encode(None))


def frequency(samples: FloatArray) -> float:
    """The strongest frequency in Hz."""
    windowed = samples * np.hanning(len(samples))
    return float(np.argmax(np.abs(np.fft.rfft(windowed))) * SAMPLE_RATE / len(samples))


def loudness(samples: FloatArray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
