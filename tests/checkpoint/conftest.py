"""Small checkpoints with random weights, a multilingual tokenizer, and caches that are never the user's."""

import itertools
import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import constants
from safetensors.numpy import save

from fake_hub import REPO, FakeHub, content, running_hub
from multilingual_tokenizer import multilingual_tokenizer
from random_models import hf_config
from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.layout import expected_shapes
from whispertide.checkpoint.names import BUNDLED_DIR

NANO = BUNDLED_DIR / "nano.en"

# A Whisper in miniature, but with the real vocabulary.
SMALL = ModelDims(
    n_mels=80,
    n_audio_ctx=20,
    n_audio_state=8,
    n_audio_head=2,
    n_audio_layer=1,
    n_vocab=51_864,
    n_text_ctx=16,
    n_text_state=8,
    n_text_head=2,
    n_text_layer=2,
)


@pytest.fixture(autouse=True)
def _own_caches(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test starts with empty caches and without a network."""
    root = tmp_path_factory.mktemp("caches")
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(root / "whispertide"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(root / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def dims() -> ModelDims:
    return SMALL


@cache
def random_weights(dims: ModelDims) -> bytes:
    """A safetensors file."""
    rng = np.random.default_rng(0)
    tensors = {
        f"model.{name}": rng.standard_normal(shape, dtype=np.float32) for name, shape in expected_shapes(dims).items()
    }
    return bytes(save(tensors))


WriteModel = Callable[..., Path]


@pytest.fixture
def write_model(tmp_path: Path) -> WriteModel:
    """Writes a folder in Hugging Face layout; keywords change the dimensions that the weights have."""
    counter = itertools.count()

    def write(folder: Path | None = None, **changes: int) -> Path:
        dims = replace(SMALL, **changes)
        folder = folder or tmp_path / f"model{next(counter)}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(hf_config(dims)))
        (folder / "model.safetensors").write_bytes(random_weights(dims))
        shutil.copy(NANO / "tokenizer.json", folder)
        return folder

    return write


@pytest.fixture(scope="session")
def openai_tokenizer() -> Callable[..., Any]:
    """openai-whisper's `get_tokenizer`, which leaves a file open each time that it reads a vocabulary."""
    from whisper import tokenizer as original

    def get(multilingual: bool, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            return original.get_tokenizer(multilingual, **options)

    return get


@pytest.fixture(scope="session")
def multilingual_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("multilingual")
    (folder / "tokenizer.json").write_text(multilingual_tokenizer(99))
    return folder


@pytest.fixture(scope="session")
def v3_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("v3")
    (folder / "tokenizer.json").write_text(multilingual_tokenizer(100))
    return folder


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub on this machine, with huggingface_hub's settings pointing at it."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with running_hub() as server:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", server.endpoint)
        template = server.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        hasty = SimpleNamespace(**{**vars(time), "sleep": lambda _: None})
        monkeypatch.setattr("huggingface_hub.file_download.time", hasty)
        yield server
        huggingface_hub.close_session()


@pytest.fixture
def repo(online: FakeHub, write_model: WriteModel) -> dict[str, bytes]:
    """The files of base.en on the hub: a small model under its name, with the duplicates that real ones have."""
    files = content(write_model())
    duplicates = ("pytorch_model.bin", "flax_model.msgpack", "tf_model.h5", "model.fp32-00001-of-00001.safetensors")
    files |= {"README.md": b"# base.en", **dict.fromkeys(duplicates, b"large")}
    online.repos[REPO] = {"main": files}
    return files
