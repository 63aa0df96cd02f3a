"""The options of a translator, and the translator that they become. Parsing only: nothing heavy is imported here."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whispertide.cli.exit import say
from whispertide.errors import OptionError

if TYPE_CHECKING:
    from whispertide.cli.translations import ChosenTranslator
    from whispertide.translation.translator import Translator


@dataclass(frozen=True, slots=True)
class TranslationChoice:
    """The options of the command line."""

    translate_to: str | None = None
    translator: str | None = None
    translator_model: str = ""
    correct: bool = False

    @contextmanager
    def opened(self) -> "Iterator[ChosenTranslator | None]":
        """Open the translator; None: none is asked for. Raises `OptionError`, so enter it before a model is loaded."""
        if not self.is_asked:
            yield None
            return
        from whispertide.cli.translations import ChosenTranslator
        from whispertide.translation.translator import TranslationOptions

        options = TranslationOptions(self.translate_to, self.correct)
        translator = self.translator_for(options.targets)
        try:
            yield ChosenTranslator(translator, options)
        finally:
            translator.close()

    @property
    def is_asked(self) -> bool:
        """True if anything is to be translated or corrected. Raises `OptionError` for a translator without a task."""
        asked = self.translate_to is not None or self.correct
        if not asked and (self.translator is not None or self.translator_model):
            raise OptionError("expected --translate-to LANGUAGE or --correct next to --translator; got neither")
        return asked

    def translator_for(self, targets: "Sequence[str | None]") -> "Translator":
        """Open the translator, which can do all `targets`. Raises `OptionError`."""
        if self.translator is None:
            raise OptionError(
                "expected --translator next to --translate-to and --correct: the address of an OpenAI-compatible "
                "server, such as http://localhost:11434/v1 with --translator-model NAME, or a folder of CTranslate2"
            )
        from whispertide.translation.opening import open_translator

        translator = open_translator(self.translator, self.translator_model)
        for target in targets:
            translator.check(target)
        if translator.host is not None:
            say(f"note: confirmed text is sent to {translator.host} to be translated; audio is not")
        return translator
