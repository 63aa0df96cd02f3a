"""Servers to be compared: how each is started on a port of loopback, and how one listens to it."""

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from paced_sessions import Listen, listen_to_livekit, listen_to_us

from whispertide.model.providers import usable_cpus

CONVERTING_S = 600.0


@dataclass(frozen=True)
class Contender:
    """A server: how it is started on a port, and how one listens to it."""

    name: str
    variant: str
    command: Callable[[int], list[str]]
    listen: Listen
    environment: Mapping[str, str] = field(default_factory=dict)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def started(contender: Contender) -> Iterator[int]:
    """The server's port, from the moment it takes connections."""
    port = free_port()
    command, environment = contender.command(port), {**os.environ, **contender.environment}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} ended with {process.returncode}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        else:
            raise RuntimeError(f"{command[0]} did not listen within two minutes")
        yield port
    finally:
        process.kill()  # nobody waits for its last words any more
        process.wait()


def ours(arguments: argparse.Namespace, journal: str, kind: str) -> Contender:
    """`whispertide serve` as it is measured, with that kind of journal at `journal`."""

    def command(port: int) -> list[str]:
        command = [sys.executable, "-m", "whispertide.cli.main", "serve", "--model", arguments.model]
        command += ["--port", str(port), "--precision", arguments.precision, "--threads", str(arguments.threads)]
        command += ["--workers", str(arguments.workers), "--max-sessions", "1000"]
        command += ["--recipe", arguments.recipe] if arguments.recipe else []
        command += [item for change in arguments.set for item in ("--set", change)]
        command += ["--journal", journal] if journal else []
        return [*command, "--log-level", "error", "--degrade" if arguments.degrade else "--no-degrade"]

    return Contender("whispertide", "" if kind == "none" else kind, command, listen_to_us)


def livekit(arguments: argparse.Namespace, policy: str, links: Path) -> Contender | str:
    """WhisperLiveKit's server on the same weights, with all cores; or why there is none. `links`: an empty folder."""
    from whispertide.checkpoint.hub import resolve
    from whispertide_lab.evaluation.peers.livekit import alignment_mask, named_for_its_language
    from whispertide_lab.evaluation.peers.registry import PEERS
    from whispertide_lab.evaluation.peers.running import _converted, _python, environments, why_not

    peer = PEERS[f"whisperlivekit-{policy}"]
    if reason := why_not(peer):
        return reason
    folder = Path(arguments.model) if Path(arguments.model).is_dir() else resolve(arguments.model)
    model = str(_converted(Path(folder), peer))
    if policy == "simulstreaming":
        _python(peer, ["convert_openai", str(folder), str(links)], {}, CONVERTING_S)
        weights = named_for_its_language(links / "model.pt", str(folder))
        where = ["--model-path", str(weights), "--encoder-model-path", model]
        where += ["--custom-alignment-heads", alignment_mask(arguments.model)]
    else:
        where = ["--model-path", model]

    def command(port: int) -> list[str]:
        command = [str(environments().absolute() / peer.environment / "bin" / "whisperlivekit-server"), *where]
        command += ["--lan", "en", "--pcm-input", "--backend", "faster-whisper", "--backend-policy", policy]
        return [*command, "--warmup-file", "", "--port", str(port)]

    environment = {"OMP_NUM_THREADS": str(len(usable_cpus())), "HF_HUB_OFFLINE": "1"}
    return Contender("whisperlivekit", policy, command, listen_to_livekit, environment)
