from pathlib import Path

import pytest

from whispertide.dictation.chords import Chord
from whispertide.dictation.commands import Commands, Insert, Keys, Scratch, Stop, read_commands
from whispertide.errors import OptionError
from whispertide.streaming.repetition import normalise


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.toml"


def test_the_built_in_ones() -> None:
    found = [
        Commands().find(normalise(phrase)) for phrase in ("New line", "new paragraph", "Scratch that", "stop dictation")
    ]
    assert found == [Insert("\n"), Insert("\n\n"), Scratch(), Stop()]


def test_a_file_adds_changes_and_removes(file: Path) -> None:
    lines = (
        "# mine",
        '"new tab" = { keys = "ctrl+t" }',
        'salutation = "Dear Sir or Madam,\\n"',
        '"new line" = { keys = "shift+enter" }',
        '"lösch das" = { action = "scratch" }',
        '"stop dictation" = false',
        '"to the end" = { keys = "ctrl+end shift+home" }',
    )
    file.write_text("\n".join(lines), encoding="utf-8")
    commands = read_commands(file)
    assert commands.find("newtab") == Keys((Chord("t", ("ctrl",)),))
    assert commands.find("salutation") == Insert("Dear Sir or Madam,\n")
    assert commands.find("newline") == Keys((Chord("enter", ("shift",)),))
    assert commands.find("löschdas") == Scratch()
    assert commands.find("stopdictation") is None
    assert commands.find("newparagraph") == Insert("\n\n")
    assert commands.find("totheend") == Keys((Chord("end", ("ctrl",)), Chord("home", ("shift",))))


def test_a_mark_that_an_editor_writes_first_is_no_part_of_the_file(file: Path) -> None:
    file.write_text('salutation = "Dear Anna,"\n', encoding="utf-8-sig")
    assert read_commands(file).find("salutation") == Insert("Dear Anna,")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"new tab" = { keys = "ctrl+foo" }\n', "line 1, 'new tab': expected keys such as ctrl+alt+space"),
        ('a = "1"\n\n"new tab" = 3\n', "line 3, 'new tab': expected a text"),
        ('a = """one\ntwo"""\nb = { action = "jump" }\nc = "x"\n', "line 3, 'b': expected a text"),
        ('a = ""\n', "line 1, 'a': expected a text"),
        ('a = { keys = "" }\n', "line 1, 'a': expected a text"),
        ('a = { keys = "f1", text = "x" }\n', "line 1, 'a': expected a text"),
        ("a = true\n", "line 1, 'a': expected a text"),
        ('a = "\\u0007"\n', "line 1, 'a': expected a text"),  # no key types a bell
        ('[keys]\n"new tab" = "ctrl+t"\n', "line 1, 'keys': expected a text"),
        ('"," = "x"\n', "line 1, ',': expected a phrase of words"),
        ('"new  tab" = "x"\n"Newtab" = "y"', "line 2, 'Newtab': expected each phrase once; 'new  tab' sounds the same"),
        ('"new tab" = ctrl+t\n', "expected TOML"),
        ('a = "x"\nb : "y"\n', "at line 2"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(file: Path, text: str, found: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(OptionError) as told:
        read_commands(file)
    assert str(file) in str(told.value)
    assert found in str(told.value)


def test_a_file_that_cannot_be_read_is_told(file: Path) -> None:
    with pytest.raises(OptionError, match="expected --commands as a text file in UTF-8"):
        read_commands(file)
    file.write_bytes(b'a = "\xff"')
    with pytest.raises(OptionError, match="expected --commands as a text file in UTF-8"):
        read_commands(file)
