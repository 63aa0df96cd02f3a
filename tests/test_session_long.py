"""A long talk needs no more memory than a short one."""

import pytest

from oracle import Oracle, audio_between, make_gate
from session_steps import RECIPE, said
from whispertide.session import Session
from whispertide.types import SAMPLE_RATE, Word

S = SAMPLE_RATE


def long_talk(minutes: int) -> list[Word]:
    """Talk with a pause of up to three seconds after every few words, and half a minute of silence now and then."""
    words: list[Word] = []
    at = S
    while at < minutes * 60 * S:
        number = len(words)
        words.append(Word(f" w{number}", at, at + 4_800 + 800 * (number % 5)))
        at = words[-1].end + (0 if number % 7 else (number % 4) * S) + (30 * S if number % 400 == 399 else 0)
    return words


def run_long(minutes: int, *, gated: bool) -> None:
    words = long_talk(minutes)
    recipe = RECIPE.replace(step_s=2.0)
    session = Session(recipe, Oracle(words, seed=1), make_gate(words) if gated else None)
    worst = 0
    while session.received < words[-1].end + S:
        session.push(audio_between(session.received, session.received + S))
        worst = max(worst, session.buffered)
    session.finish()
    assert said(session.transcript.words) == said(words)
    assert worst <= (recipe.policy.hard_cap_s + recipe.schedule.step_s) * S
    state = session.snapshot()
    assert len(state.turns.gate_events) + len(state.turns.in_flight) + len(state.outbox) == 0


@pytest.mark.slow
@pytest.mark.parametrize("gated", [False, True])
def test_twenty_minutes_stay_within_bounds(gated: bool) -> None:
    run_long(20, gated=gated)


@pytest.mark.soak
def test_an_hour_stays_within_bounds() -> None:
    run_long(60, gated=True)
