"""A finished transcript as a value, and the segmentation of a growing list of words.

Pure: this module knows nothing of models, sessions, file formats or where a text goes. Time is in samples.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self

from whispertide.events import Correction, Event, Translation
from whispertide.punctuation import (
    AFTER_WORDS,
    CHINESE_OR_JAPANESE,
    CLAUSE_ENDS,
    CLOSING,
    FULL_WIDTH_ENDS,
    SENTENCE_ENDS,
    belong_together,
    ends_sentence,
    is_initial,
)
from whispertide.types import SAMPLE_RATE, OfflineSegment, Timed, Word, goes_on

_JOINER = "\u200d"  # of emoji that are several characters: a family, a profession
_SKIN_TONES = "".join(map(chr, range(0x1F3FB, 0x1F400)))
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")  # letters, two of which are a flag
# Vowels of Thai and Lao that are written before their consonant, and signs of Burmese and Khmer that put the next
# consonant under the one before.
_JOINED_TO_NEXT = "เแโใไເແໂໃໄ\u1039\u17d2" + _JOINER
_JOINED_TO_LAST = "ฯะาำๅๆຯະາຳໆ" + _JOINER + _SKIN_TONES  # the first are letters in Unicode, but marks of Thai and Lao
PAUSE = SAMPLE_RATE  # a second without speech ends a line

_NO_SCORES: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TextSegment(Timed):
    """A piece of transcript: `text` as written (its own leading space included), times in samples.

    `words` may be empty where only the text is known (a transcript read from a subtitle file). `scores` are
    Whisper's figures for the segment, by name (`avg_logprob`, `no_speech_prob`, ...). Of a whole recording `tokens` are
    the segment's, timestamps among them, and `window` is where the window begins in which it was heard. `speaker` is
    the number of the voice of all its words; None: nobody asked, or nobody knows.
    """

    start: int
    end: int
    text: str
    words: tuple[Word, ...] = ()
    scores: Mapping[str, float] = field(default_factory=lambda: _NO_SCORES)
    tokens: tuple[int, ...] = ()
    window: int = 0
    speaker: int | None = None

    @classmethod
    def of(cls, segment: OfflineSegment) -> Self:
        """A decoded segment of a recording, with its scores."""
        scores = {
            "avg_logprob": segment.avg_logprob,
            "compression_ratio": segment.compression_ratio,
            "no_speech_prob": segment.no_speech_prob,
            "temperature": segment.temperature,
        }
        return cls(
            segment.span.start,
            segment.span.end,
            segment.text,
            segment.words,
            scores,
            segment.tokens,
            segment.window,
            segment.words[0].speaker if segment.words else None,
        )


@dataclass(frozen=True, slots=True)
class OtherText(Timed):
    """What was made of the sentences from sample `start` to `end`: their translation into `language`; None: their
    correction. `speaker` is the number of the voice, or of the channel, that said them; None: nobody asked, or nobody
    knows.
    """

    start: int
    end: int
    text: str
    language: str | None = None
    speaker: int | None = None


def other_text(event: Event) -> OtherText | None:
    """The text of an event, if it is a translation or a correction."""
    match event:
        case Translation(start=start, end=end, text=text, language=language, speaker=speaker):
            return OtherText(start, end, text, language, speaker)
        case Correction(start=start, end=end, text=text, speaker=speaker):
            return OtherText(start, end, text, speaker=speaker)
    return None


@dataclass(frozen=True, slots=True)
class Document:
    """A finished transcript with its origin.

    `duration` is in samples. `complete` is False when the run was interrupted or the audio ended too early, so that
    nothing takes the transcript for the whole. `metrics` are plain numbers and strings, for JSON. `others` are
    translations and corrections, where they were asked for.
    """

    segments: tuple[TextSegment, ...] = ()
    language: str | None = None
    duration: int = 0
    model: str = ""
    recipe: str = ""
    source: str = ""
    complete: bool = True
    metrics: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[OtherText, ...] = ()

    def other(self, language: str | None) -> Document:
        """The translations into a language (None: the corrections) as a transcript of its own."""
        found = tuple(
            TextSegment(other.start, other.end, " " + other.text, speaker=other.speaker)
            for other in self.others
            if other.language == language
        )
        return replace(self, segments=found, language=language or self.language, others=())

    def of_speaker(self, number: int) -> Document:
        """What one voice said, or one channel, as a transcript of its own."""
        segments = tuple(segment for segment in self.segments if segment.speaker == number)
        return replace(self, segments=segments, others=tuple(other for other in self.others if other.speaker == number))

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments).strip()

    @property
    def words(self) -> tuple[Word, ...]:
        return tuple(word for segment in self.segments for word in segment.words)


# --- words -> segments -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the length of a segment, which is cut between two words; `span` in samples."""

    chars: int
    span: int


