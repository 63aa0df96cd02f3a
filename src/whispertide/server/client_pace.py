"""How fast a client may send: what it sends faster than usual is read more slowly, and too many messages are refused.

Pure: the time comes with every call, in seconds of one clock.
"""

from collections.abc import Sequence

from whispertide.server.bucket import Bucket
from whispertide.server.protocols import base
from whispertide.types import SAMPLE_RATE

_BURST_S = 4.0  # messages of that many seconds may come at once
_PACE = 500  # pieces a second, on average over four seconds: then a client is read more slowly
_WORTH = 8192  # bytes that cost as much as a piece, or 2,048 of text; a tenth of a second of audio does, too


class ClientPace:
    """What one client has sent, and what of it is not paid for yet. `rate`: messages a second that it may send."""

    def __init__(self, rate: float) -> None:
        self._messages = Bucket(rate, _BURST_S * rate)
        self._pieces = Bucket(_PACE, _BURST_S * _PACE)

    def charge_message(self, message: str | bytes, now: float) -> None:
        """Charge for a message that came, by its size."""
        worth = _WORTH if isinstance(message, bytes) else _WORTH // 4
        self._pieces.take(1 + len(message) // worth, now)

    def charge_actions(self, actions: Sequence[base.Action], now: float) -> None:
        """Charge for what a message held: over TCP a piece can hold many, and Opus can hold much."""
        samples = sum(len(action.samples) for action in actions if isinstance(action, base.Audio))
        self._pieces.take(max(0, len(actions) - 1) + 10 * samples // SAMPLE_RATE, now)

    def count(self, messages: int, now: float) -> bool:
        """Count messages against the rate. Returns whether the client keeps to it."""
        return self._messages.take(messages, now)

    def debt_s(self, now: float) -> float:
        """Seconds to wait before the next message is read."""
        return self._pieces.debt_s(now)


def messages_in(message: str | bytes, actions: Sequence[base.Action], fruitless: int) -> int:
    """The number of messages that one counts as: all that is no audio, also the `fruitless` ones in it, which were none
    at all. Over TCP one piece can hold many.
    """
    others = sum(not isinstance(action, base.Audio) for action in actions) + fruitless
    # A text that does nothing costs as well; one that is audio, as OpenAI's clients send it, is no message.
    return max(isinstance(message, str) and not actions, others)
