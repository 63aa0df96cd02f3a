"""The recordings that hostile clients send: the speech of the honest one, and hours of silence in few bytes."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from hostile.assault import FLAC, HOURS, SPEECH, WEBM
from whispertide.audio.wav import pcm
from whispertide.types import FloatArray

SILENCE_HOURS = 4.0  # where nobody says otherwise
_RATE = 48_000
_PACKET_S = 0.12  # the longest that Opus has


def make(folder: Path, samples: FloatArray, hours: float) -> None:
    """Write the files: 16-bit speech, and so many hours of silence as Opus in Ogg and in WebM and as FLAC."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SPEECH).write_bytes(pcm(samples))
    for name, kind in ((HOURS, "ogg"), (WEBM, "webm")):
        _opus(folder / name, kind, hours)
    _flac(folder / FLAC, hours)


def _opus(path: Path, container: str, hours: float) -> None:
    """One packet of silence over and over."""
    with av.open(path, "w", format=container) as out:
        stream = out.add_stream("libopus", rate=_RATE, layout="mono", options={"frame_duration": "120"})
        stream.time_base = Fraction(1, _RATE)
        length = round(_PACKET_S * _RATE)
        quiet = _silence(10 * length, _RATE)
        packets = [bytes(packet) for packet in (*stream.encode(quiet), *stream.encode(None))]
        for number in range(round(hours * 3600 / _PACKET_S)):
            packet = av.Packet(packets[min(number, len(packets) - 2)])
            packet.stream, packet.time_base = stream, stream.time_base
            packet.pts = packet.dts = number * length
            packet.duration = length
            out.mux(packet)


def _flac(path: Path, hours: float) -> None:
    rate = 8_000
    with av.open(path, "w", format="flac") as out:
        stream = out.add_stream("flac", rate=rate, layout="mono")
        for frame in _minutes(round(hours * 60), rate):
            for packet in stream.encode(frame):
                out.mux(packet)
        for packet in stream.encode(None):
            out.mux(packet)


def _minutes(count: int, rate: int) -> Iterator[av.AudioFrame]:
    for number in range(count):
        frame = _silence(60 * rate, rate)
        frame.pts = number * 60 * rate
        yield frame


def _silence(samples: int, rate: int) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(np.zeros((1, samples), np.int16), format="s16", layout="mono")
    frame.sample_rate, frame.pts = rate, 0
    return frame