SENTENCES = Limits(chars=400, span=30 * SAMPLE_RATE)


@dataclass(slots=True)
class Segmenter:
    """Cuts a growing list of words into segments: after a sentence, at a pause, at the end of a turn, at the limits.

    The result depends on the words and turns alone, not on how they were cut into calls.
    """

    limits: Limits = SENTENCES
    held: list[Word] = field(default_factory=list)

    def push(self, words: Iterable[Word]) -> list[TextSegment]:
        """Take more words; return the segments that they finished."""
        done: list[TextSegment] = []
        for word in words:
            if self.held and _starts_new(self.held, word):
                done += self._take(len(self.held))
            while self.held and self._too_long(word):
                done += self._take(_cut(self.held, word))
            self.held.append(word)
        return done

    def end_turn(self) -> list[TextSegment]:
        """End a turn, or the stream: all held words are a segment."""
        return self._take(len(self.held))

    def _too_long(self, word: Word) -> bool:
        chars = len("".join(held.text for held in self.held).strip()) + len(word.text)
        return chars > self.limits.chars or word.end - self.held[0].start > self.limits.span

    def _take(self, count: int) -> list[TextSegment]:
        words, self.held = tuple(self.held[:count]), self.held[count:]
        return [_segment(words)] if words else []


def _segment(words: tuple[Word, ...]) -> TextSegment:
    end, text = max(words[-1].end, words[0].start), "".join(word.text for word in words)
    return TextSegment(words[0].start, end, text, words, speaker=words[0].speaker)


def _starts_new(held: Sequence[Word], word: Word) -> bool:
    """True if `word` begins a new segment, as another voice's does. A word without a leading space after a sentence end
    ("3." "5") does not.

    Nobody knows where a word without length lies in the silence around it, so a pause is measured from the last word
    that has one, and what is held is not cut off where none has.
    """
    # Where a word may be a single character, a closing mark is a word of its own; in French, too.
    ending = next((bare for other in reversed(held) if (bare := other.text.rstrip(CLOSING + " "))), "")
    if is_inseparable(ending, word.text):
        return False
    if word.speaker != held[0].speaker and not goes_on(word.text):
        return True
    ended = ends_sentence(held[-1].text) or ends_sentence(ending)
    within_name = is_initial(held[-2].text if len(held) > 1 else "", held[-1].text, word.text)
    spaced_end = word.text[:1].isspace() and ended and not within_name
    spoken = next((other.end for other in reversed(held) if other.end > other.start), word.start)
    return ending.endswith(FULL_WIDTH_ENDS) or spaced_end or word.start - spoken >= PAUSE


def is_inseparable(before: str, after: str) -> bool:
    """True if two texts are never cut apart, although no space is needed between words of their script.

    A vowel or tone mark stays with its consonant, a Chinese or Japanese closing mark with what it closes, and the end
    of a sentence or clause, which streams may confirm after its word, with that; in French a space may part them. Emoji
    of several characters are one.
    """
    if not before or not after:
        return False
    follows = unicodedata.category(after[0]).startswith("M") or after[0] in _JOINED_TO_LAST
    closes = not after.strip(CLOSING) and CHINESE_OR_JAPANESE.match(before[::-1]) is not None
    ends = after.startswith((*SENTENCE_ENDS, *CLAUSE_ENDS)) and not after.strip(AFTER_WORDS)
    flag = _FLAG.match(before[-1]) and _FLAG.match(after)
    joined = before[-1] in _JOINED_TO_NEXT or belong_together(before, after)
    return bool(follows or closes or ends or flag or joined)


def _cut(words: list[Word], after: Word) -> int:
    """The number of words to keep of a line that got too long: up to the last clause in its second half, else all.

    Fewer where the cut would be inside a syllable; `after` is the word that comes next.
    """
    pairs = zip(words, [*words[1:], after], strict=True)
    counts = [
        count for count, (word, following) in enumerate(pairs, 1) if not is_inseparable(word.text, following.text)
    ]
    clauses = [count for count in counts if count > len(words) // 2 and words[count - 1].text.endswith(CLAUSE_ENDS)]
    return (clauses or counts or [len(words)])[-1]


def segment_words(words: Iterable[Word], limits: Limits = SENTENCES) -> tuple[TextSegment, ...]:
    """Cut all of `words` into segments."""
    segmenter = Segmenter(limits)
    return (*segmenter.push(words), *segmenter.end_turn())
