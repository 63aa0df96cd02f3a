"""Where a measured server keeps its sessions: nowhere, in files, or in a NATS of its own."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from nats_server import nats_server

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
