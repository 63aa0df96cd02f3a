import pytest

from whispertide.checkpoint.languages import LANGUAGES, UNSPACED_LANGUAGES, language_code
from whispertide.errors import UnknownLanguageError


def test_the_languages_of_openai_in_their_order() -> None:
    original = pytest.importorskip("whisper.tokenizer")
    assert list(LANGUAGES.items()) == list(original.LANGUAGES.items())
    for name, code in original.TO_LANGUAGE_CODE.items():
        assert language_code(name) == code


@pytest.mark.parametrize(
    ("spelling", "code"),
    [("en", "en"), ("EN", "en"), (" German ", "de"), ("castilian", "es"), ("yue", "yue"), ("Haitian Creole", "ht")],
)
def test_spellings(spelling: str, code: str) -> None:
    assert language_code(spelling) == code


def test_an_unknown_language_names_its_neighbours() -> None:
    with pytest.raises(UnknownLanguageError, match=r"germn.*did you mean german"):
        language_code("germn")
    with pytest.raises(UnknownLanguageError, match="qqqqq"):
        language_code("qqqqq")


def test_unspaced_languages_exist() -> None:
    assert set(LANGUAGES) >= UNSPACED_LANGUAGES
