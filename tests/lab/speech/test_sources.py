from pathlib import Path

import pytest

from each_row import each_row
from whispertide.errors import CorpusError
from whispertide_lab.speech.sources import fortune_sentences, proper_sentence, word_counts, wordnet_sentences


@each_row(
    ("text", "proper"),
    [
        ("she started at the age of 11", "She started at the age of 11."),
        ("disinfect with an antiseptic ", "Disinfect with an antiseptic."),
        ("when i saw it, i knew that i'm late!", "When I saw it, I knew that I'm late!"),
        ("one thing: it works; I hope", "One thing, it works, I hope."),
        ("where is   my\ncar?", "Where is my car?"),
    ],
)
def test_a_sentence_gets_a_capital_and_a_mark(text: str, proper: str) -> None:
    assert proper_sentence(text) == proper


@each_row(
    "text",
    [
        "too short",
        "a table | of things and more",
        "it was -- so to say -- his",
        "(in brackets) it is not said",
        "he said 'never' to me",
        "by J. R. Smith and others",
        "wait... what is that thing",
        "word " * 23,
    ],
)
def test_what_is_not_plain_prose_is_left_out(text: str) -> None:
    assert proper_sentence(text) is None


def test_wordnet_gives_definitions_and_examples(tmp_path: Path) -> None:
    gloss = 'draw air into and out of; be alive; "I can breathe better. The air is clean"'
    line = f"00001740 29 v 01 breathe 0 000 | {gloss}\n"
    for name in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"data.{name}").write_text("  1 This is the licence | of it\n" if name != "verb" else line)
    found = list(wordnet_sentences(tmp_path))
    assert found[-2:] == ["I can breathe better.", "The air is clean."]
    assert "Draw air into and out of." in found
    assert "Be alive." not in found  # two words


def test_fortunes_are_split_into_sentences_without_who_said_them(tmp_path: Path) -> None:
    (tmp_path / "wise").write_text(
        "Mr. Smith never\n sleeps. Do you know why?\n\t\t-- Somebody Else\n%\nIt is always late.\n"
    )
    (tmp_path / "wise.dat").write_bytes(b"\0\1")
    (tmp_path / "ascii-art").write_text("This is a picture of something.\n")
    assert list(fortune_sentences(tmp_path)) == ["Mr. Smith never sleeps.", "Do you know why?", "It is always late."]


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="apt-get install wordnet-base"):
        list(wordnet_sentences(tmp_path / "none"))
    with pytest.raises(CorpusError, match="apt-get install fortunes"):
        list(fortune_sentences(tmp_path / "none"))


def test_words_are_counted_in_small_letters() -> None:
    assert word_counts(["The cat's well-known.", "the 20 cats"]) == {
        "the": 2,
        "cat's": 1,
        "well": 1,
        "known": 1,
        "cats": 1,
    }
