"""What streaming and offline runs share: the note on the bundled model, the language, putting a transcript in place."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whispertide.cli.arguments import BUNDLED_MODEL, DEFAULT_MODEL
from whispertide.cli.bundled import is_bundled_recording
from whispertide.cli.exit import ExitCode, code_for, say
from whispertide.cli.live import clock_text
from whispertide.cli.output import Target, Writer
from whispertide.cli.pump import Heard
from whispertide.formats.document import Document
from whispertide.formats.files import get_format, json_line
from whispertide.options import DecodeOptions
from whispertide.types import seconds

if TYPE_CHECKING:
    from whispertide.api import Transcriber


def warn_of_synthetic(transcriber: "Transcriber", inputs: Sequence[str] = ()) -> None:
    """The bundled model says what it is wherever it hears anything but the bundled recording."""
    if transcriber.is_bundled and not (inputs and all(map(is_bundled_recording, inputs))):
        say(
            f"note: {BUNDLED_MODEL} was trained on synthetic speech; it is for demos and tests. "
            f"For real speech use --model {DEFAULT_MODEL}."
        )


def language_of(transcriber: "Transcriber", options: DecodeOptions, heard: str | None) -> str | None:
    """The language of the speech: asked for, heard, or the only one there is."""
    return options.language or heard or (None if transcriber.dims.is_multilingual else "en")


@contextmanager
def opened(target: Target) -> Iterator[Writer]:
    """A writer that leaves nothing behind unless it was finished."""
    writer = Writer(target)
    try:
        yield writer
    finally:
        writer.discard()


def save(writer: Writer, target: Target, document: Document, *, whole: bool, as_it_came: Sequence[str]) -> str:
    """Put the transcript in its place; returns where that is. Formats that were written `as_it_came` are there
    already.
    """
    if target.format == "json" and target.shared:
        writer.write(json_line(document))
    elif target.format not in as_it_came:
        writer.write(get_format(target.format).render(document))
    place = writer.finish(whole=whole)
    return "standard output" if place is None else str(place)


def conclude(heard: Heard, place: str, *, done: int, duration_s: float | None) -> ExitCode:
    """Tell how an incomplete run ended, after `done` samples, and its exit code."""
    if heard.interrupted:
        of = f" of {clock_text(duration_s)}" if duration_s else ""
        say(f"interrupted after {clock_text(seconds(done))}{of}; what was confirmed went to {place}")
        return ExitCode.INTERRUPTED
    if heard.broken is not None:
        say(f"warning: {heard.broken}")
        say(f"the transcript of the part that could be read is in {place}")
        return code_for(heard.broken)
    return ExitCode.OK
