"""A model that shares another's sessions opens none of its own, whoever is asked first."""

import pytest

from whispertide.model.whisper import SharedModel, WhisperModel, load_model
from whispertide.options import EngineOptions


@pytest.fixture
def model() -> WhisperModel:
    return load_model("nano.en", EngineOptions(provider="cpu", threads=1))


def test_sessions_are_shared_whoever_opens_them(model: WhisperModel) -> None:
    shared = SharedModel(model)
    assert shared.encoder is model.encoder
    assert model.decoder_graph is SharedModel(model).decoder_graph is shared.decoder_graph
    assert (shared.name, shared.options, shared.content_hash) == (model.name, model.options, model.content_hash)
