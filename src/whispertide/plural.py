"""Counts in messages: "1 recording", "2 recordings"."""


def counted(number: int, noun: str) -> str:
    """The number with its noun, which gets an "s" unless there is one of it."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
