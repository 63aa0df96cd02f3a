"""What every policy's state must do: a session takes a copy before it may have to go back."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from whispertide.audio.vad import SpeechStarted
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.agreement.whole_window import WholeWindow
from whispertide.methods.attention.align_att import AlignAtt
from whispertide.methods.attention.grounded import Grounded
from whispertide.methods.attention.tide import Tide
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.turn_state import EndRequest, PlannedRound, TurnState, Utterance
from whispertide.types import Span

MARK = object()


def mutable(state: Any) -> list[Any]:
    """All lists and sets of a dataclass, and those of the dataclasses in it."""
    values = [getattr(state, field.name) for field in fields(state)]
    inner = [value for value in values if hasattr(value, "copy") and hasattr(value, "__dataclass_fields__")]
    own = [value for value in values if isinstance(value, list | set)]
    return own + [value for one in inner for value in mutable(one)]


@pytest.mark.parametrize("start", [AlignAtt().start, Tide().start, Grounded().start, LocalAgreement().start])
def test_a_copy_shares_nothing_that_can_change(start: Callable[[int], Any]) -> None:
    plan = RoundPlan(0, Span(0, 320), WholeWindow())
    kept = TurnState(
        gate_events=[SpeechStarted(0, 1)],
        utterance=Utterance(0, 0, policy=start(0), keep_from=0, last_end=0),
        in_flight=[PlannedRound(plan, 0, 0, recorded=True)],
        stale={7},
        requests=[EndRequest("flush", 0)],
        boundaries=[320],
        loads=[0],
    )
    copied = kept.copy()
    assert copied == kept
    lists = mutable(kept)
    assert len(lists) >= 6
    for values in lists:
        values.add(MARK) if isinstance(values, set) else values.append(MARK)
    kept.utterance.start = 7  # type: ignore[union-attr]
    assert copied.utterance is not None
    assert copied.utterance.start == 0
    assert not any(MARK in values for values in mutable(copied))
