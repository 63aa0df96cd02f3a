"""Single files and conversions for other programs, from the hub."""

import json
from pathlib import Path

import pytest

from converted_files import fused, random_tensors, write_ct2
from fake_hub import FakeHub
from whispertide.checkpoint import ModelDims, hub, load_checkpoint
from whispertide.errors import CheckpointError, CheckpointNotFoundError, DownloadError

CAUSAL = "MLSpeech/CarelessWhisper-Streaming"


@pytest.fixture
def files(online: FakeHub) -> dict[str, bytes]:
    """A repository of single checkpoints, as the authors of WhisperRT have it."""
    made = {"README.md": b"# causal", "base_300.pt": b"three", "base_100.pt": b"one"}
    online.repos[CAUSAL] = {"main": made}
    return made


def test_one_file_of_a_repository(online: FakeHub, files: dict[str, bytes]) -> None:
    name, said = f"{CAUSAL}/base_300.pt", list[str]()
    with pytest.raises(CheckpointNotFoundError, match=f"not on this machine; .*models pull {name}"):
        hub.path(name)
    path = hub.pull(name, announce=said.append)
    assert path.read_bytes() == b"three"
    assert hub.path(name) == hub.resolve(name) == path
    assert online.downloads == ["base_300.pt"]
    assert said[0].startswith(f"downloading {name} (")
    assert hub.plan_removal(name).size


def test_a_file_that_is_not_there_or_not_named(online: FakeHub, files: dict[str, bytes]) -> None:
    with pytest.raises(DownloadError, match=r"a file base\.pt in .*; it has base_100\.pt, base_300\.pt"):
        hub.pull(f"{CAUSAL}/base.pt")
    with pytest.raises(
        CheckpointError, match=rf"single checkpoints: base_100.*name one of them, such as {CAUSAL}/base_100"
    ):
        hub.pull(CAUSAL)


def test_a_gated_file_that_is_refused_says_what_to_do(online: FakeHub, files: dict[str, bytes]) -> None:
    online.gated.add(CAUSAL)
    with pytest.raises(DownloadError, match=f"base_300.pt asks .*agree to terms.*co/{CAUSAL}, .*hf auth login"):
        hub.pull(f"{CAUSAL}/base_300.pt")


@pytest.fixture
def converted(repo: dict[str, bytes], dims: ModelDims, tmp_path: Path) -> dict[str, bytes]:
    """A repository as faster-whisper's are."""
    config = {"alignment_heads": [[0, 1]], "lang_ids": [], "suppress_ids": [1], "suppress_ids_begin": [220]}
    return {
        "config.json": json.dumps(config).encode(),
        "tokenizer.json": repo["tokenizer.json"],
        "vocabulary.txt": b"a\n",
        "README.md": b"# faster",
        "model.bin": write_ct2(tmp_path / "converted" / "model.bin", fused(random_tensors(dims))).read_bytes(),
    }


FASTER = "Systran/faster-whisper-base.en"


def test_a_conversion_for_faster_whisper(online: FakeHub, converted: dict[str, bytes], dims: ModelDims) -> None:
    online.repos[FASTER] = {"main": converted}
    folder = hub.resolve(FASTER)
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.bin", "tokenizer.json", "vocabulary.txt"}
    assert online.downloads[-1] == "model.bin"
    online.requests.clear()
    model = load_checkpoint(FASTER)  # from the cache, where faster-whisper finds it, too
    assert (model.name, model.argument, model.dims) == (FASTER, FASTER, dims)
    assert model.generation.alignment_heads == ((0, 1),)
    assert online.requests == []
    listed = {info.name: info for info in hub.list_models()}[FASTER]
    assert (listed.state, listed.path) == ("cached", folder)


def test_another_conversion_is_refused_before_its_weights(online: FakeHub, converted: dict[str, bytes]) -> None:
    online.repos["org/translator"] = {"main": converted | {"config.json": b'{"bos_token": "<s>"}'}}
    with pytest.raises(CheckpointError, match="is of another model"):
        hub.resolve("org/translator")
    assert "model.bin" not in online.downloads
    assert "org/translator" not in {info.name for info in hub.list_models()}


def test_a_file_of_whisper_cpp(online: FakeHub) -> None:
    online.repos["ggerganov/whisper.cpp"] = {
        "main": dict.fromkeys(("ggml-base.en.bin", "ggml-base.bin", "x.md"), b"lmgg")
    }
    assert hub.resolve("ggerganov/whisper.cpp/ggml-base.en.bin").name == "ggml-base.en.bin"
    assert online.downloads == ["ggml-base.en.bin"]
    with pytest.raises(DownloadError, match=r"it has ggml-base\.bin, ggml-base\.en\.bin"):
        hub.resolve("ggerganov/whisper.cpp/ggml-tiny.bin")
    with pytest.raises(CheckpointError, match=r"name one of them, such as ggerganov/whisper\.cpp/ggml-base\.bin"):
        hub.resolve("ggerganov/whisper.cpp")
