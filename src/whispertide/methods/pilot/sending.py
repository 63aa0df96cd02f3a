"""Commands that this machine is not sure of are heard by a server too: its words tell the intent (pilot inference,
section 5).

Whether one is sent goes by how certain it is that it was understood here (`Understood.certainty`). If no usable answer
comes in time, what was understood here stands, so nothing is lost. Any server that transcribes will do, since it need
not know intents. A question may be asked in a pause that is perhaps the end, and is withdrawn if somebody speaks on.
"""

import logging
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any

from whispertide.errors import OptionError
from whispertide.methods.pilot.circuit_breaker import CircuitBreaker
from whispertide.methods.pilot.remote import Remote, RemoteError, words_of
from whispertide.types import FloatArray, Span

log = logging.getLogger("whispertide.sending")

_GATE_S = 1.0  # from a pause to the end of speech that it may be, at most


@dataclass(frozen=True, slots=True)
class Question:
    """An answer that may come, about the audio of `window`."""

    window: Span
    answer: "Future[Mapping[str, Any]]"


@dataclass(slots=True)
class Sending:
    """When a server is asked, and which.

    below     where it is less certain than that, 0 to 1. 0: never
    within_s  so long after the end of speech an answer is waited for
    counts    how many utterances were "sent", and for how many of them there was no usable answer ("failed"); how many
              questions were "withdrawn"
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
                "expected a certainty from 0 to 1 and seconds above 0 for sending; "
                f"got {self.below} and {self.within_s}"
            )

    def ask(self, audio: FloatArray, window: Span, certainty: float | None) -> Question | None:
        """Send the audio of `window`, 16 kHz [n], if it is uncertain enough. Returns at once.

        None: it stays here, as where nobody knows how certain it is.
        """
        if certainty is None or certainty >= self.below or not self.breaker.asks():
            return None
        return Question(window, self.remote.send(audio, self.within_s + _GATE_S))

    def text(self, question: Question, since: float) -> str | None:
        """The server's text; None where it has no usable answer `within_s` after `since` (`time.perf_counter`)."""
        self.counts["sent"] += 1
        try:
            left_s = since + self.within_s - time.perf_counter()
            words = words_of(question.answer.result(max(left_s, 0.0)), question.window)
            if not words:
                raise RemoteError("the server found no words where there were some")
        except (RemoteError, TimeoutError, CancelledError) as error:
            log.warning("a command is understood here: %s", str(error) or type(error).__name__)
            question.answer.cancel()
            self.counts["failed"] += 1
            self.breaker.failed()
            return None
        self.breaker.answered()
        return " ".join(word.text.strip() for word in words)

    def withdraw(self, question: Question) -> None:
        """Nobody wants the answer any more."""
        question.answer.cancel()
        self.counts["withdrawn"] += 1
        self.breaker.withdrawn()
