"""The interface of translators: a request for sentences in, one text out. Knows no session and no thread."""

from dataclasses import dataclass
from typing import Literal, Protocol

from whispertide.checkpoint.languages import language_code
from whispertide.errors import OptionError, WhispertideError

KEY_VARIABLE = "WHISPERTIDE_TRANSLATOR_KEY"  # the environment variable with the key of an endpoint

Failure = Literal["answer", "outage", "lasting"]


class TranslatorError(WhispertideError):
    """A translator gave no answer that can be used: to this text alone (`answer`), at the moment (`outage`), or to
    anything, now and later (`lasting`).
    """

    def __init__(self, message: str, failure: Failure) -> None:
        super().__init__(message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class TranslationOptions:
    """The wishes of one session: the language `to` translate into, by code, tag or English name; None: none. `correct`:
    correct the sentences in their own language, too.
    """

    to: str | None = None
    correct: bool = False

    def __post_init__(self) -> None:
        """Raises `UnknownLanguageError`, and `OptionError` where nothing is wished for."""
        if self.to is not None:
            object.__setattr__(self, "to", language_code(self.to))
        elif not self.correct:
            raise OptionError("expected a language to translate into, or corrections; got neither")

    @property
    def targets(self) -> tuple[str | None, ...]:
        """What is made of each sentence: None is a correction, else a language."""
        return (*((None,) if self.correct else ()), *((self.to,) if self.to is not None else ()))


@dataclass(frozen=True, slots=True)
class Request:
    """Sentences of one speech that follow each other, to be one text.

    source  the language of the sentences, or None where it is not known
    target  the language of the text; None: the sentences' own, corrected
    before  the sentences before them, for the context
    """

    sentences: tuple[str, ...]
    source: str | None
    target: str | None
    before: tuple[str, ...] = ()


class Translator(Protocol):
    """Translates. Any number of sessions may share one, each with one request at a time from a thread of its own."""

    @property
    def name(self) -> str:
        """The name for messages."""

    @property
    def host(self) -> str | None:
        """The other machine that gets the text; None: it stays here."""

    def check(self, target: str | None) -> None:
        """Raise `OptionError` for a target that it cannot do."""

    def translate(self, request: Request) -> str:
        """Translate, or correct. Blocks for a bounded time. Raises `TranslatorError`."""

    def close(self) -> None:
        """Give back what it holds, such as connections."""
