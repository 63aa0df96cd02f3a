"""Starting a peer: with a make-believe environment whose whisper.cpp is a stub, everything else being real."""

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from each_row import each_row
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.errors import OptionError
from whispertide_lab.evaluation.peers import (
    PEERS,
    PeerUnavailable,
    get_peer,
    registry,
    run_offline,
    run_peer_over,
    running,
    why_not,
)
from whispertide_lab.evaluation.peers.wire import Job, Setting, dump_trace, parse_trace
from whispertide_lab.evaluation.trace import RoundCost, Shown, Trace
from whispertide_lab.speech.utterance import Utterance

NANO = BUNDLED_DIR / "nano.en"


def run_one(name: str, model: Path, utterance: Utterance, settings: Mapping[str, Setting] | None = None) -> Trace:
    return run_peer_over(name, model, [utterance], settings)[0]


STUB = """
import os
from pathlib import Path
from types import SimpleNamespace

class Model:
    def __init__(self, path, **options):
        assert Path(path).stat().st_size > 1_000_000
        self.options = options

    def transcribe(self, samples):
        with open({log!r}, "a") as log:
            log.write(f"{{len(samples)}}\\n")
        said = [len(samples), self.options["n_threads"], os.environ["OMP_NUM_THREADS"], os.environ["HF_HUB_OFFLINE"]]
        return [SimpleNamespace(text=f" {{word}} ") for word in said]
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment for whisper.cpp; the file gets a line for each call of the stub."""
    monkeypatch.setenv("WHISPERTIDE_PEERS", str(tmp_path / "peers"))
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    log = tmp_path / "log"
    write_stub(tmp_path, STUB.format(log=str(log)))
    return log


def write_stub(folder: Path, content: str) -> None:
    package = folder / "stubs" / "pywhispercpp"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / "model.py").write_text(content)
    environment = folder / "peers" / "whispercpp"
    (environment / "bin").mkdir(parents=True, exist_ok=True)
    (environment / ".ready").touch()
    python = environment / "bin" / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{package.parent}" exec {sys.executable} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)


def utterance(samples: int, name: str = "one") -> Utterance:
    return Utterance(name, (), samples / 16000, lambda: np.zeros(samples, np.float32))


@pytest.mark.slow
def test_a_peer_in_its_own_process(log: Path) -> None:
    trace = run_one("whisper.cpp", NANO, utterance(8000), {"threads": 3})
    assert trace.words == ("8000", "3", "3", "1")
    assert (trace.utterance, trace.recogniser, trace.clock, trace.audio_s) == ("one", "whisper.cpp", "simulated", 0.5)
    assert trace.shown[-1].at_s >= 0.5
    assert trace.peak_mb > 10
    assert trace.settings["threads"] == "3"
    assert [line for line in log.read_text().split() if line == "8000"] == ["8000"]


@pytest.mark.slow
def test_a_peers_memory_is_its_own_and_not_that_of_who_starts_it(log: Path) -> None:
    ballast = np.ones(40_000_000)  # 320 MB
    trace = run_one("whisper.cpp", NANO, utterance(1600))
    assert 10 < trace.peak_mb < 250
    assert ballast.nbytes / 2**20 > 300


@pytest.mark.slow
def test_one_process_for_many(log: Path) -> None:
    traces = run_peer_over("whisper.cpp", NANO, [utterance(1600, "a"), utterance(3200, "b")])
    assert [(trace.utterance, trace.words[0]) for trace in traces] == [("a", "1600"), ("b", "3200")]
    assert len(log.read_text().split()) == 3  # one of them to warm up


@pytest.mark.slow
def test_a_failing_peer_says_why(log: Path, tmp_path: Path) -> None:
    write_stub(tmp_path, "raise RuntimeError('no such instruction')")
    with pytest.raises(PeerUnavailable, match=r"whisper\.cpp failed: RuntimeError: no such instruction"):
        run_one("whisper.cpp", NANO, utterance(1600))


def test_every_offline_program_can_be_run() -> None:
    assert {peer.name for peer in PEERS.values() if peer.program == "run_offline"} == set(run_offline.PROGRAMS)


def test_who_is_here(log: Path) -> None:
    assert [peer.name for peer in PEERS.values() if not why_not(peer)] == ["whisper.cpp"]
    assert "make peers" in why_not(PEERS["faster-whisper"])
    with pytest.raises(PeerUnavailable, match="no model"):
        run_one("vosk", NANO, utterance(1600))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(OptionError, match="expected one of the peers faster-whisper"):
        get_peer("kaldi")
    with pytest.raises(OptionError, match="has no setting step_s; it has beams"):
        PEERS["whisper.cpp"].settings({"step_s": 1.0})


def test_settings_may_come_as_text() -> None:
    chosen = PEERS["faster-whisper"].settings({"beams": "1", "fallback": "false", "compute_type": "int8"})
    assert (chosen["beams"], chosen["fallback"], chosen["compute_type"]) == (1, False, "int8")
    assert PEERS["whisper-streaming"].settings({"step_s": "0.5"})["step_s"] == 0.5
    with pytest.raises(OptionError, match="expected fallback to be like True; got 'maybe'"):
        PEERS["faster-whisper"].settings({"fallback": "maybe"})


@each_row("peer", PEERS.values())
def test_the_table_is_whole(peer: registry.Peer) -> None:
    if peer.reason:
        assert not peer.program
        return
    assert (running.REQUIREMENTS / f"{peer.environment}.txt").is_file()
    assert (running.REQUIREMENTS.parent / f"{peer.program}.py").is_file()
    pins = [line for line in (running.REQUIREMENTS / f"{peer.environment}.txt").read_text().splitlines() if line]
    assert all("==" in line or line.startswith("#") for line in pins)
    assert not set(peer.fixed) & set(peer.defaults)


def test_jobs_and_traces_survive_the_wire(tmp_path: Path) -> None:
    job = Job("x", "/m", "/c", ("a", "b"), ("0.npy", "1.npy"), {"threads": 2, "clock": "free"}, "/o")
    job.write(tmp_path / "job.json")
    assert Job.read(tmp_path / "job.json") == job
    trace = Trace(
        "a",
        "x",
        "live",
        2.0,
        (Shown(1.0, ("é",), ("b",)),),
        (RoundCost(1.0, 0.5, 1.0),),
        1.0,
        2.0,
        3.0,
        settings={"t": "1"},
    )
    assert parse_trace(dump_trace(trace)) == trace


@pytest.mark.slow
@pytest.mark.skipif("CI_PEERS" not in os.environ, reason="needs `make peers`; set CI_PEERS=1 where it was run")
@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if not peer.reason])
def test_every_peer_hears_something(name: str) -> None:
    from whispertide.audio.file import load_audio

    samples = load_audio(BUNDLED_DIR / "audio" / "demo.flac")[: 8 * 16000]
    trace = run_one(name, NANO, Utterance("demo", (), len(samples) / 16000, lambda: samples))
    assert len(trace.words) >= 5
