"""Commands that this machine is not sure of are heard by a server too: its words tell the intent (pilot inference,
section 5).

Whether one is sent goes by how likely the intent is that was understood here. If no usable answer comes in time, what
was understood here stands, so nothing is lost. Any server that transcribes will do, since it need not know intents.
"""

import logging
from collections import Counter
from concurrent.futures import CancelledError
from dataclasses import dataclass, field

from whispertide.errors import OptionError
from whispertide.streaming.circuit_breaker import CircuitBreaker
from whispertide.streaming.remote import Remote, RemoteError, words_of
from whispertide.types import FloatArray, Span

log = logging.getLogger("whispertide.sending")


@dataclass(slots=True)
class Sending:
    """When a server is asked, and which.

    below     where the intent is less likely than that, 0 to 1. 0: never
    within_s  so long an answer is waited for
    counts    how many utterances were "sent", and for how many of them there was no usable answer ("failed")
    breaker   leaves a server that fails again and again alone
    """

    remote: Remote
    below: float = 0.7
    within_s: float = 2.0
    counts: Counter[str] = field(default_factory=Counter)
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)

    def __post_init__(self) -> None:
        if not (0 <= self.below <= 1 and self.within_s > 0):  # not for nan
            raise OptionError(
                f"expected a chance from 0 to 1 and seconds above 0 for sending; got {self.below} and {self.within_s}"
            )

    def wants(self, chance: float | None) -> bool:
        """Whether an utterance is to be sent whose intent is so likely; where nobody knows, it stays here."""
        return chance is not None and chance < self.below and self.breaker.asks()

    def text(self, audio: FloatArray, window: Span) -> str | None:
        """What the server hears in the audio of `window`, 16 kHz [n]; None where it has no usable answer in time."""
        self.counts["sent"] += 1
        answer = self.remote.send(audio, self.within_s)
        try:
            # The deadline is the remote's; a second more, in case its thread is late.
            words = words_of(answer.result(self.within_s + 1), window)
            if not words:
                raise RemoteError("the server heard nothing where there were words")
        except (RemoteError, TimeoutError, CancelledError) as error:
            log.warning("a command is understood here: %s", str(error) or type(error).__name__)
            answer.cancel()
            self.counts["failed"] += 1
            self.breaker.failed()
            return None
        self.breaker.answered()
        return " ".join(word.text.strip() for word in words)
