"""What tests of the command line share: how it is run, and audio files to give it."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from typer.testing import Result

from wav_file import save_wav

Run = Callable[..., Result]
Loads = list[tuple[str, dict[str, object]]]
SIX = "word0 word1 word2 word3 word4 word5"
LINES = "word0 word1 word2 word3\nword4 word5\n"  # as segments
STREAMED = ("--pace", "max")
MODES = [(), STREAMED]


def write_wav(path: Path, duration_s: float, rate: int = 16_000) -> Path:
    """A quiet tone; the fake transcriber hears two words per second in anything."""
    return save_wav(path, 3000 / 32_767 * np.sin(np.arange(round(duration_s * rate)) * 0.1), rate)


def plain(text: str) -> str:
    """What a panel of help or of an error says, without its frame and colours, in one line."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", text).split())
