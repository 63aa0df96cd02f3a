import json
import os
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest

from whispertide.batch.inputs import Found, check_addresses, check_any, find_recordings, without_query
from whispertide.errors import AudioFileError, OptionError


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    """A folder with folders, a film, and what is no recording."""
    folder = tmp_path / "talks"
    for name in ("b.wav", "a.MP3", "2024/may/c.flac", "2024/film.mp4", "notes.txt", ".hidden.wav", ".trash/d.wav"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    return folder


def places(found: list[Found]) -> list[str]:
    return [str(one.place) for one in found]


def test_a_path_of_windows_is_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec wants slashes, of a folder and of a pattern; the drive stays."""
    monkeypatch.setattr(os, "sep", "\\")
    seen: list[str] = []

    def find(root: str, detail: bool) -> dict[str, Any]:
        seen.append(root)
        return {}

    system = SimpleNamespace(ls=None, protocol="file", find=find)
    monkeypatch.setattr(fsspec, "filesystem", lambda *_, **__: system)
    monkeypatch.setattr(os.path, "isdir", lambda _: True)
    monkeypatch.setattr(os.path, "abspath", lambda path: path)
    with pytest.raises(AudioFileError, match="expected recordings there"):
        find_recordings([r"C:\talks\monday"])
    assert seen == ["C:/talks/monday"]


def test_a_folder_stands_for_the_recordings_at_any_depth(talks: Path) -> None:
    found = find_recordings([str(talks)])
    assert places(found) == ["2024/film", "2024/may/c", "a", "b"]
    assert [one.name for one in found] == [
        str(talks / name) for name in ("2024/film.mp4", "2024/may/c.flac", "a.MP3", "b.wav")
    ]
    assert {one.size for one in found} == {5}


def test_a_file_is_a_recording_whatever_it_is_called_and_wherever_it_is(talks: Path, tmp_path: Path) -> None:
    assert find_recordings([str(talks / "notes.txt")]) == [Found(str(talks / "notes.txt"), PurePosixPath("notes"), 5)]
    missing = str(tmp_path / "missing.wav")
    assert find_recordings([missing]) == [Found(missing, PurePosixPath("missing"))]


def test_names_are_absolute_as_a_worker_may_stand_elsewhere(talks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(talks)
    found = find_recordings(["b.wav", "2024/may"])
    assert [one.name for one in found] == [
        str(talks / "b.wav"),
        str(talks / "2024/may/c.flac"),
    ]


def test_a_pattern_keeps_the_folders_below_its_fixed_part(talks: Path) -> None:
    assert places(find_recordings([f"{talks}/**/*.flac"])) == ["2024/may/c"]
    assert places(find_recordings([f"{talks}/*/*.mp4"])) == ["2024/film"]
    assert places(find_recordings([f"{talks}/[ab].*"])) == ["a", "b"]
    (talks / "b[1].wav").touch()
    assert places(find_recordings([f"{talks}/b[1].wav"])) == ["b[1]"]  # it is there, so it is no pattern


@pytest.mark.skipif(os.name == "nt", reason="needs names with the signs of patterns")
def test_a_pattern_may_be_below_a_folder_with_brackets(talks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, so it is no pattern: wherever one works, and however one names it."""
    odd = talks.rename(talks.parent / "talks [a*b]")
    (odd / "2024").rename(odd / "2024?")
    monkeypatch.chdir(odd)
    for start in ("", "./", f"{odd}/"):
        assert places(find_recordings([f"{start}**/*.flac"])) == ["2024?/may/c"]
        assert places(find_recordings([f"{start}2024?/*.mp4"])) == ["film"]
        assert places(find_recordings([f"{start}[ab].*"])) == ["a", "b"]
    (found,) = find_recordings(["*/may/*"])
    assert found.name == str(odd / "2024?/may/c.flac")


@pytest.mark.parametrize("name", ["", "-"])
def test_a_name_that_cannot_be_meant_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="expected a file"):
        find_recordings([name])


def test_a_folder_or_a_pattern_without_recordings_is_an_error(tmp_path: Path) -> None:
    for name in (str(tmp_path), f"{tmp_path}/*.wav"):
        with pytest.raises(AudioFileError, match="there are none"):
            find_recordings([name])


