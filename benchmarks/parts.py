"""How long small parts take that users wait for: `python benchmarks/parts.py` prints a table, then one JSON line.

help_s      `whispertide --help`, a fresh process
load_ms     opening the bundled checkpoint (headers and configuration, no weights)
dtw_ms      the alignment of 100 tokens with 1,500 frames
vad_us      the voice gate per block of 32 ms
"""

import json
import subprocess
import sys

import numpy as np
from engine import timed

from whispertide.audio.vad import SpeechGate
from whispertide.checkpoint import load_checkpoint
from whispertide.decoding.alignment import warp


def main() -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    cost = rng.normal(size=(100, 1500)).astype(np.float32)
    gate, block = SpeechGate(), (0.1 * rng.normal(size=512)).astype(np.float32)
    command = [sys.executable, "-m", "whispertide.cli.main", "--help"]
    figures = {
        "help_s": round(timed(lambda: subprocess.run(command, capture_output=True, check=True), 5), 3),
        "load_ms": round(1e3 * timed(lambda: load_checkpoint("nano.en"), 5), 1),
        "dtw_ms": round(1e3 * timed(lambda: warp(cost), 10), 1),
        "vad_us": round(1e6 * timed(lambda: gate.feed(block), 200), 1),
    }
    for name, value in figures.items():
        print(f"{name:10}{value:10}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
