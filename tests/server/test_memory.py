"""What a server asks of glibc. In a process of its own: it holds for all of it, and what was freed before counts."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from whispertide.server.memory import LARGE

PROGRAM = """
import asyncio, ctypes
from served import served

names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
malloc = ctypes.CDLL(None)
malloc.mallinfo.restype = type("Info", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_int) for name in names]})

async def run():
    async with served():
        bytes(10_000_000)  # freed at once
        before = malloc.mallinfo().hblks
        kept = [bytes(200_000) for _ in range(100)]
        print(malloc.mallinfo().hblks - before)

asyncio.run(run())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has this limit")
def test_large_pieces_never_lie_in_the_heap() -> None:
    """With glibc's own setting they do, once a larger piece was freed."""
    assert LARGE < 200_000
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert int(done.stdout) > 50, "but for those that fit into gaps that are there"
