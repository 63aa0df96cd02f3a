import pytest

from each_row import each_row
from whispertide.methods.attention.single_pass import fit_context


def letters(said: str) -> list[int]:
    """One token per character."""
    return [ord(c) for c in said]


@each_row(
    ("prompt", "said", "most", "static", "expected"),
    [
        ("", "", 10, True, ""),
        ("", "one two three", 100, True, " one two three"),
        ("", "one two three", 10, True, " two three"),
        ("", "one two three", 9, True, " three"),
        ("Names:", "one two three", 13, True, " Names: three"),
        ("Names:", "one two three", 13, False, " two three"),
        ("Names:", "one", 100, False, " Names: one"),
        ("much too long", "one", 6, True, " long"),
        ("much too long", "a", 8, True, " long a"),
        ("Names:", "one", 0, True, ""),
    ],
)
def test_context_loses_whole_words_from_the_front(
    prompt: str, said: str, most: int, static: bool, expected: str
) -> None:
    tokens = fit_context(letters, prompt, said, most, static=static)
    assert "".join(map(chr, tokens)) == expected


def test_without_spaces_context_loses_characters_from_the_front() -> None:
    said = "今天天气很好我们去公园散步然后回家吃饭看书睡觉明天早上再去学校上课学习中文和数学"
    tokens = fit_context(letters, "", said, 20, static=True, spaced=False)
    assert "".join(map(chr, tokens)) == " " + said[-19:]
    scrolled = fit_context(letters, "名字", "一二 三", 4, static=False, spaced=False)
    assert "".join(map(chr, scrolled)) == " 二 三"


def test_without_spaces_characters_stay_whole_where_one_is_several_tokens() -> None:
    tokens = fit_context(lambda text: list(text.encode()), "", "一二三四", 8, static=True, spaced=False)
    assert bytes(tokens).decode() == " 三四"


@pytest.mark.parametrize("spaced", [True, False])
def test_a_prompt_as_long_as_a_book_costs_no_more_than_what_fits(spaced: bool) -> None:
    read = 0

    def encode(text: str) -> list[int]:
        nonlocal read
        read += len(text)
        return letters(text)

    book = "It was the best of times. " * 40_000
    tokens = fit_context(encode, book, "", 12, static=True, spaced=spaced)
    assert "".join(map(chr, tokens)) == (" of times." if spaced else " t of times.")
    assert read < 20_000
