"""Miniature corpora on disk."""

from pathlib import Path

import av
import numpy as np

from whispertide.types import SAMPLE_RATE
from whispertide_lab.speech.voices import Int16Array


def sound(count: int) -> Int16Array:
    """A tone, 16-bit [count]."""
    tone: Int16Array = np.rint(8192 * np.sin(np.arange(count) * 0.1)).astype(np.int16)
    return tone


def write_flac(path: Path, samples: Int16Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", format="flac") as container:
        stream = container.add_stream("flac", rate=SAMPLE_RATE)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)


def write_sphere(path: Path, samples: Int16Array) -> None:
    """NIST sphere as TIMIT and TED-LIUM have it: a text header of 1,024 bytes, then 16-bit samples."""
    fields = (
        f"sample_count -i {len(samples)}",
        f"sample_rate -i {SAMPLE_RATE}",
        "channel_count -i 1",
        "sample_n_bytes -i 2",
        "sample_byte_format -s2 01",
        "sample_sig_bits -i 16",
        "sample_coding -s3 pcm",
        "end_head",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    header = ("NIST_1A\n   1024\n" + "\n".join(fields) + "\n").encode()
    path.write_bytes(header.ljust(1024) + samples.astype("<i2").tobytes())


def write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def librispeech(root: Path) -> Path:
    chapter = root / "LibriSpeech" / "test-clean" / "61" / "70968"
    write_text(chapter / "61-70968.trans.txt", "61-70968-0000 HE BEGAN A CONFUSED COMPLAINT\n61-70968-0001 YES\n")
    for k, count in enumerate((16000, 8000)):
        write_flac(chapter / f"61-70968-000{k}.flac", sound(count))
    return root / "LibriSpeech"
