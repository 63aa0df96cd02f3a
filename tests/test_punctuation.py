import pytest

from whispertide.punctuation import ENDS_SENTENCE


@pytest.mark.parametrize(
    "text", ["Yes.", "yes.”", "(yes!)", "'yes?'\"", "yes…", "是。", "「是。」", "نعم؟", "हाँ।", "."]
)
def test_a_sentence_ends_with_a_mark_and_what_closes_after_it(text: str) -> None:
    assert ENDS_SENTENCE.search(text)


@pytest.mark.parametrize("text", ["", "yes", "yes,", "“yes”", "3.5", "yes. ", "yes.\n", "。是", "」"])
def test_other_texts_go_on(text: str) -> None:
    assert not ENDS_SENTENCE.search(text)
