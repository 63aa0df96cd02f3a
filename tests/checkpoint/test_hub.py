import errno
import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants

from fake_hub import REPO, FakeHub, content
from whispertide.checkpoint import hub, load_checkpoint
from whispertide.checkpoint.download import format_size, hub_cache, needed_files
from whispertide.checkpoint.names import BUNDLED_DIR, SHORT_NAMES, HubModel
from whispertide.errors import CheckpointError, CheckpointNotFoundError, DiskSpaceError, DownloadError, OptionError

WriteModel = Callable[..., Path]


def test_a_download(online: FakeHub, repo: dict[str, bytes]) -> None:
    said: list[str] = []
    folder = hub.resolve("base.en", announce=said.append)
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "tokenizer.json"}
    assert (folder / "model.safetensors").read_bytes() == repo["model.safetensors"]
    size = sum(len(repo[name]) for name in ("config.json", "model.safetensors", "tokenizer.json"))
    assert said == [f"downloading {REPO} ({format_size(size)}) from the Hugging Face hub to {hub_cache()}"]
    assert sorted(online.downloads) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert online.downloads[-1] == "model.safetensors"
    assert load_checkpoint("base.en").name == "base.en"


def test_what_is_here_is_used_without_the_network(online: FakeHub, repo: dict[str, bytes]) -> None:
    folder = hub.resolve("base.en")
    online.requests.clear()
    assert hub.resolve("base.en", announce=pytest.fail) == folder
    assert hub.resolve(REPO) == folder
    assert hub.path("base.en") == folder
    assert online.requests == []


def test_pull_asks_for_news(online: FakeHub, repo: dict[str, bytes]) -> None:
    first = hub.pull("base.en")
    said: list[str] = []
    assert hub.pull("base.en", announce=said.append) == first
    assert said == []
    online.repos[REPO]["main"] = {**repo, "generation_config.json": b'{"suppress_tokens": [7]}'}
    second = hub.pull("base.en")
    assert second != first
    assert online.downloads.count("model.safetensors") == 1  # the same content is not fetched twice
    assert load_checkpoint("base.en").generation.suppress_tokens == (7,)
    assert hub.pull("nano.en") == BUNDLED_DIR / "nano.en"


