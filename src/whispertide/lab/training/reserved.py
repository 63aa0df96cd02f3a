"""What must never be trained on, because it is kept for evaluation. Knows the rule of the test sentences alone."""

import re

from whispertide.lab.speech.text import is_test_sentence

_END = re.compile(r"(?<=[.!?])[\"')]*\s+")


def is_reserved(text: str) -> bool:
    """Whether the text, or any sentence in it, is a test sentence (lab/speech/text.py: one in ten)."""
    return any(map(is_test_sentence, {text, *_END.split(text)}))
