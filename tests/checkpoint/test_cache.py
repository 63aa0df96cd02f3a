import errno
import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from whispertide.checkpoint import cache
from whispertide.checkpoint.cache import cache_dir, cache_path, file_digest, read_note, write_note
from whispertide.errors import CheckpointError, OptionError


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, ".cache/whispertide"),
        ("linux", {"XDG_CACHE_HOME": "{home}/xdg"}, "xdg/whispertide"),
        ("darwin", {"XDG_CACHE_HOME": "{home}/xdg"}, "Library/Caches/whispertide"),
        ("win32", {"LOCALAPPDATA": "{home}/local"}, "local/whispertide/Cache"),
        ("win32", {}, "AppData/Local/whispertide/Cache"),
        ("linux", {"WHISPERTIDE_CACHE": "{home}/chosen"}, "chosen"),
        ("linux", {"WHISPERTIDE_CACHE": "~/tilde"}, "tilde"),
    ],
)
def test_the_place_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str
) -> None:
    for name in ("WHISPERTIDE_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(home=tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_dir() == tmp_path / expected


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch, spare: Path) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("WHISPERTIDE_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert cache_dir() == spare


def test_the_home_of_a_user_whom_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", "~no-such-user/x")
    with pytest.raises(OptionError, match=r"in WHISPERTIDE_CACHE; got '~no-such-user/x', .*set the whole path"):
        cache_path("digests")


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: Path) -> None:
    """What is in it is used, whatever else goes elsewhere, and one line says so."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "old").touch()
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    assert cache_path("new") == tmp_path / "cache" / "new"

    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(cache, "check_place", refuse)
    assert cache_path("old") == tmp_path / "cache" / "old"
    with pytest.warns(UserWarning, match="cannot be written .Read-only file system.; .*WHISPERTIDE_CACHE") as told:
        assert [cache_path("new"), cache_path("new", "er")] == [spare / "new", spare / "new" / "er"]
    assert len(told) == 1


def test_a_full_disk_can_be_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "check_place", full)
    assert cache_path("new") == tmp_path / "new"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="temporary folders of all users in one place")
def test_a_spare_place_that_others_can_write_is_not_trusted(spare: Path) -> None:
    spare.chmod(0o777)
    cache.spare_dir.cache_clear()
    assert cache.spare_dir() != spare
    spare.chmod(0o700)
    cache.spare_dir.cache_clear()
    assert cache.spare_dir() == spare


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files whose content was hashed."""
    names: list[str] = []
    original = hashlib.file_digest

    def digest(file: object, algorithm: str) -> object:
        names.append(Path(file.name).name)  # type: ignore[attr-defined]
        return original(file, algorithm)  # type: ignore[arg-type]

    monkeypatch.setattr(hashlib, "file_digest", digest)
    return names


def test_a_digest_is_computed_once(tmp_path: Path, hashed: list[str]) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"abc" * 1000)
    expected = hashlib.sha256(b"abc" * 1000).hexdigest()
    assert [file_digest(path), file_digest(path)] == [expected, expected]
    assert hashed == ["weights"]


def test_a_changed_file_is_hashed_again(tmp_path: Path, hashed: list[str]) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    first = file_digest(path)
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))  # the same size at another time
    assert file_digest(path) == hashlib.sha256(b"two").hexdigest() != first
    assert len(hashed) == 2


@pytest.mark.parametrize("content", [b"", b"garbage", b"[]", b'{"sha256": "short"}', b'{"sha256": 5}'])
def test_a_damaged_note_is_ignored(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"abc")
    file_digest(path)
    (note,) = (cache_dir() / "digests").iterdir()
    note.write_bytes(content)
    assert file_digest(path) == hashlib.sha256(b"abc").hexdigest()


@pytest.mark.parametrize("digest", [None, 5, "short"])
def test_a_digest_that_is_none_is_computed_again(tmp_path: Path, digest: object) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"abc")
    file_digest(path)
    (note,) = (cache_dir() / "digests").iterdir()
    note.write_text(json.dumps({**json.loads(note.read_text()), "sha256": digest}))
    assert file_digest(path) == hashlib.sha256(b"abc").hexdigest()


def test_a_note_holds_for_its_key(tmp_path: Path) -> None:
    note, key = tmp_path / "folder" / "note.json", {"name": "tide", "cores": 2}
    assert read_note(note, key) is None
    write_note(note, key, {"found": [1, 2]})
    assert read_note(note, key) == {**key, "found": [1, 2]}
    assert read_note(note, {**key, "cores": 4}) is None
    assert read_note(note, {**key, "new": 1}) is None
    for damaged in ("", "{", "[]", "5"):
        note.write_text(damaged)
        assert read_note(note, key) is None


def test_a_digest_that_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: Path, hashed: list[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "file" / "inside"))
    (tmp_path / "weights").write_bytes(b"abc")
    (spare / "digests").touch()
    with pytest.warns(UserWarning, match="cannot be written"):
        assert file_digest(tmp_path / "weights") == hashlib.sha256(b"abc").hexdigest()
    assert file_digest(tmp_path / "weights") == hashlib.sha256(b"abc").hexdigest()
    assert len(hashed) == 2


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        file_digest(tmp_path / "nothing")


@pytest.mark.skipif(sys.platform != "linux", reason="names elsewhere are UTF-8")
def test_a_file_in_a_folder_whose_name_is_no_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / os.fsdecode(b"m\xfcller")
    folder.mkdir()
    (folder / "weights").write_bytes(b"content")
    for _ in range(2):
        assert file_digest(folder / "weights") == hashlib.sha256(b"content").hexdigest()
