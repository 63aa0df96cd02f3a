"""Spoken commands: a list is read or refused with its line, and what is missing is made."""

import json
from functools import partial
from pathlib import Path

import pytest

from whispertide.errors import CorpusError, OptionError, OutputError
from whispertide_lab.speech.apart import Apart
from whispertide_lab.speech.installed import Installed, installed
from whispertide_lab.training import commands
from whispertide_lab.training.commands import Command, Voices, make_commands, read_commands
from whispertide_lab.training.shards import open_shards


def listed(folder: Path, *entries: object) -> Path:
    path = folder / "commands.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def test_each_text_is_read_once_in_lower_case(tmp_path: Path) -> None:
    path = listed(
        tmp_path,
        {"sentence": "Play  music", "intent": "play_music"},
        {"sentence": "play music", "intent": "another"},
        {"sentence": " ", "intent": "nothing"},
        {"sentence": "stop", "intent": "stop"},
    )
    assert read_commands(path) == [Command("play music", "play_music"), Command("stop", "stop")]


@pytest.mark.parametrize(
    "entry",
    [
        {"sentence": "play"},
        {"sentence": 3, "intent": "x"},
        {"sentence": "play", "intent": 5},
        {"sentence": "play", "intent": None},
        {"sentence": "play", "intent": " "},
        ["play"],
        "play",
    ],
)
def test_a_line_that_is_none_is_named(entry: object, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="line 2"):
        read_commands(listed(tmp_path, {"sentence": "stop", "intent": "stop"}, entry))


def test_a_list_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="cannot be read"):
        read_commands(tmp_path / "none.jsonl")
    with pytest.raises(CorpusError, match="there are none"):
        read_commands(listed(tmp_path))


def no_flite(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise CorpusError(f"{name} is missing")

    monkeypatch.setattr("whispertide_lab.speech.flite._library", missing)


@pytest.mark.parametrize("voices", ["trained", "held-out"])
def test_without_flite_espeaks_voices_say_every_command(
    voices: Voices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_flite(monkeypatch)
    path = listed(tmp_path, *({"sentence": f"play {word}", "intent": "play"} for word in ("music", "jazz", "it again")))
    for seed in range(3):  # others draw other voices
        (tmp_path / str(seed)).mkdir()
        commands.speak_shard(path, tmp_path / str(seed), 0, seed, voices)
        said = [open_shards([tmp_path / str(seed)])[at] for at in range(3)]
        assert {utterance.text for utterance in said} == {"play music", "play jazz", "play it again"}
        assert all(utterance.source.startswith("espeak-ng:") for utterance in said)


def test_without_espeak_ng_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise CorpusError("espeak-ng is missing")

    monkeypatch.setattr("whispertide_lab.speech.installed.espeak_version", missing)
    monkeypatch.setattr(commands, "make_all", lambda *_: pytest.fail("made before it was looked for"))
    path = listed(tmp_path, {"sentence": "stop", "intent": "stop"})
    with pytest.raises(CorpusError, match="is missing"):
        make_commands(path, tmp_path / "shards", seed=0, voices="trained", jobs=1)
    assert not (tmp_path / "shards").exists()


def test_only_missing_shards_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = listed(tmp_path, *({"sentence": f"number {n}", "intent": "count"} for n in range(2 * commands.SHARD + 1)))
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "00001.json").write_text("[]")
    made = []
    monkeypatch.setattr(Apart, "__call__", lambda self: made.append(self.arguments[2]))
    steps: list[tuple[int, int]] = []
    count = make_commands(
        path, folder, seed=0, voices="held-out", jobs=1, progress=lambda done, count: steps.append((done, count))
    )
    assert count == 3
    assert sorted(made) == ["0", "2"]
    assert steps == [(2, 3), (3, 3)]


def test_a_folder_of_other_commands_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "make_all", lambda *_: None)
    make = partial(make_commands, folder=tmp_path / "shards", jobs=1)
    path = listed(tmp_path, {"sentence": "stop", "intent": "stop"})
    for _ in range(2):
        make(path, seed=1, voices="trained")
    with pytest.raises(OptionError, match="was made of other commands"):
        make(path, seed=2, voices="trained")
    with pytest.raises(OptionError, match="was made of other commands"):
        make(path, seed=1, voices="held-out")
    listed(tmp_path, {"sentence": "go", "intent": "go"})
    with pytest.raises(OptionError, match="was made of other commands"):
        make(path, seed=1, voices="trained")


def test_a_folder_by_other_synthesizers_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But one of an earlier version, which does not say which they were."""
    monkeypatch.setattr(commands, "make_all", lambda *_: None)
    path, folder = listed(tmp_path, {"sentence": "stop", "intent": "stop"}), tmp_path / "shards"
    make = partial(make_commands, path, folder, seed=1, voices="trained", jobs=1)
    make()
    recipe = json.loads((folder / "recipe.json").read_text())
    assert recipe["synthesizers"] == installed().versions
    monkeypatch.setattr(commands, "installed", lambda: Installed("espeak-ng9", (), ()))
    with pytest.raises(OptionError, match=r"by other synthesizers .*espeak-ng9"):
        make()
    recipe.pop("synthesizers")
    (folder / "recipe.json").write_text(json.dumps(recipe) + "\n")
    make()


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    path = listed(tmp_path, {"sentence": "stop", "intent": "stop"})
    with pytest.raises(OutputError, match="cannot be written"):
        make_commands(path, path, seed=0, voices="trained", jobs=1)
