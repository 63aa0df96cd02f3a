from each_row import each_row
from whispertide.dictation.strokes import backspaces, composed


@each_row(
    ("text", "count"),
    [
        ("", 0),
        ("Hello.\n", 7),
        ("é", 1),
        ("n\u0308", 1),  # has no composed form
        ("漢字", 2),
        ("👍🏽", 1),
        ("❤️", 1),
        ("👩‍👩‍👧‍👦!", 2),
        ("🇩🇪🇫🇷", 2),
        ("🏴󠁧󠁢󠁥󠁮󠁧󠁿", 1),
        ("1️⃣", 1),
        ("น้ำ", 3),  # editors take one sign of Thai and of Hindi after the other
        ("नि", 2),
    ],
)
def test_a_backspace_for_each_character(text: str, count: int) -> None:
    assert backspaces(text) == count


def test_text_is_typed_composed() -> None:
    assert composed("e\u0301") == "é"
