"""Opus in the containers that clients send."""

import io
from fractions import Fraction

import av
import numpy as np

TONE = (np.sin(2 * np.pi * 440 * np.arange(48_000) / 48_000) * 12_000).astype(np.int16)


def opus_file(container: str = "ogg", **options: str) -> tuple[list[bytes], bytes]:
    """The tone as Opus: its packets, and a file of them. WebM with live="1" is as a browser records it: no sizes."""
    file = io.BytesIO()
    with av.open(file, "w", format=container, options=options) as out:
        stream = out.add_stream("libopus", rate=48_000, layout="mono")
        stream.time_base = Fraction(1, 48_000)
        packets = []
        frame = av.AudioFrame.from_ndarray(TONE[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = 48_000, 0
        for packet in (*stream.encode(frame), *stream.encode(None)):
            packets.append(bytes(packet))
            out.mux(packet)
    return packets, file.getvalue()
