"""Running a peer in its own process and environment: conversion, job, trace. Knows no peer by name."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import whispertide
import whispertide_lab
from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.errors import WhispertideError
from whispertide_lab.evaluation.peers.registry import Peer, get_peer
from whispertide_lab.evaluation.peers.wire import Job, Setting, parse_trace
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.speech.utterance import Utterance

PACKAGE = "whispertide_lab.evaluation.peers"
REQUIREMENTS = Path(__file__).parent / "requirements"
_LOADING_S = 600.0
_SLOWEST = 20.0  # seconds of computing per second of audio after which a peer counts as hung


class PeerUnavailable(WhispertideError, RuntimeError):  # noqa: N818 - it is an answer more than an error
    """A peer cannot run here; the message is the reason that a report prints."""


def environments() -> Path:
    """Where the peers' environments are: $WHISPERTIDE_PEERS, or .venv-peers in the working directory."""
    return Path(os.environ.get("WHISPERTIDE_PEERS", ".venv-peers"))


def why_not(peer: Peer) -> str:
    """Why a peer cannot run here; empty if it can."""
    if peer.reason:
        return peer.reason
    if not (environments() / peer.environment / ".ready").is_file():
        return f"it is not installed in {environments() / peer.environment}: run `make peers`"
    return ""


def versions(peer: Peer) -> str:
    """A digest of the packages that a peer runs with."""
    return hashlib.sha256((REQUIREMENTS / f"{peer.environment}.txt").read_bytes()).hexdigest()[:12]


def run_peer_over(
    name: str, model_folder: Path, utterances: Sequence[Utterance], settings: Mapping[str, Setting] | None = None
) -> list[Trace]:
    """Run a peer over utterances, one after the other, loading its model once; a trace for each.

    `model_folder` is a checkpoint in Hugging Face layout; the peer's own format is made from it once and cached.
    Raises `OptionError` for an unknown peer or setting, `PeerUnavailable` with the reason where it cannot run, and what
    `load_checkpoint` raises.
    """
    peer = get_peer(name)
    reason = why_not(peer)
    if reason:
        raise PeerUnavailable(f"{name} cannot run: {reason}")
    chosen = peer.settings(settings or {})
    converted = str(_converted(model_folder, peer))
    with tempfile.TemporaryDirectory(prefix="whispertide-peer-") as name:
        folder = Path(name)
        audio = tuple(str(folder / f"{number}.npy") for number in range(len(utterances)))
        for path, utterance in zip(audio, utterances, strict=True):
            np.save(path, np.ascontiguousarray(utterance.audio(), np.float32))
        ids = tuple(utterance.id for utterance in utterances)
        output = folder / "traces.jsonl"
        job = Job(peer.name, str(model_folder.resolve()), converted, ids, audio, chosen, str(output))
        job.write(folder / "job.json")
        patience = _LOADING_S + _SLOWEST * sum(utterance.seconds for utterance in utterances)
        _python(peer, [peer.program, str(folder / "job.json")], chosen, patience)
        return [parse_trace(line) for line in output.read_text(encoding="utf-8").splitlines()]


def _python(peer: Peer, arguments: list[str], settings: Mapping[str, Setting], timeout: float) -> None:
    """Run a module of this package with the peer's own interpreter and packages.

    Raises `PeerUnavailable` with the last thing it said when it fails or hangs.
    """
    interpreter = environments().absolute() / peer.environment / "bin" / "python"
    with tempfile.TemporaryDirectory(prefix="whispertide-path-") as path:
        # Only this package may come along, not whatever is installed next to it.
        for package in (whispertide, whispertide_lab):
            (Path(path) / package.__name__).symlink_to(Path(str(package.__file__)).parent, target_is_directory=True)
        module, *rest = arguments
        command = [str(interpreter), "-m", f"{PACKAGE}.{module}", *rest]
        try:
            done = subprocess.run(
                command,
                env=_environment(path, settings),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PeerUnavailable(f"{peer.name} did not end within {timeout:.0f} s") from error
        except OSError as error:
            raise PeerUnavailable(f"{peer.name} cannot be started: {error}; run `make peers` again") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise PeerUnavailable(f"{peer.name} failed: {said[-1]}")


def _environment(path: str, settings: Mapping[str, Setting]) -> dict[str, str]:
    """No network, as many threads as were asked for, and nothing of our own Python."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
    variables = {name: value for name, value in os.environ.items() if name not in dropped}
    threads = str(settings.get("threads", 1))
    variables |= {
        "PYTHONPATH": path,
        "PYTHONNOUSERSITE": "1",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }
    if settings.get("isa"):
        variables["CT2_FORCE_CPU_ISA"] = str(settings["isa"])
    return variables


# --- caches -----------------------------------------------------------------------------------------------------------


def _converted(model: Path, peer: Peer) -> Path:
    """The checkpoint in a peer's own format; made if it is not there yet."""
    if not peer.conversion:
        return model
    kind, checkpoint = peer.conversion, load_checkpoint(model)
    converter = Path(__file__).with_name(f"convert_{kind}.py").read_bytes()
    made_of = repr(checkpoint.generation).encode() + versions(peer).encode() + converter
    digest = hashlib.sha256(made_of).hexdigest()
    folder = cache_dir() / "peers" / f"{checkpoint.content_hash[:24]}-{digest[:8]}-{kind}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{kind}-", dir=folder.parent) as partial:
        made = Path(partial) / "model"
        if kind == "ggml":
            from whispertide_lab.evaluation.peers.convert_ggml import convert

            convert(str(model), made)
        else:
            _python(peer, [f"convert_{kind}", str(model.resolve()), str(made)], {}, _LOADING_S)
        try:
            made.rename(folder)
        except OSError:  # another process was quicker
            if not folder.is_dir():
                raise
    return folder
