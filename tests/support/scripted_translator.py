"""Translators without a model: what they answer, when, and what fails is told to them."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from whispertide.errors import OptionError
from whispertide.translation.translator import Request, TranslatorError


@dataclass
class ScriptedTranslator:
    """Answers in capitals, as "FR: HELLO." or, corrected, "HELLO.". `problems` are raised first, one a request; with
    `gate` an answer waits until that is set.
    """

    problems: list[TranslatorError] = field(default_factory=list)
    gate: threading.Event | None = None
    knows: tuple[str | None, ...] = (None, "fr", "de", "en")
    requests: list[Request] = field(default_factory=list)
    began: threading.Event = field(default_factory=threading.Event)  # a request was made
    name: str = "scripted"
    host: str | None = None
    closed: bool = False

    def check(self, target: str | None) -> None:
        if target not in self.knows:
            raise OptionError(f"expected a language among {self.knows}; got {target}")

    def close(self) -> None:
        self.closed = True

    def translate(self, request: Request) -> str:
        self.requests.append(request)
        self.began.set()
        if self.gate is not None:
            assert self.gate.wait(30)
        if self.problems:
            raise self.problems.pop(0)
        return answer(" ".join(request.sentences), request.target)


def answer(text: str, target: str | None) -> str:
    return text.upper() if target is None else f"{target.upper()}: {text.upper()}"


def until(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    """Wait for something that another thread does."""
    pause = threading.Event()
    for _ in range(round(within_s / 0.005)):
        if condition():
            return
        pause.wait(0.005)
    raise AssertionError("it did not come about")
