"""What WhisperLiveKit is told; the program itself is a stand-in."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide_lab.evaluation.peers import PEERS, livekit
from whispertide_lab.evaluation.peers.livekit import open_engine
from whispertide_lab.evaluation.peers.wire import Job, Setting


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What its engine was last opened with."""
    record: dict[str, Any] = {}

    def engine(**settings: object) -> SimpleNamespace:
        record.clear()
        record.update(settings)
        return SimpleNamespace(asr=SimpleNamespace(transcribe_kargs={}))

    core: Any = ModuleType("whisperlivekit.core")
    core.TranscriptionEngine = engine
    monkeypatch.setitem(sys.modules, "whisperlivekit", ModuleType("whisperlivekit"))
    monkeypatch.setitem(sys.modules, "whisperlivekit.core", core)
    monkeypatch.setattr("logging.disable", lambda level: None)
    monkeypatch.setattr(livekit, "convert", lambda model, folder: (folder / "model.pt").touch())
    return record


def job(peer: str, folder: Path, **changes: Setting) -> Job:
    settings = PEERS[peer].settings(changes)
    return Job(peer, str(BUNDLED_DIR / "nano.en"), "converted", (), (), settings, str(folder / "out"))


def test_fallback_is_on_as_the_program_comes_and_off_when_told(told: dict[str, Any], tmp_path: Path) -> None:
    for peer in ("whisper-streaming", "whisperlivekit-localagreement"):
        usual = open_engine(job(peer, tmp_path), "localagreement", gate=False)
        assert usual.asr.transcribe_kargs == {}
        sure = open_engine(job(peer, tmp_path, fallback=False), "localagreement", gate=False)
        assert sure.asr.transcribe_kargs == {"temperature": 0}


def test_the_step_and_the_gate_are_passed_on(told: dict[str, Any], tmp_path: Path) -> None:
    open_engine(job("whisper-streaming", tmp_path, step_s=0.5), "localagreement", gate=True)
    assert (told["asr_coalesce_min_s"], told["vac"], told["model_path"]) == (0.5, True, "converted")
    open_engine(job("simulstreaming", tmp_path, frame_threshold=12), "simulstreaming", gate=False)
    assert (told["frame_threshold"], told["beams"], told["vac"]) == (12, 1, False)
    assert told["encoder_model_path"] == "converted"
    assert told["model_path"].endswith("model.en.pt")  # it tells English-only models by their name


def test_the_whole_program_has_its_gate_unless_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from whispertide_lab.evaluation.peers import run_livekit_live

    gates = []

    def open_nothing(asked: Job, policy: str, *, gate: bool) -> None:
        gates.append(gate)
        raise LookupError

    monkeypatch.setattr(run_livekit_live, "open_engine", open_nothing)
    monkeypatch.setitem(sys.modules, "whisperlivekit", ModuleType("whisperlivekit"))
    core: Any = ModuleType("whisperlivekit.core")
    core.online_factory = None
    monkeypatch.setitem(sys.modules, "whisperlivekit.core", core)
    for changes in ({}, {"vad": False}):
        with pytest.raises(LookupError):
            run_livekit_live.load(job("whisperlivekit-simulstreaming", tmp_path, **changes))
    assert gates == [True, False]
