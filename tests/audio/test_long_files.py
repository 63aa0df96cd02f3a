"""Long files need no more memory than short ones."""

import tracemalloc
from pathlib import Path

import pytest

from sounds import wav_bytes
from whispertide.audio.file import decode_blocks
from whispertide.types import SAMPLE_RATE


def check_memory(path: Path, hours: float) -> None:
    next(decode_blocks(path))  # what is imported and loaded once does not count
    tracemalloc.start()
    try:
        total = sum(len(block) for block in decode_blocks(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == round(hours * 3600) * SAMPLE_RATE
    assert peak < 8e6


def long_wav(path: Path, hours: float, rate: int = 8_000) -> Path:
    size = round(hours * 3600) * rate
    with open(path, "wb") as file:
        file.write(wav_bytes(b"", rate, 1, 8, size=size))
        file.truncate(file.tell() + size)  # a hole: no disk space
    return path


@pytest.mark.slow
def test_a_long_file_needs_no_more_memory(tmp_path: Path) -> None:
    check_memory(long_wav(tmp_path / "a.wav", 0.1), 0.1)


@pytest.mark.slow
def test_twenty_minutes_need_no_more_memory(tmp_path: Path) -> None:
    import resource

    path = long_wav(tmp_path / "a.wav", 1 / 3)
    next(decode_blocks(path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # of the process, so ffmpeg's memory counts too; traced, as the short file is, it would take four times as long
    assert sum(len(block) for block in decode_blocks(path)) == 1200 * SAMPLE_RATE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB; all samples would be 77 MB
