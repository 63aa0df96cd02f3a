"""Text before a window, cut to what there is room for."""

import pytest

from whispertide.streaming.context import fit_context


def letters(said: str) -> list[int]:
    """One token per character."""
    return [ord(c) for c in said]


@pytest.mark.parametrize(
    ("prompt", "said", "most", "static", "expected"),
    [
        ("", "", 10, True, ""),
        ("", "one two three", 100, True, " one two three"),
        ("", "one two three", 10, True, " two three"),
        ("", "one two three", 9, True, " three"),
        ("Names:", "one two three", 13, True, " Names: three"),
        ("Names:", "one two three", 13, False, " two three"),
        ("Names:", "one", 100, False, " Names: one"),
        ("much too long", "one", 6, True, " one"),
        ("Names:", "one", 0, True, ""),
    ],
)
def test_context_loses_whole_words_from_the_front(
    prompt: str, said: str, most: int, static: bool, expected: str
) -> None:
    tokens = fit_context(letters, prompt, said, most, static=static)
    assert "".join(map(chr, tokens)) == expected
