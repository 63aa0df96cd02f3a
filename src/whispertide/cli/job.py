"""What streaming and offline runs share: from audio to a transcript in its place, after an interrupt or error too."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from whispertide.cli.arguments import BUNDLED_MODEL, DEFAULT_MODEL
from whispertide.cli.bundled import is_bundled_recording
from whispertide.cli.exit import ExitCode, code_for, say
from whispertide.cli.live import clock_text
from whispertide.cli.output import Target, Writer
from whispertide.cli.pump import Heard
from whispertide.formats.document import Document
from whispertide.formats.files import get_format, json_line
from whispertide.options import DecodeOptions
from whispertide.types import FloatArray, seconds

if TYPE_CHECKING:
    from whispertide.api import Transcriber


def warn_of_synthetic(transcriber: "Transcriber", inputs: Sequence[str] = ()) -> None:
    """The bundled model says what it is wherever it hears anything but the bundled recording."""
    if transcriber.is_bundled and not (inputs and all(map(is_bundled_recording, inputs))):
        say(
            f"note: {BUNDLED_MODEL} was trained on synthetic speech; it is for demos and tests. "
            f"For real speech use --model {DEFAULT_MODEL}."
        )


@dataclass(slots=True)
class Job(ABC):
    """One run. `source` names the audio in messages and in JSON; `duration_s` is its length where that is known.

    place  of several inputs, before the name on the bar: "2/12 "
    heard  what there is so far
    done   samples that were worked off
    """

    transcriber: "Transcriber"
    options: DecodeOptions
    target: Target
    source: str
    duration_s: float | None = None
    place: str = ""
    heard: Heard = field(default_factory=Heard, init=False)
    done: int = field(default=0, init=False)
    as_it_comes: ClassVar[Sequence[str]]  # formats that are written while the run goes on

    def run(self, blocks: Iterable[FloatArray]) -> tuple[Document, ExitCode]:
        """Transcribe `blocks`; afterwards the transcript is in its place, or on standard output.

        Raises `AudioError` where there was no audio, `OutputError`, and whatever the engine raises; what was confirmed
        before that is kept as a partial transcript.
        """
        writer = Writer(self.target)
        try:
            try:
                self.hear(blocks, writer)
            except Exception:
                self.heard.interrupted = True
                if self.heard.segments:
                    self._save(writer, self.document())
                raise
            document = self.document()
            place = self._save(writer, document)
        finally:
            writer.discard()
        return document, self._conclude(place)

    @abstractmethod
    def hear(self, blocks: Iterable[FloatArray], writer: Writer) -> None:
        """Transcribe `blocks` into `heard`; what is written as it comes goes to `writer`."""

    @abstractmethod
    def document(self) -> Document:
        """What there is now."""

    @property
    def language(self) -> str | None:
        """The language of the speech: asked for, heard, or the only one there is."""
        only = None if self.transcriber.dims.is_multilingual else "en"
        return self.options.language or self.heard.language or only

    def _save(self, writer: Writer, document: Document) -> str:
        """Put the transcript in its place; returns where that is."""
        form = self.target.format
        if form == "json" and self.target.shared:
            writer.write(json_line(document))
        elif form not in self.as_it_comes:
            writer.write(get_format(form)(document))
        place = writer.finish(whole=not self.heard.interrupted)
        return "standard output" if place is None else str(place)

    def _conclude(self, place: str) -> ExitCode:
        """Tell how an incomplete run ended; its exit code."""
        if self.heard.interrupted:
            of = f" of {clock_text(self.duration_s)}" if self.duration_s else ""
            say(f"interrupted after {clock_text(seconds(self.done))}{of}; what was confirmed went to {place}")
            return ExitCode.INTERRUPTED
        if self.heard.broken is not None:
            say(f"warning: {self.heard.broken}")
            say(f"the transcript of the part that could be read is in {place}")
            return code_for(self.heard.broken)
        return ExitCode.OK
