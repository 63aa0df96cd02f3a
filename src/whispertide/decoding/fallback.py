"""When a decode is tried again at a higher temperature, and when a window counts as silence.

Source: `decode_with_fallback` and the no-speech check of openai/whisper, transcribe.py. Knows nothing of how a decode
works.
"""

import zlib
from collections.abc import Callable
from typing import Protocol, TypeVar

from whispertide.options import DecodeOptions


class Quality(Protocol):
    """The measures that a decode gives of itself."""

    @property
    def compression_ratio(self) -> float:
        """Of its text, see `compression_ratio`."""

    @property
    def avg_logprob(self) -> float:
        """Mean log-probability of its tokens, end of text included."""

    @property
    def no_speech_prob(self) -> float:
        """Probability of the no-speech token; nan if unknown."""


Attempt = TypeVar("Attempt", bound=Quality)


def compression_ratio(text: str) -> float:
    """Bytes of `text` per byte of its zlib compression: above 2.4 it repeats itself (0 for no text)."""
    data = text.encode("utf-8")
    return len(data) / len(zlib.compress(data))


def _is_repetitive(quality: Quality, options: DecodeOptions) -> bool:
    """True if the text compresses too well to be speech."""
    limit = options.compression_ratio_threshold
    return limit is not None and quality.compression_ratio > limit


def _is_unlikely(quality: Quality, options: DecodeOptions) -> bool:
    """True if the model itself does not believe in the text."""
    limit = options.logprob_threshold
    return limit is not None and quality.avg_logprob < limit


def _sounds_silent(quality: Quality, options: DecodeOptions) -> bool:
    """True if the model found no speech. Unknown (nan) means that it did not report a chance of it."""
    limit = options.no_speech_threshold
    return limit is not None and quality.no_speech_prob > limit


def needs_fallback(quality: Quality, options: DecodeOptions) -> bool:
    """True if it is to be tried again: repetitive or unlikely text, unless it is unlikely because nobody speaks."""
    # Where nobody speaks every text is unlikely, and a higher temperature would only invent another.
    if _is_unlikely(quality, options):
        return not _sounds_silent(quality, options)
    return _is_repetitive(quality, options)


def is_silence(quality: Quality, options: DecodeOptions) -> bool:
    """True if nothing is to be written: no speech found, and no text that the model believes in all the same."""
    limit = options.logprob_threshold
    believed = limit is not None and quality.avg_logprob > limit
    return _sounds_silent(quality, options) and not believed


def decode_with_fallback(attempt: Callable[[float], Attempt], options: DecodeOptions) -> Attempt:
    """Call `attempt(temperature)` for one temperature after the other until the result will do; the last one stands."""
    result = attempt(options.temperatures[0])
    for temperature in options.temperatures[1:]:
        if not needs_fallback(result, options):
            break
        result = attempt(temperature)
    return result
