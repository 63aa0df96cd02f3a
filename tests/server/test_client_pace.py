"""What messages cost, and how many may come, by a clock by hand."""

import numpy as np
import pytest

from whispertide.server.client_pace import ClientPace, messages_in
from whispertide.server.protocols import base

SECOND = base.Audio(np.zeros(16_000, np.float32))
FLUSH = base.Flush()
SAVED = 2_000  # pieces, four seconds of them


@pytest.mark.parametrize(
    ("message", "pieces"), [(bytes(2), 1), (bytes(2**20), 129), ("x" * 2**20, 513)], ids=["small", "large", "text"]
)
def test_a_message_costs_by_its_size(message: str | bytes, pieces: int) -> None:
    pace = ClientPace(10)
    for _ in range(SAVED):
        pace.charge_message(message, 7.0)
    assert pace.debt_s(7.0) == SAVED * (pieces - 1) / 500
    assert pace.debt_s(7.0 + SAVED * (pieces - 1) / 500) == 0


def test_what_a_message_holds_costs_too() -> None:
    pace = ClientPace(10)
    pace.charge_actions([SECOND] * 200, 7.0)  # each as much as ten pieces, and all but one a piece of its own
    assert pace.debt_s(7.0) == 199 / 500
    pace.charge_actions([], 7.0)
    assert pace.debt_s(7.0) == 199 / 500


def test_four_seconds_of_messages_may_come_at_once() -> None:
    pace = ClientPace(10)
    assert [pace.count(20, 7.0) for _ in range(3)] == [True, True, False]
    assert pace.count(0, 9.0)


def test_what_is_no_audio_counts() -> None:
    assert messages_in(bytes(2), [SECOND], 0) == messages_in("audio", [SECOND], 0) == 0
    assert messages_in(bytes(2), [], 0) == 0
    assert messages_in("nothing", [], 0) == 1
    assert messages_in(bytes(2), [FLUSH, SECOND, FLUSH], 3) == 5
