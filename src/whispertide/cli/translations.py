"""Translations on the command line: where they are written, and how they are waited for.

The transcript stays as it is. Formats without a place for a translation get a file of their own next to it,
`talk.fr.srt` next to `talk.srt`; JSON has both in one, and on standard output a translation is a line of its own.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from whispertide.api import Transcriber
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.output import Target, check_file
from whispertide.errors import OptionError
from whispertide.events import Event
from whispertide.formats.document import OtherText
from whispertide.formats.files import HOLD_OTHERS, named, other_name, other_path
from whispertide.options import DecodeOptions
from whispertide.translation.channels import ChannelTranslating
from whispertide.translation.translating import Translating
from whispertide.translation.translator import TranslationOptions, Translator

_POLL_S = 0.1
PATIENCE_S = 20.0  # after the end of what was spoken live


@dataclass(frozen=True, slots=True)
class ChosenTranslator:
    """A translator, and what is wanted of it."""

    translator: Translator
    options: TranslationOptions

    def begin(self, transcriber: Transcriber, options: DecodeOptions, *, live: bool, apart: bool) -> Translating:
        """Begin the translation of one recording or stream, with files `apart` or without. Where nothing is `live` a
        sentence goes out alone, however long that takes: so subtitles have its times.
        """
        is_english = options.task == "translate"  # what Whisper writes then, whatever is spoken
        language = "en" if is_english else transcriber.language_of(options, None)
        return Translating(
            self.translator, self.options, language=language, fixed=is_english, whole=not live, apart=apart
        )

    def targets(self, targets: Sequence[Target]) -> "list[tuple[Target, str | None]]":
        """The files of translations, with their languages (None: corrections), next to those of the transcript.

        Raises `OptionError` for a format that goes to standard output and has no place for them, and `OutputError` for
        a file that could not be written.
        """
        found: list[tuple[Target, str | None]] = []
        for target in targets:
            if target.format in HOLD_OTHERS or (target.path is None and target.format == "txt"):
                continue
            if target.path is None:
                raise OptionError(
                    f"expected --output for a translation as {target.format}, which becomes a file of its own; got none"
                )
            for language in self.options.targets:
                path = other_path(target.path, other_name(language))
                check_file(path)
                found.append((Target(path, target.format), language))
        return found

    def check(self, planned: Iterable[Sequence[Target]]) -> None:
        """Check the files of the translations of several inputs, before there is any text.

        Raises what `targets` raises, and `OptionError` for a translation that would lie where another input's
        transcript does.
        """
        planned = list(planned)
        # Some file systems do not tell A from a.
        taken = {str(target.path).casefold() for each in planned for target in each}
        for each in planned:
            for target, _ in self.targets(each):
                if str(target.path).casefold() in taken:
                    raise OptionError(
                        f"a translation and the transcript of another input would both become {target.path}: "
                        "transcribe them into two folders"
                    )


def line_of(other: OtherText) -> str:
    """A translation as a line among those of the transcript."""
    return f"[{other_name(other.language)}] {named(other.text, other.speaker)}"


def make_room(
    translating: Translating | ChannelTranslating, interrupts: Interrupts, tell: Callable[[Event], None]
) -> None:
    """Wait while so much waits to be translated that a recording need not be read on; what is there is told."""
    while not translating.has_room and not interrupts.pressed:
        translating.wait(_POLL_S)
        for event in translating.ready():
            tell(event)


def finish_translations(
    translating: Translating | ChannelTranslating,
    interrupts: Interrupts,
    tell: Callable[[Event], None],
    *,
    live: bool,
) -> None:
    """Wait for the last translations, and tell them. Another Ctrl-C ends the wait, and where it was spoken `live` a
    while does; the transcript is whole in any case.
    """
    translating.finish()
    before, until = interrupts.pressed, time.monotonic() + PATIENCE_S
    try:
        while not translating.is_done:
            translating.wait(_POLL_S)
            for event in translating.ready():
                tell(event)
            if interrupts.pressed != before or (live and time.monotonic() > until):
                translating.give_up()
    except KeyboardInterrupt:
        translating.give_up()
    for event in translating.ready():
        tell(event)