def test_pull_offline_keeps_what_is_here(
    online: FakeHub, repo: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = hub.pull("base.en")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.pull("base.en") == folder


def test_shards(online: FakeHub, repo: dict[str, bytes]) -> None:
    shard = repo.pop("model.safetensors")
    repo["model-00001-of-00001.safetensors"] = shard
    repo["model.safetensors.index.json"] = json.dumps(
        {"weight_map": {"a": "model-00001-of-00001.safetensors"}}
    ).encode()
    folder = hub.resolve("base.en")
    assert online.downloads[-1] == "model-00001-of-00001.safetensors"
    assert "pytorch_model.bin" not in online.downloads
    assert "model.fp32-00001-of-00001.safetensors" not in online.downloads
    assert load_checkpoint(folder).tensors.files[0].read_bytes() == shard


@pytest.mark.slow
def test_a_pinned_revision(online: FakeHub, repo: dict[str, bytes]) -> None:
    online.repos[REPO]["v1"] = {**repo, "generation_config.json": b'{"suppress_tokens": [1]}'}
    assert load_checkpoint("base.en").generation.suppress_tokens is None
    assert load_checkpoint("base.en@v1").generation.suppress_tokens == (1,)
    assert load_checkpoint(REPO, revision="v1").generation.suppress_tokens == (1,)
    commit = online.commit(REPO, "v1")
    online.requests.clear()
    assert load_checkpoint(f"{REPO}@{commit}").generation.suppress_tokens == (1,)
    assert online.requests == []


def test_a_missing_revision(online: FakeHub, repo: dict[str, bytes]) -> None:
    with pytest.raises(DownloadError, match=f"commit of {REPO}; it has no 'v9'"):
        hub.resolve("base.en@v9")


def test_a_repository_that_is_not_there(online: FakeHub) -> None:
    with pytest.raises(DownloadError, match="org/nothing is not on the Hugging Face hub, or is private"):
        hub.resolve("org/nothing")


def test_a_gated_repository(online: FakeHub, repo: dict[str, bytes]) -> None:
    online.gated.add(REPO)
    with pytest.raises(DownloadError, match=f"agree to terms.*{REPO}.*hf auth login"):
        hub.resolve("base.en")


@pytest.mark.parametrize(
    ("status", "hint"), [(500, "the problem is there"), (429, "the problem is there"), (403, "hf auth whoami")]
)
def test_a_hub_in_trouble(online: FakeHub, status: int, hint: str) -> None:
    online.status = status
    with pytest.raises(DownloadError, match=f"answered {status}.*{hint}"):
        hub.resolve("base.en")


@pytest.mark.slow
def test_an_interrupted_download_goes_on_next_time(online: FakeHub, repo: dict[str, bytes]) -> None:
    repo["tokenizer.json"] = (BUNDLED_DIR / "nano.en" / "tokenizer.json").read_bytes()
    online.cut_after = len(repo["tokenizer.json"])  # the small files still arrive
    repo["model.safetensors"] += bytes(len(repo["tokenizer.json"]))
    with pytest.raises(DownloadError, match=r"was interrupted.*Run the same command again"):
        hub.resolve("base.en")
    with pytest.raises(CheckpointNotFoundError, match=r"only in part on this machine.*models pull base.en"):
        hub.path("base.en")
    assert [model.state for model in hub.list_models() if model.name == "base.en"] == ["available"]
    online.cut_after = None
    online.requests.clear()
    folder = hub.resolve("base.en")
    assert online.downloads == ["model.safetensors"]
    assert (folder / "model.safetensors").stat().st_size == len(repo["model.safetensors"])


def test_what_is_no_whisper_is_refused_before_its_weights(online: FakeHub, repo: dict[str, bytes]) -> None:
    repo["config.json"] = b'{"model_type": "bert"}'
    with pytest.raises(CheckpointError, match="got 'bert'"):
        hub.resolve("base.en")
    assert "model.safetensors" not in online.downloads


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_conversions_for_other_programs(online: FakeHub, repo: dict[str, bytes], missing: str) -> None:
    del repo[missing]
    del repo["pytorch_model.bin"]
    with pytest.raises(CheckpointError, match=f"has no {missing}; .*name the original model"):
        hub.resolve("base.en")


@pytest.mark.parametrize(
    ("available", "index", "weights"),
    [
        (["model.safetensors", "pytorch_model.bin"], [], ["model.safetensors"]),
        (["pytorch_model.bin", "model.fp32.safetensors"], [], ["pytorch_model.bin"]),
        (
            [
                "model.safetensors.index.json",
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
                "model.fp32-00001-of-00002.safetensors",
                "pytorch_model.bin",
            ],
            ["model.safetensors.index.json"],
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
        ),
        (
            ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin", "training_args.bin"],
            ["pytorch_model.bin.index.json"],
            ["pytorch_model-00001-of-00001.bin"],
        ),
    ],
)
def test_one_copy_of_the_weights_is_enough(available: list[str], index: list[str], weights: list[str]) -> None:
    assert needed_files(HubModel("a/b"), ["config.json", *available]) == (["config.json", *index], weights)


def test_the_files_of_an_old_repository() -> None:
    names = ["config.json", "model.safetensors", "vocab.json", "merges.txt", "added_tokens.json", "normalizer.json"]
    small, weights = needed_files(HubModel("a/b"), names)
    assert small == ["config.json", "vocab.json", "merges.txt", "added_tokens.json"]
    assert weights == ["model.safetensors"]


def test_offline() -> None:
    with pytest.raises(DownloadError, match=r"HF_HUB_OFFLINE.*models pull openai/whisper-base.en.*nano.en"):
        hub.resolve("base.en")


def test_no_network(online: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    with pytest.raises(DownloadError, match=r"cannot be reached.*Check the network.*models pull.*give its path"):
        hub.resolve("base.en")


def test_too_little_space(online: FakeHub, repo: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 50_000_000))
    with pytest.raises(DiskSpaceError, match=r"expected \d+ MB free in .*; 50 MB are"):
        hub.resolve("base.en", announce=pytest.fail)
    assert online.downloads == []


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("IO Error: No space left on device (os error 28)"),
    ],
)
def test_space_that_runs_out(
    online: FakeHub, repo: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(*_: Any, **__: Any) -> str:
        raise ValueError("wrapped") from error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", full)
    with pytest.raises(DiskSpaceError, match="became full while downloading"):
        hub.resolve("base.en")


def test_a_cache_that_cannot_be_written(
    online: FakeHub, repo: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any, **__: Any) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", "/cache")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", denied)
    with pytest.raises(DownloadError, match=r"expected to write to .*Set HF_HOME"):
        hub.resolve("base.en")


def test_where_no_cache_can_be_made_a_model_is_downloaded_elsewhere(
    online: FakeHub, repo: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: Path
) -> None:
    blocked = tmp_path / "a file"
    blocked.touch()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(blocked / "hub"))
    folder = hub.resolve("base.en")
    assert folder.is_relative_to(spare / "hub")
    assert hub.path("base.en") == folder