def test_links_to_recordings_are_recordings(talks: Path, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    for name, target in {"one.wav": talks / "b.wav", "lost.wav": talks / "none.wav", "folder.wav": talks}.items():
        (links / name).symlink_to(target)
    for name in (str(links), f"{links}/*.wav"):
        assert find_recordings([name]) == [Found(str(links / "one.wav"), PurePosixPath("one"), 5)]


def test_a_recording_that_is_named_twice_is_one(talks: Path) -> None:
    assert places(find_recordings([str(talks / "b.wav"), f"{talks}/*.wav", str(talks / "b.wav")])) == ["b"]


def test_a_recording_in_two_inputs_is_one(talks: Path) -> None:
    assert places(find_recordings([str(talks), str(talks / "2024")])) == ["2024/film", "2024/may/c", "a", "b"]
    assert places(find_recordings([str(talks / "2024"), str(talks)])) == ["film", "may/c", "a", "b"]


def test_a_folder_that_cannot_be_read_is_named(talks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def denied(path: Any) -> Any:
        if str(path).endswith(("/may", "/.trash")):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    for name in (str(talks), f"{talks}/**"):
        with pytest.warns(
            UserWarning, match=r"/2024/may: the folder cannot be read \(Permission denied\); it is left out"
        ):
            assert places(find_recordings([name])) == ["2024/film", "a", "b"]  # of what is hidden nothing is said


def test_a_folder_that_is_not_there_is_refused_first(tmp_path: Path) -> None:
    """A recording that is not there fails by itself; nothing else of that kind can be meant."""
    missing = str(tmp_path / "talk.wav")
    assert find_recordings([missing]) == [Found(missing, PurePosixPath("talk"))]
    with pytest.raises(AudioFileError, match="talks: expected a folder or a recording; there is none"):
        find_recordings([missing, str(tmp_path / "talks")])


def test_where_no_recording_is_there_it_is_told_at_once(tmp_path: Path) -> None:
    missing, there = str(tmp_path / "talk.wav"), tmp_path / "walk.wav"
    with pytest.raises(AudioFileError, match=r"talk\.wav: there is no such file; check the path"):
        check_any(find_recordings([missing]))
    with pytest.raises(AudioFileError, match=r"talk\.wav: there is no such file, nor any of the others"):
        check_any(find_recordings([missing, str(there)]))
    there.touch()
    check_any(find_recordings([missing, str(there)]))
    check_any(find_recordings([missing, "https://host/talk.wav"]))


def test_a_name_that_no_file_can_have_fails_by_itself(tmp_path: Path) -> None:
    name = str(tmp_path / ("x" * 300 + ".wav"))
    assert find_recordings([name]) == [Found(name, PurePosixPath("x" * 300))]
    assert find_recordings([manifest(tmp_path, {"audio": name})]) == [Found(name, PurePosixPath("x" * 300))]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_what_signs_an_address_is_no_pattern_and_no_part_of_a_name(tmp_path: Path, scheme: str) -> None:
    signed = f"{scheme}://host/talks/may.mp3?X-Amz-Signature=a1/b2.c*&response[x]=y"
    assert find_recordings([signed]) == [Found(signed, PurePosixPath("may"))]
    assert find_recordings([manifest(tmp_path, {"audio": signed})]) == [Found(signed, PurePosixPath("may"))]
    assert without_query(signed) == f"{scheme}://host/talks/may.mp3"
    assert without_query("memory://x/ma?.mp3") == "memory://x/ma?.mp3"


def test_a_store_is_listed_as_a_folder_is() -> None:
    store = fsspec.filesystem("memory")
    for name in ("/inputs/x/one.wav", "/inputs/two.ogg", "/inputs/notes.txt"):
        store.pipe_file(name, b"123")
    try:
        assert find_recordings(["memory://inputs"]) == [
            Found("memory:///inputs/two.ogg", PurePosixPath("two"), 3),
            Found("memory:///inputs/x/one.wav", PurePosixPath("x/one"), 3),
        ]
        assert find_recordings(["memory://inputs/x/*.wav"]) == [
            Found("memory:///inputs/x/one.wav", PurePosixPath("one"), 3)
        ]
        assert find_recordings(["memory://inputs/x/one.wav"]) == [
            Found("memory://inputs/x/one.wav", PurePosixPath("one"))
        ]
        with pytest.raises(AudioFileError, match="there are none"):
            find_recordings(["memory://nothing/*.wav"])
    finally:
        store.rm("/inputs", recursive=True)


def test_an_address_that_nobody_can_open_says_what_came() -> None:
    with pytest.raises(OptionError, match=r"nosuch://x: expected an address that fsspec can open; Protocol not known"):
        find_recordings(["nosuch://x"])


def test_an_address_whose_package_is_missing_is_told_before_any_work() -> None:
    fsspec.register_implementation("absent", "no_such_package.Store", errtxt="Install no-such-package", clobber=True)
    found = find_recordings(["absent://x/one.wav", "absent://x/two.wav"])
    with pytest.raises(OptionError, match=r"absent://x/\w+\.wav: expected an address .*; Install no-such-package"):
        check_addresses(found)
    check_addresses([Found("memory://x/one.wav", PurePosixPath("one")), Found("talk.wav", PurePosixPath("talk"))])


def manifest(folder: Path, *lines: object) -> str:
    path = folder / "list.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return str(path)


def test_a_manifest_lists_recordings_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "talks").mkdir()
    (tmp_path / "talks/a.wav").write_bytes(b"123")
    absolute = tmp_path.parent / "elsewhere" / "c.wav"
    name = manifest(
        tmp_path,
        {"audio": "talks/a.wav", "text": "as for training"},
        "",
        {"file": "../b.wav"},
        {"audio": str(absolute)},
        {"audio": "s3://bucket/d.mp3", "output": "remote/d.v2"},
    )
    assert find_recordings([name]) == [
        Found(f"{tmp_path}/talks/a.wav", PurePosixPath("talks/a"), 3),
        Found(f"{tmp_path}/../b.wav", PurePosixPath("b")),
        Found(str(absolute), PurePosixPath("c")),
        Found("s3://bucket/d.mp3", PurePosixPath("remote/d.v2")),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 2"),
        ([1], "expected a JSON object"),
        ({"text": "x"}, "as 'audio'; it has none"),
        ({"audio": "a.wav", "start": 1}, "a whole recording"),
        ({"audio": "a.wav", "end": 0}, "a whole recording"),
        ({"audio": "a.wav", "output": "../x"}, "inside the folder"),
        ({"audio": "a.wav", "output": "/x"}, "inside the folder"),
        ({"audio": "a.wav", "output": ""}, "a name as 'output'"),
        ({"audio": "a.wav", "output": "a\0b"}, "a name that a file can have"),
        ({"audio": "s3://bucket/a\0b.wav"}, "a name that a file can have"),
        ("[" * 100_000, "line 2"),
    ],
)
def test_a_bad_line_of_a_manifest_is_named(tmp_path: Path, line: object, reason: str) -> None:
    with pytest.raises(OptionError, match=r"list.jsonl, line 2") as error:
        find_recordings([manifest(tmp_path, {"audio": "fine.wav"}, line)])
    assert reason in str(error.value)


