"""What a user is told about a text that is likely to be wrong as a whole: of another language than was taken for it.

`UNLIKELY` is Whisper's own bound for a window that is heard again. Of 27 recordings in English, some of them noisy or
by learners, none was below it with tiny.en; of seven in other languages four were (docs/LOG.md).
"""

from collections.abc import Sequence

from whispertide.checkpoint.languages import LANGUAGES
from whispertide.formats.document import TextSegment

WEAK = 0.5  # probability of a language that is no more than a guess
UNLIKELY = -1.0  # mean log-probability of a token


def of_language(code: str, probability: float) -> str | None:
    """For a language that was detected; None: it is certain enough."""
    if probability >= WEAK:
        return None
    name = LANGUAGES.get(code, code).capitalize()
    return f"hint: the language is a weak guess ({name}, {probability:.0%}); --language says which it is"


def of_english(segments: Sequence[TextSegment], model: str) -> str | None:
    """For what a model that knows English alone wrote of a recording; None: it looks like English."""
    lengths = [len(segment.text) for segment in segments if "avg_logprob" in segment.scores]
    scores = [segment.scores["avg_logprob"] for segment in segments if "avg_logprob" in segment.scores]
    if not sum(lengths):
        return None
    mean = sum(length * score for length, score in zip(lengths, scores, strict=True)) / sum(lengths)
    if mean >= UNLIKELY:
        return None
    return (
        f"hint: {model} is hardly sure of any word of this text, and knows English only; for other languages take a "
        "multilingual model, such as --model base"
    )
