from whispertide.formats.document import TextSegment
from whispertide.types import Word


def test_times_come_in_seconds_too() -> None:
    word = Word(" tide", 8000, 24_000)
    assert (word.start_s, word.end_s) == (0.5, 1.5)
    segment = TextSegment(8000, 24_000, " tide", (word,))
    assert (segment.start_s, segment.end_s) == (0.5, 1.5)
