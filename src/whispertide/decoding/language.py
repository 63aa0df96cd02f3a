"""Language detection in a window: Whisper's own guess, one token after start-of-transcript.

Among a list of languages the others do not count, so a short or accented window is certain of one much sooner. Within a
stream the language changes between turns alone, and only for one that is certain and was heard for long enough.
Source: `detect_language` in openai/whisper, decoding.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from whispertide.decoding.rules import log_softmax
from whispertide.errors import UnknownLanguageError
from whispertide.model.engine import DecodeRequest, Encoded, required
from whispertide.model.whisper import WhisperModel
from whispertide.types import SAMPLE_RATE

# With real base the wrong languages of speech's first two seconds have up to 0.8; from three on they are rare
# (lab/log).
CERTAIN = 0.9
LIKELY = 0.5  # less probable languages are not changed to
# Sentences within a window that is in no certain language. With base those in another one have 0.89 and more, the
# likeliest wrong one of heavy accents 0.68 (lab/log).
APART = 0.8
ENOUGH = 3 * SAMPLE_RATE  # of audio: a longer window would hardly be in another one
# A cough, a name or a "yes" changes no language, however certain it sounds: so much of another one has to be heard.
# With less, turns flip; with more, an answer of two seconds stays in the wrong language (lab/log).
TURNING = 3 * SAMPLE_RATE // 2


@dataclass(frozen=True, slots=True)
class DetectedLanguage:
    """A language code, and its probability among those that may be spoken; 1 where nobody listened for it. `shares` are
    those of all of them.
    """

    language: str
    probability: float
    shares: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)


def detect_language(model: WhisperModel, encoded: Encoded, among: Sequence[str] = ()) -> DetectedLanguage:
    """The likeliest language of a window, `among` these; empty: among all. Raises `UnknownLanguageError` for
    English-only checkpoints.
    """
    tokenizer = model.tokenizer
    if not tokenizer.is_multilingual:
        raise UnknownLanguageError(
            f"expected a multilingual checkpoint to detect a language; {model.name} supports only English: "
            "load one whose name has no '.en'"
        )
    request = DecodeRequest(tokens=np.array([[tokenizer.sot]], dtype=np.int64), logits_at=(0,), need="logits")
    logits = required(model.decoder(encoded).run(request).logits, "logits")[0, 0]
    codes = [code for code in tokenizer.language_tokens if not among or code in among]
    # Among the languages alone: other tokens that might come here say nothing about which one is spoken.
    shares = np.exp(log_softmax(logits[[tokenizer.language_tokens[code] for code in codes]]))
    likeliest = int(shares.argmax())
    return DetectedLanguage(codes[likeliest], float(shares[likeliest]), dict(zip(codes, shares.tolist(), strict=True)))


def choose_language(
    model: WhisperModel, encode: Callable[[], Encoded], wanted: str | None, among: Sequence[str] = ()
) -> DetectedLanguage:
    """The language to decode in: what is `wanted`, English for English-only models, else what is heard in `encode()`,
    `among` these if there are any.

    Raises `UnknownLanguageError` for a wanted language that the checkpoint cannot write.
    """
    if wanted is not None:
        return DetectedLanguage(model.tokenizer.language(wanted), 1.0)
    if not model.tokenizer.is_multilingual:
        return DetectedLanguage("en", 1.0)
    return detect_language(model, encode(), among)