@pytest.mark.skipif(os.name == "nt", reason="names there may have halves of surrogate pairs")
def test_a_name_that_no_file_can_have_is_refused_and_one_that_is_not_utf_8_is_not(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="a name that a file can have"):
        find_recordings([manifest(tmp_path, {"audio": "a.wav", "output": "\ud800"})])
    assert places(find_recordings([manifest(tmp_path, {"audio": "a.wav", "output": "caf\udce9"})])) == ["caf\udce9"]


def test_a_manifest_that_gives_a_recording_two_transcripts_is_refused(tmp_path: Path) -> None:
    one, other = {"audio": "a.wav", "output": "one"}, {"audio": "a.wav", "output": "other"}
    with pytest.raises(OptionError, match=r"list.jsonl, line 3: expected one 'output' .*one before, and other here"):
        find_recordings([manifest(tmp_path, one, one, other)])
    assert places(find_recordings([manifest(tmp_path, one, one)])) == ["one"]


def test_a_manifest_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "list.jsonl").write_text('{"audio": "a.wav"}', encoding="utf-8-sig")
    assert places(find_recordings([str(tmp_path / "list.jsonl")])) == ["a"]


def test_an_empty_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.jsonl").write_text("\n \n")
    with pytest.raises(OptionError, match="it is empty"):
        find_recordings([str(tmp_path / "list.jsonl")])


def test_a_manifest_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"none\.jsonl: expected a manifest.* there is no such file: check the path"):
        find_recordings([str(tmp_path / "none.jsonl")])
