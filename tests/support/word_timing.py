"""Words with times in encoder frames."""

from whispertide.decoding.token_words import WordTiming
from whispertide.types import FRAME_SAMPLES


def timing(text: str, start: int = 0, end: int = 10, tokens: tuple[int, ...] = (1,)) -> WordTiming:
    """Times in encoder frames."""
    return WordTiming(text, tokens, start * FRAME_SAMPLES, end * FRAME_SAMPLES, 0.5)
