"""What every journal writes of a session."""

from dataclasses import make_dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from oracle import Oracle, audio_between, make_gate, speech
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.journal_values import load_state
from whispertide.server.protocols.base import Settings
from whispertide.server.session_journal import SessionInfo, load_session, snapshot_of
from whispertide.session import Session
from whispertide.streaming import schedule
from whispertide.types import SAMPLE_RATE

WORDS = speech(("one", 0.3, 0.7), ("two", 0.9, 4.9))


def test_a_state_is_written_without_its_audio() -> None:
    """It is written after every round, and its audio is among the commands."""
    recipe = get_recipe("whisper-streaming")
    session = Session(recipe, Oracle(WORDS), make_gate(WORDS))
    live: Any = SimpleNamespace(session=session, asked_recipe=recipe, asked_options=DecodeOptions(), translation=None)
    session.push(audio_between(0, 5 * SAMPLE_RATE))
    found = snapshot_of(live)
    data, needed = found
    state, kept, *_ = load_state(data)
    assert needed + kept == 5 * SAMPLE_RATE
    assert kept > 4 * SAMPLE_RATE
    assert (state.buffer.start, len(state.buffer)) == (needed, 0)
    assert len(data) < 10_000
    assert session.snapshot().buffer.end == 5 * SAMPLE_RATE  # the session has it still


def test_a_state_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are kept by their place in the class: a setting that has gone since then would shift all after it."""
    then: Any = make_dataclass("BestEffort", [("gone", float, 7.0), ("step_s", float, 0.5)], frozen=True, slots=True)
    then.__module__ = schedule.__name__
    session = Session(get_recipe("whisper-streaming"), Oracle(WORDS))
    live: Any = SimpleNamespace(session=session, asked_recipe=then(), asked_options=DecodeOptions(), translation=None)
    with monkeypatch.context() as patch:
        patch.setattr(schedule, "BestEffort", then)
        found = snapshot_of(live)
    with pytest.raises(ValueError, match="this version of the program"):
        load_session("one", SessionInfo("", "model", "native", Settings()), [], (0, 1, found[0]), [])
