"""Options that several commands share: texts that become lists."""

from pathlib import Path

import pytest

from each_row import each_row
from whispertide.cli.arguments import check_options, read_terms
from whispertide.errors import OptionError, UnknownLanguageError
from whispertide.options import LONGEST_TERM, MOST_TERMS, DecodeOptions


def test_key_terms_are_a_file_or_stand_between_commas(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("# people\nVinh Phuc # the town\n\n  Okonkwo \n", encoding="utf-8")
    assert read_terms(str(file)) == ("Vinh Phuc", "Okonkwo")
    assert read_terms("Vinh Phuc, Okonkwo,") == ("Vinh Phuc", "Okonkwo")
    assert read_terms("Kubernetes") == ("Kubernetes",)


def test_a_mark_that_an_editor_writes_first_is_no_part_of_a_term(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("Vinh Phuc\nOkonkwo\n", encoding="utf-8-sig")
    assert read_terms(str(file)) == ("Vinh Phuc", "Okonkwo")


@pytest.mark.parametrize("length", [255, 256, 5_000])
def test_a_list_of_terms_may_be_longer_than_the_name_of_a_file(length: int) -> None:
    terms = tuple(f"{number:09}" for number in range(length // 10 + 1))
    assert read_terms(",".join(terms)) == terms
    assert read_terms("a" * length) == ("a" * length,)


def test_a_file_of_terms_that_is_missing_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="an existing file"):
        read_terms(str(tmp_path / "names.txt"))
    (tmp_path / "sound").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OptionError, match="a text file in UTF-8"):
        read_terms(str(tmp_path / "sound"))


def test_languages_become_codes_and_one_alone_is_chosen() -> None:
    checked = check_options(DecodeOptions(languages=("German", "en-US", "de")))
    assert (checked.language, checked.languages) == (None, ("de", "en"))
    assert check_options(DecodeOptions(languages=("German",))).language == "de"
    assert check_options(DecodeOptions("de", languages=("de", "en"))).language == "de"
    with pytest.raises(OptionError, match="among de, en"):
        check_options(DecodeOptions("fr", languages=("de", "en")))
    with pytest.raises(UnknownLanguageError):
        check_options(DecodeOptions(languages=("de", "klingon")))


def test_terms_in_another_encoding_are_refused() -> None:
    with pytest.raises(OptionError, match="UTF-8"):
        check_options(DecodeOptions(keyterms=("\udcff",)))


@each_row(
    ("terms", "said"),
    [
        ("Ada", "a list of texts"),
        (["Ada", 7], "'7' in it"),
        ({"Ada": 1}, "a list of texts"),
        (["x" * (LONGEST_TERM + 1)], "at most 100 characters"),
        ([f"x{number}" for number in range(MOST_TERMS + 1)], "at most 500 key terms"),
    ],
)
def test_what_cannot_be_key_terms_is_refused(terms: object, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        DecodeOptions(keyterms=terms)  # type: ignore[arg-type]


def test_key_terms_lose_their_outer_spaces_and_come_once() -> None:
    assert DecodeOptions(keyterms=[" Vinh  Phuc", "Ada", "", "Ada "]).keyterms == ("Vinh Phuc", "Ada")  # type: ignore[arg-type]
