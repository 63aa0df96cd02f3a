from pathlib import Path

import pytest

from each_row import each_row
from whispertide.checkpoint.names import (
    ALIASES,
    BUNDLED_DIR,
    SHORT_NAMES,
    HubModel,
    as_argument,
    bundled_names,
    display_name,
    find_model,
)
from whispertide.errors import CheckpointNotFoundError, OptionError


@each_row(
    ("name", "repo"),
    [
        ("tiny", "openai/whisper-tiny"),
        ("tiny.en", "openai/whisper-tiny.en"),
        ("base", "openai/whisper-base"),
        ("base.en", "openai/whisper-base.en"),
        ("small", "openai/whisper-small"),
        ("small.en", "openai/whisper-small.en"),
        ("medium", "openai/whisper-medium"),
        ("medium.en", "openai/whisper-medium.en"),
        ("large-v1", "openai/whisper-large"),
        ("large-v2", "openai/whisper-large-v2"),
        ("large-v3", "openai/whisper-large-v3"),
        ("large", "openai/whisper-large-v3"),
        ("large-v3-turbo", "openai/whisper-large-v3-turbo"),
        ("turbo", "openai/whisper-large-v3-turbo"),
        ("distil-small.en", "distil-whisper/distil-small.en"),
        ("distil-medium.en", "distil-whisper/distil-medium.en"),
        ("distil-large-v2", "distil-whisper/distil-large-v2"),
        ("distil-large-v3", "distil-whisper/distil-large-v3"),
        ("distil-large-v3.5", "distil-whisper/distil-large-v3.5"),
        ("someone/my.whisper_x-1", "someone/my.whisper_x-1"),
    ],
)
def test_names_of_the_hub(name: str, repo: str) -> None:
    assert find_model(name) == HubModel(repo)
    assert find_model(f"{name}@v1.0") == HubModel(repo, "v1.0")
    assert find_model(name, "abc") == HubModel(repo, "abc")
    assert display_name(name) == name


def test_a_file_on_the_hub() -> None:
    name = "MLSpeech/CarelessWhisper-Streaming/base_300.pt"
    assert find_model(name) == HubModel("MLSpeech/CarelessWhisper-Streaming", None, "base_300.pt")
    assert find_model(f"{name}@v1") == HubModel("MLSpeech/CarelessWhisper-Streaming", "v1", "base_300.pt")
    assert (str(find_model(name)), display_name(name)) == (name, name)
    for local in ("./org/name/x.pt", "org/name/folder/x.pt", "name/x.pt"):
        with pytest.raises(CheckpointNotFoundError, match=r"OpenAI \.pt"):
            find_model(local)
    with pytest.raises(CheckpointNotFoundError, match=r"OpenAI \.pt"):
        find_model(Path(name))


def test_every_alias_stands_for_a_name() -> None:
    assert set(ALIASES.values()) <= set(SHORT_NAMES)
    assert not set(ALIASES) & set(SHORT_NAMES)


def test_the_bundled_model() -> None:
    assert "nano.en" in bundled_names()
    assert find_model("nano.en") == BUNDLED_DIR / "nano.en"
    assert display_name("nano.en") == "nano.en"


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "org" / "model.v2"
    folder.mkdir(parents=True)
    (folder / "x.pt").touch()
    monkeypatch.chdir(tmp_path)
    assert find_model(str(folder)) == folder
    assert find_model(folder) == folder
    assert find_model("org/model.v2") == Path("org/model.v2")  # an existing folder comes before a hub id
    assert display_name("org/model.v2") == "model.v2"
    assert display_name(folder / "x.pt") == "x"
    monkeypatch.chdir(folder)
    assert display_name(".") == "model.v2"


def test_a_name_comes_before_a_folder_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "base.en").mkdir()
    (tmp_path / "folder@home").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_model("base.en") == HubModel("openai/whisper-base.en")
    assert find_model("./base.en") == Path("base.en")
    assert find_model(Path("base.en")) == Path("base.en"), "a path is a path"
    assert find_model(as_argument(Path("base.en"))) == Path("base.en")
    assert as_argument(Path("mine/base.en")) == "mine/base.en"
    assert find_model("folder@home") == Path("folder@home")


def test_a_path_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "mine").mkdir()
    assert find_model("~/mine") == tmp_path / "mine"


@pytest.mark.parametrize("name", ["bas.en", "base-en", "Tiny.EN", "larg-v3"])
def test_an_unknown_name_with_neighbours(name: str) -> None:
    with pytest.raises(CheckpointNotFoundError, match=f"got '{name}'; did you mean (base.en|tiny.en|large-v3)"):
        find_model(name)


def test_an_unknown_name_without_neighbours() -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"got 'qqqq'; known names: nano.en, tiny,"):
        find_model("qqqq")
    with pytest.raises(CheckpointNotFoundError):
        find_model("")


@each_row(
    "name",
    [
        "./nothing",
        "/no/such/folder",
        "~/nothing",
        "~nobody-of-this-name/model",
        "models/mine.pt",
        "..\\model",
        "C:\\model",
        "x.pt",
        "mine/",
        "models/of/mine",
    ],
)
def test_a_path_where_nothing_is(name: str) -> None:
    with pytest.raises(CheckpointNotFoundError, match="nothing is there"):
        find_model(name)


def test_a_path_object_is_never_a_hub_id() -> None:
    with pytest.raises(CheckpointNotFoundError):
        find_model(Path("openai/whisper-tiny"))


def test_revisions_that_make_no_sense(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="expected one revision; got 'a' in the name and 'b' apart from it"):
        find_model("base.en@a", "b")
    with pytest.raises(OptionError, match="after the @"):
        find_model("org/name@")
    with pytest.raises(OptionError, match="models of the hub only"):
        find_model("nano.en", "main")
    with pytest.raises(OptionError, match="models of the hub only"):
        find_model("nano.en@main")
    with pytest.raises(OptionError, match="models of the hub only"):
        find_model(tmp_path, "main")
