"""The translation of a whole recording: its segments in, all that was made of them out.

    translation = RecordingTranslation(translator, options, language="en")
    translation.take(segment)            for every segment, in order
    others, problems = translation.finish(samples)

With `channels` each of them is translated by itself, as its sentences go on while others speak.

A sentence goes out alone, however long that takes, so each translation has the time of its sentence. Whoever reads the
recording is held back where too much waits. Where no thread may wait, `add` and `end` return at once, and `has_room`
and `is_done` say when to go on.
"""

from dataclasses import dataclass, field

from whispertide.events import Confirmed, End, Error, Event, Language, failure_of
from whispertide.formats.document import OtherText, other_text
from whispertide.options import Task
from whispertide.translation.channels import ChannelTranslating
from whispertide.translation.translating import Translating
from whispertide.translation.translator import TranslationOptions, Translator
from whispertide.types import OfflineSegment, Word

_POLL_S = 0.1


def take_segment(translating: Translating | ChannelTranslating, segment: OfflineSegment) -> None:
    """Hand over the words of a segment: sentences go on from one to the next. Where channels are apart their speaker is
    their channel.
    """
    end, channel = segment.span.end, segment.words[0].speaker if isinstance(translating, ChannelTranslating) else None
    if segment.language:
        translating.take(Language(0, end, segment.language, segment.language_probability, channel=channel))
    words = segment.words or (Word(segment.text, segment.span.start, end),)
    translating.take(Confirmed(0, end, words, channel=channel))


@dataclass(slots=True)
class RecordingTranslation:
    """The translation of one recording. `language` is what is known of that of the speech from the start; with the
    `task` of translating into English the text is English. `private` is as for `Translating`. Segments are of one of so
    many `channels` at most, whose number their words have as speaker; 0: channels are mixed. `close` may come from
    another thread, and ends every wait.
    """

    translator: Translator
    options: TranslationOptions
    language: str | None = None
    task: Task = "transcribe"
    private: bool = False
    channels: int = 0
    _stream: Translating | ChannelTranslating = field(init=False)
    _others: list[OtherText] = field(default_factory=list, init=False)
    _problems: list[str] = field(default_factory=list, init=False)
    _closed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Raises `OptionError` for a target that the translator cannot do."""
        several = [self._begin() for _ in range(self.channels)]
        self._stream = ChannelTranslating(several) if several else self._begin()

    def _begin(self) -> Translating:
        is_english = self.task == "translate"
        language = "en" if is_english else self.language
        return Translating(
            self.translator,
            self.options,
            language=language,
            fixed=is_english,
            whole=True,
            apart=True,
            private=self.private,
        )

    def take(self, segment: OfflineSegment) -> None:
        """Take the next segment; waits while too much is to be translated."""
        self.add(segment)
        while not self.has_room:
            self._stream.wait(_POLL_S)

    def finish(self, end: int) -> tuple[tuple[OtherText, ...], tuple[str, ...]]:
        """The recording ends at a sample. Waits for the last translations; returns all, and what went wrong."""
        self.end(end)
        while not self.is_done:
            self._stream.wait(_POLL_S)
        return self.made

    def add(self, segment: OfflineSegment) -> None:
        """Take the next segment."""
        take_segment(self._stream, segment)

    def end(self, end: int) -> None:
        """The recording ends at a sample."""
        self._stream.take(End(0, end, end))
        self._stream.finish()

    @property
    def has_room(self) -> bool:
        """False while so much is to be translated that the recording need not be read on."""
        self._collect()
        return self._closed or self._stream.has_room

    @property
    def is_done(self) -> bool:
        """True if nothing more comes of what was taken."""
        self._collect()
        return self._closed or self._stream.is_done

    @property
    def made(self) -> tuple[tuple[OtherText, ...], tuple[str, ...]]:
        """All translations so far in the order of their times, and what went wrong."""
        ordered = sorted(self._others, key=lambda other: (other.start, other.speaker or 0))
        return tuple(ordered), tuple(self._problems)

    def close(self) -> None:
        """Give up what is not there yet."""
        self._closed = True
        self._stream.close()

    def _collect(self) -> None:
        for event in self._stream.ready():
            self._keep(event)

    def _keep(self, event: Event) -> None:
        if isinstance(event, Error):
            self._problems.append(failure_of(event))
        elif other := other_text(event):
            self._others.append(other)
