"""Where a measured server keeps its sessions: nowhere, in files, or in a NATS of its own; what a write there takes."""

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from nats_server import Nats, nats_server

JOURNALS = ("none", "files", "nats")


@contextlib.contextmanager
def journal_at(kind: str) -> Iterator[str]:
    """What `whispertide serve --journal` takes; "": there is none. Its folder is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="journal-") as place:
        if kind == "nats":
            with nats_server(Path(place) / "nats") as nats:
                yield nats.address
        else:
            yield str(Path(place) / "journal") if kind == "files" else ""


async def append_ms(nats: Nats, size: int, count: int) -> tuple[float, float]:
    """What one write of `size` bytes after another takes, p50 and p95, in ms."""
    from whispertide.server.nats_stream import SessionStream

    stream = SessionStream(nats.address, "append")
    await stream.connect()
    last, took = 0, []
    for _ in range(count):
        began = time.perf_counter()
        last = await stream.append("append", bytes(size), last)
        took.append(1000 * (time.perf_counter() - began))
    await stream.forget("append")
    await stream.close()
    p50, p95 = np.percentile(took, [50, 95])
    return float(p50), float(p95)
