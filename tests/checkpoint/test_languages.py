import pytest

from each_row import each_row
from whispertide.checkpoint.languages import LANGUAGES, UNSPACED_LANGUAGES, language_choice, language_code
from whispertide.errors import UnknownLanguageError


@pytest.mark.slow
def test_the_languages_of_openai_in_their_order() -> None:
    from whisper import tokenizer as original

    assert list(LANGUAGES.items()) == list(original.LANGUAGES.items())
    for name, code in original.TO_LANGUAGE_CODE.items():
        assert language_code(name) == code


@each_row(
    ("spelling", "code"),
    [("en", "en"), ("EN", "en"), (" German ", "de"), ("castilian", "es"), ("yue", "yue"), ("Haitian Creole", "ht")],
)
def test_spellings(spelling: str, code: str) -> None:
    assert language_code(spelling) == code


@each_row(
    ("tag", "code"),
    [("en-US", "en"), ("de_DE", "de"), ("de_AT.UTF-8", "de"), ("zh-Hant-TW", "zh"), ("PT-br", "pt"), ("yue-HK", "yue")],
)
def test_of_a_tag_the_language_counts(tag: str, code: str) -> None:
    assert language_code(tag) == code


@pytest.mark.parametrize(("said", "code"), [(None, None), ("auto", None), (" Auto", None), ("de-DE", "de")])
def test_a_language_may_be_left_open(said: str | None, code: str | None) -> None:
    assert language_choice(said) == code


def test_an_unknown_language_names_its_neighbours() -> None:
    with pytest.raises(UnknownLanguageError, match=r"germn.*did you mean german"):
        language_code("germn")
    with pytest.raises(UnknownLanguageError, match="qqqqq"):
        language_code("qqqqq")
    with pytest.raises(UnknownLanguageError, match="xx-YY"):
        language_choice("xx-YY")


def test_unspaced_languages_exist() -> None:
    assert set(LANGUAGES) >= UNSPACED_LANGUAGES
