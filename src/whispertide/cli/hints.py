"""Hints about a transcript that is likely to be wrong as a whole: the audio is in another language.

`UNLIKELY` is Whisper's own bound for decoding a window again. Of 27 recordings in English, some of them noisy or
by learners, none was below it with tiny.en; of seven in other languages four were. In a stream, where unlikely words
are left out, other languages leave hardly any: 0.2 to 0.5 sure words a second of voice, English 0.8 to 3 (lab/log).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from whispertide.checkpoint.languages import LANGUAGES
from whispertide.cli.exit import say
from whispertide.cli.pump import Watcher
from whispertide.events import Confirmed, Event, SpeechStart, SpeechStop
from whispertide.formats.document import TextSegment
from whispertide.types import SAMPLE_RATE

WEAK = 0.5  # probability of a language that is no more than a guess
UNLIKELY = -1.0  # mean log-probability of a token
ENOUGH = 6 * SAMPLE_RATE  # of voice, to judge a stream by
FEW = 0.6  # sure words a second of voice: the sum of their probabilities
UNSURE = 0.5  # mean probability of words


def language_hint(code: str, probability: float) -> str | None:
    """Hint at a detected language; None: it is certain enough."""
    if probability >= WEAK:
        return None
    name = LANGUAGES.get(code, code).capitalize()
    return f"hint: the detected language is uncertain ({name}, {probability:.0%}); set it with --language"


def english_hint(segments: Sequence[TextSegment], model: str) -> str | None:
    """Hint at a transcript by an English model that is unlikely to be English; None: it looks like English."""
    lengths = [len(segment.text) for segment in segments if "avg_logprob" in segment.scores]
    scores = [segment.scores["avg_logprob"] for segment in segments if "avg_logprob" in segment.scores]
    if not sum(lengths):
        return None
    mean = sum(length * score for length, score in zip(lengths, scores, strict=True)) / sum(lengths)
    if mean >= UNLIKELY:
        return None
    return _no_english(f"{model} is uncertain of nearly every word of this text")


@dataclass(slots=True)
class EnglishOnly(Watcher):
    """Gives the same hint for a stream, once, as soon as enough of it is transcribed."""

    model: str
    _voice: int = 0  # samples of closed utterances
    _start: int | None = None  # of the open one
    _words: int = 0
    _sure: float = 0.0
    _warned: bool = False

    def event(self, event: Event) -> None:
        """Count voice and words."""
        match event:
            case SpeechStart(start=start):
                self._start = start
            case SpeechStop(end=end) if self._start is not None:
                self._voice, self._start = self._voice + end - self._start, None
            case Confirmed(words=words):
                self._words += len(words)
                self._sure += sum(word.probability for word in words)
        voice = self._voice + (0 if self._start is None else event.at - self._start)
        if self._warned or voice < ENOUGH:
            return
        if self._sure < FEW * voice / SAMPLE_RATE or self._sure < UNSURE * self._words:
            self._warned = True
            say(_no_english(f"{self.model} finds hardly any words in this speech"))


def _no_english(what: str) -> str:
    return (
        f"hint: {what}, and supports only English; for other languages use a multilingual model, such as --model base"
    )
