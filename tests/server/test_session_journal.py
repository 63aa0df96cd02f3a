"""What every journal writes of a session."""

import io
from types import SimpleNamespace
from typing import Any

from oracle import Oracle, audio_between, make_gate, speech
from whispertide.options import DecodeOptions
from whispertide.server.journal_values import StateLoader
from whispertide.server.session_journal import snapshot_of
from whispertide.session import Session
from whispertide.streaming.recipes import get_recipe
from whispertide.types import SAMPLE_RATE

WORDS = speech(("one", 0.3, 0.7), ("two", 0.9, 4.9))


def test_a_state_is_written_without_its_audio() -> None:
    """It is written after every round, and its audio is among the commands."""
    recipe = get_recipe("whisper-streaming")
    session = Session(recipe, Oracle(WORDS), make_gate(WORDS))
    live: Any = SimpleNamespace(session=session, asked_recipe=recipe, asked_options=DecodeOptions())
    session.push(audio_between(0, 5 * SAMPLE_RATE))
    found = snapshot_of(live)
    assert found is not None
    data, needed = found
    state, kept, *_ = StateLoader(io.BytesIO(data)).load()
    assert needed + kept == 5 * SAMPLE_RATE
    assert kept > 4 * SAMPLE_RATE
    assert (state.buffer.start, len(state.buffer)) == (needed, 0)
    assert len(data) < 10_000
    assert session.snapshot().buffer.end == 5 * SAMPLE_RATE  # the session has it still
