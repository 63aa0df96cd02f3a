"""Files and folders that are there whole or not at all."""

import os
from pathlib import Path

import pytest

from whispertide.atomic import check_place, printable, replacing, write_text, writing
from whispertide.errors import OutputError


def test_a_text_replaces_an_older_one(tmp_path: Path) -> None:
    for text in ("old", "new \u00fc"):
        write_text(tmp_path / "x.txt", text)
        assert (tmp_path / "x.txt").read_bytes() == text.encode()
    assert [path.name for path in tmp_path.iterdir()] == ["x.txt"]


@pytest.mark.parametrize("folder", [False, True])
def test_after_an_error_everything_is_as_before(tmp_path: Path, *, folder: bool) -> None:
    write_text(tmp_path / "x", "old")

    def write_half() -> None:
        with replacing(tmp_path / "x") as unfinished:
            if folder:
                unfinished.mkdir()
            (unfinished / "part" if folder else unfinished).write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_folder_takes_the_place_of_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with replacing(tmp_path / "x") as unfinished:
        unfinished.mkdir()
        write_text(unfinished / "file", "content")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["x", "x/file"]


def test_the_folder_that_one_is_in_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(OSError, match="here"):
        write_text(Path("."), "text")
    assert [path.name for path in tmp_path.rglob("*")] == ["here"]


@pytest.mark.parametrize("name", ["x" * 255, "\u00fc" * 127], ids=["ASCII", "two bytes each"])
def test_the_longest_name_has_a_temporary_one(tmp_path: Path, name: str) -> None:
    with replacing(tmp_path / name) as unfinished:
        unfinished.write_text("text")
        assert unfinished.name.endswith(".part")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.skipif(os.name == "nt", reason="there are no such files")
def test_a_device_is_written_and_not_replaced(tmp_path: Path) -> None:
    """A program that runs as root would otherwise put a file in the place of /dev/null."""
    (tmp_path / "nowhere").symlink_to("/dev/null")
    write_text(tmp_path / "nowhere", "text")
    assert (tmp_path / "nowhere").is_char_device()
    assert [path.name for path in tmp_path.iterdir()] == ["nowhere"]


def test_a_place_may_have_folders_above_it_that_are_missing(tmp_path: Path) -> None:
    check_place(tmp_path / "a" / "b.c")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["file/a", "file/a/b", "x" * 300])
def test_a_place_where_nothing_can_be_written(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=place[:4]):
        check_place(tmp_path / place)


def test_a_name_that_is_not_utf_8_can_be_printed() -> None:
    assert printable(os.fsdecode(b"caf\xe9.wav")) == "caf\ufffd.wav"
    assert printable("caf\xe9.wav") == "caf\xe9.wav"


def test_what_cannot_be_written_is_told_with_the_place_and_what_to_do(tmp_path: Path) -> None:
    place = tmp_path / "no" / "file"
    with (
        pytest.raises(OutputError, match=r"no/file cannot be written: .*No such file.*; choose another"),
        writing(place),
    ):
        place.write_text("")


def test_our_own_errors_say_more_already(tmp_path: Path) -> None:
    """Those for people, which may be OSErrors."""
    with pytest.raises(OutputError, match=r"^no more$"), writing(tmp_path):
        raise OutputError("no more")
    with pytest.raises(BrokenPipeError), writing("standard output"):
        raise BrokenPipeError
    with pytest.raises(KeyError), writing(tmp_path):
        raise KeyError("not about a file")