def test_a_library_that_returns_half_a_model(
    online: FakeHub, repo: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a connection older versions of huggingface_hub return what they have."""
    original = huggingface_hub.snapshot_download

    def half(name: str, *, allow_patterns: list[str], **others: Any) -> str:
        small = [file for file in allow_patterns if not file.endswith(".safetensors")]
        return str(original(name, allow_patterns=small, **others))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", half)
    with pytest.raises(DownloadError, match="was interrupted"):
        hub.resolve("base.en")


def test_the_list_of_models(online: FakeHub, repo: dict[str, bytes]) -> None:
    online.repos["someone/finetuned"] = {"main": repo}
    online.repos["someone/bert"] = {"main": {**repo}}
    hub.pull("base.en")
    hub.pull("someone/finetuned")
    other = hub.pull("someone/bert")
    (other / "config.json").unlink()
    (other / "config.json").write_text('{"model_type": "bert"}')
    models = {model.name: model for model in hub.list_models()}
    assert list(models) == ["nano.en", *SHORT_NAMES, "someone/finetuned", "smart-turn", "speakers"]
    assert (models["nano.en"].state, models["nano.en"].path) == ("bundled", BUNDLED_DIR / "nano.en")
    assert (models["tiny"].state, models["tiny"].size, models["tiny"].parameters) == ("available", None, 39)
    cached = models["base.en"]
    assert (cached.state, cached.repo, cached.path) == ("cached", REPO, hub.path("base.en"))
    assert cached.size == sum(len(repo[name]) for name in ("config.json", "model.safetensors", "tokenizer.json"))
    assert models["someone/finetuned"].state == "cached"


def test_the_list_of_models_without_a_cache() -> None:
    assert not hub_cache().exists()
    assert {model.state for model in hub.list_models()} == {"bundled", "available"}


def test_remove(online: FakeHub, repo: dict[str, bytes]) -> None:
    online.repos[REPO]["v1"] = {**repo, "generation_config.json": b"{}"}
    hub.pull("base.en")
    hub.pull("base.en@v1")
    planned = hub.plan_removal("base.en@v1")
    assert planned.size == len(b"{}")  # the other files belong to both
    assert hub.path("base.en@v1").is_dir(), "nothing is deleted before it is told to"
    planned.execute()
    assert hub.path("base.en").is_dir()
    with pytest.raises(CheckpointNotFoundError):
        hub.path("base.en@v1")
    size = sum(len(repo[name]) for name in ("config.json", "model.safetensors", "tokenizer.json"))
    planned = hub.plan_removal("base.en")
    assert (planned.size, planned.place) == (size, "the Hugging Face cache, which other programs share")
    planned.execute()
    assert not list(hub_cache().rglob("*.safetensors"))
    with pytest.raises(CheckpointNotFoundError, match="nothing to remove"):
        hub.plan_removal("base.en")


def test_what_cannot_be_removed(write_model: WriteModel) -> None:
    with pytest.raises(OptionError, match="part of whispertide"):
        hub.plan_removal("nano.en")
    folder = write_model()
    with pytest.raises(OptionError, match="delete it yourself"):
        hub.plan_removal(str(folder))
    assert (folder / "model.safetensors").is_file()


def test_path_of_what_is_not_here() -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"tiny is not on this machine.*models pull tiny"):
        hub.path("tiny")
    assert hub.path("nano.en") == BUNDLED_DIR / "nano.en"


def test_only_the_tokenizer_is_fetched_for_a_checkpoint_without_one(
    online: FakeHub, write_model: WriteModel, multilingual_folder: Path
) -> None:
    folder = write_model(n_vocab=51_865)
    (folder / "tokenizer.json").unlink()
    online.repos["openai/whisper-tiny"] = {"main": {**content(multilingual_folder), "model.safetensors": b"large"}}
    said: list[str] = []
    model = load_checkpoint(folder, announce=said.append)
    assert model.tokenizer.language_tokens["de"] == 50261
    assert online.downloads == ["tokenizer.json"]
    assert said == ["downloading the tokenizer of openai/whisper-tiny (about 2 MB) from the Hugging Face hub"]


PROGRAM = """
import sys
from whispertide.checkpoint import load_checkpoint
from whispertide.errors import WhispertideError
try:
    print(load_checkpoint(sys.argv[1], announce=print).content_hash)
except WhispertideError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_the_environment_variables_of_the_hub(online: FakeHub, repo: dict[str, bytes], tmp_path: Path) -> None:
    """Whole program runs: HF_ENDPOINT and HF_HOME lead to the fake hub, HF_HUB_OFFLINE forbids it."""

    def run(name: str, **variables: str) -> str:
        environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_ENDPOINT": online.endpoint, **variables}
        environment.pop("HF_HUB_CACHE", None)
        environment["PYTHONPATH"] = str(BUNDLED_DIR.parent.parent)
        program = [sys.executable, "-c", PROGRAM, name]
        return subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout

    assert run("base.en", HF_HUB_OFFLINE="1").startswith("DownloadError openai/whisper-base.en is not on this machine")
    first = run("base.en", HF_HUB_OFFLINE="0")
    assert first.startswith("downloading openai/whisper-base.en")
    online.requests.clear()
    assert run("base.en", HF_HUB_OFFLINE="1") == first.splitlines()[1] + "\n"
    assert online.requests == []
