"""Translations of live sessions: what clients may ask for, and the translation of one session among its entries.

A session says what it has to say as ever. Translations come among later entries, and only the `End` waits for them, for
a bounded time. Knows no sockets.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from whispertide.checkpoint.languages import language_choice, language_code
from whispertide.errors import OptionError
from whispertide.events import End, Error, Event
from whispertide.options import DecodeOptions
from whispertide.server.outbox import Entry
from whispertide.server.protocols.base import Settings
from whispertide.translation.translating import Translating, TranslationState
from whispertide.translation.translator import Request, TranslationOptions, Translator, TranslatorError

log = logging.getLogger("whispertide.server")

PATIENCE_S = 20.0  # that a session's end waits for its last translations


@dataclass(frozen=True, slots=True)
class Translations:
    """The operator's choice: who translates, into which languages (codes) clients may have it, and whether they may
    have corrections. Raises `OptionError` for what the translator cannot do.
    """

    translator: Translator | None = None
    languages: tuple[str, ...] = ()
    corrects: bool = False

    def __post_init__(self) -> None:
        if self.translator is not None:
            for target in (*self.languages, *((None,) if self.corrects else ())):
                self.translator.check(target)

    def check(self, settings: Settings) -> None:
        """Raise `OptionError` for a translation that clients cannot have here."""
        if settings.translate_to is not None and language_code(settings.translate_to) not in self.languages:
            known = f"a language among {', '.join(self.languages)}" if self.languages else "no translation"
            way = "" if self.languages else ": leave out translate_to, or start the server with --translate-to"
            raise OptionError(f"expected {known} on this server; got {settings.translate_to!r}{way}")
        if settings.correct and not self.corrects:
            raise OptionError(
                "expected no corrections on this server: leave out correct, or start the server with --correct"
            )

    def of(
        self, settings: Settings, options: DecodeOptions, languages: Sequence[str], wake: Callable[[], None]
    ) -> "LiveTranslation | None":
        """Make the translation that a session's settings ask for; `languages` are those of its model. Of a session that
        an earlier server had, it may be one that nobody here can make: its client is told.
        """
        if settings.translate_to is None and not settings.correct:
            return None
        translator = self.translator or _Gone()
        wanted = TranslationOptions(settings.translate_to, settings.correct)
        made = LiveTranslation(Translating(translator, wanted, private=self.translator is not None, wake=wake))
        made.set_language(options, languages)
        return made

    def close(self) -> None:
        """Give back what the translator holds."""
        if self.translator is not None:
            self.translator.close()


@dataclass(slots=True)
class LiveTranslation:
    """The translation of one session, which goes on without it should it break. `end` is the session's last event,
    while it waits.
    """

    stream: Translating
    end: End | None = None
    _broken: bool = False
    _patience: threading.Timer | None = field(default=None, repr=False)

    @property
    def has_news(self) -> bool:
        """True if there is something for the client."""
        return self.stream.has_news or (self.end is not None and self.stream.is_done)

    def add(self, entries: Sequence[Entry]) -> list[Entry]:
        """Take the entries of a step; returns them with the translations that are there. An `End` stays here until
        there are no more to come.
        """
        if self._broken:
            return list(entries)
        before = self.end
        try:
            return self._add(entries)
        except Exception:  # a defect here must not cost the session anything
            log.exception("a session's translation failed; it continues without it")
            return [_failure(entries), *entries, *self._give_back(before)]

    def _give_back(self, end: End | None) -> list[End]:
        """Stop, and return the `End` that waited here."""
        self._broken, self.end = True, None
        self.close()
        return [] if end is None else [end]

    def _add(self, entries: Sequence[Entry]) -> list[Entry]:
        told: list[Entry] = []
        for entry in entries:
            if isinstance(entry, Event):
                self.stream.take(entry)
            if isinstance(entry, End):
                self._wait_with(entry)
            else:
                told.append(entry)
            if isinstance(entry, Error) and entry.fatal:
                self.close()
                return told
        told += self.stream.ready()
        if self.end is not None and self.stream.is_done:
            told.append(self.end)
            self.end = None
            self.close()
        return told

    def set_language(self, options: DecodeOptions, languages: Sequence[str]) -> None:
        """Set what is known of the text's language before anything is heard; `languages` are those of the model."""
        translated = options.task == "translate"
        language = languages[0] if len(languages) == 1 else language_choice(options.language)
        self.stream.set_language("en" if translated else language, fixed=translated)

    def snapshot(self) -> TranslationState:
        """Copy the state, for the journal."""
        return self.stream.snapshot(self.end)

    def restore(self, state: TranslationState) -> None:
        """Go on from the state of an earlier server."""
        self.stream.restore(state)
        if state.end is not None:
            self._wait_with(state.end)

    def close(self) -> None:
        """Give up what is not there yet."""
        if self._patience is not None:
            self._patience.cancel()
        self.stream.close()

    def _wait_with(self, end: End) -> None:
        self.end = end
        self.stream.finish()
        if not self.stream.is_done:
            self._patience = threading.Timer(PATIENCE_S, self.stream.give_up)
            self._patience.daemon = True
            self._patience.start()


def _failure(entries: Sequence[Entry]) -> Error:
    at = next((entry.at for entry in entries if isinstance(entry, Event)), 0)
    return Error(0, at, "translations fail, captions continue: the server made a mistake", fatal=False)


class _Gone:
    """In place of a translator that this server does not have."""

    name, host = "this server", None

    def check(self, target: str | None) -> None:
        """Nothing is refused: whoever asks is told."""

    def translate(self, request: Request) -> str:
        raise TranslatorError("expected a translator; this server no longer has one", "lasting")

    def close(self) -> None:
        """There is nothing."""
