"""A drafter's training: what is heard belongs to what is said, a language is learned, and a run can be taken up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from random_models import small_multilingual
from whispertide.decoding.recurrent import Cell, CellWeights, Recurrent
from whispertide.errors import CheckpointError, CorpusError, OptionError
from whispertide.model.whisper import WhisperModel
from whispertide_lab.training.drafter import (
    PART,
    DrafterOptions,
    DrafterTrainer,
    HiddenStates,
    Places,
    hear,
    hear_all,
    open_trainer,
)
from whispertide_lab.training.shards import Shards, Utterance, open_shards, write_shard

pytestmark = pytest.mark.slow

OPTIONS = DrafterOptions(windows=40, known=24, size=16, steps=60, batch=32, rate=0.03)
WIDTH, VOCABULARY = 12, 40
EMBEDDING = np.random.default_rng(1).normal(size=(VOCABULARY, WIDTH)).astype(np.float32)


def text(number: int, length: int = 30) -> HiddenStates:
    """A language in which each token but one says what comes next; after that one the decoder's state does."""
    dice = np.random.default_rng(number)
    said, hidden = [int(dice.integers(1, 20))], []
    for _ in range(length - 1):
        choice = int(dice.integers(1, 20))
        said.append(said[-1] + 1 if said[-1] else choice)
        hidden.append(EMBEDDING[choice])
        said[-1] %= 20
    hidden.append(EMBEDDING[0])
    return HiddenStates(np.array(hidden, np.float16), np.array(said))


TEXTS = [text(number) for number in range(40)]


def trainer(folder: Path, **changes: Any) -> DrafterTrainer:
    return DrafterTrainer(TEXTS, EMBEDDING, replace(OPTIONS, **changes), folder)


def test_a_language_is_learned(tmp_path: Path) -> None:
    learning = trainer(tmp_path)
    before = learning.measured()["accepted"]
    told: list[int] = []
    assert learning.run(lambda step, _: told.append(step))
    assert told[-1] == 60
    weights = learning.result()
    assert weights.report["accepted"] > 3.0 > 2.0 > before
    assert 0 < weights.report["known_share"] <= 1
    cell = Cell(weights, EMBEDDING[weights.tokens])
    tree = Recurrent(cell, width=1, length=3).tree(5, EMBEDDING[0])
    assert tree.tokens == (6, 7, 8)


def test_a_stopped_run_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole = trainer(tmp_path, steps=12)
    assert whole.run(lambda *_: None)
    (tmp_path / "stopped").mkdir()
    first = trainer(tmp_path / "stopped", steps=12)
    assert not first.run(lambda *_: None, stop=lambda: first.step == 5)
    second = trainer(tmp_path / "stopped", steps=12)
    assert second.step == 5
    assert second.run(lambda *_: None)
    for name, values in whole.result().arrays.items():
        np.testing.assert_array_equal(second.result().arrays[name], values)


def test_what_follows_each_place() -> None:
    heard = [
        HiddenStates(np.eye(3, dtype=np.float16), np.array([7, 9, 8])),
        HiddenStates(np.eye(2, 3, dtype=np.float16), np.array([8, 5])),
    ]
    places = Places.of(heard, {7: 0, 8: 1}, 2)
    assert places.rows.tolist() == [[0, 2, 1], [2, 1, -1], [1, 2, -1]]  # 9 and 5 are not known
    assert places.hidden.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("wrong", [{"windows": 3}, {"steps": 0}, {"rate": 0.0}, {"known": 0}])
def test_impossible_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="expected"):
        replace(OPTIONS, **wrong)


# --- hearing ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> WhisperModel:
    return small_multilingual(tmp_path_factory.mktemp("random") / "model", 1)


@pytest.fixture
def speech(tmp_path: Path) -> Shards:
    dice = np.random.default_rng(0)
    said = [
        Utterance(dice.integers(-3000, 3000, 24_000).astype(np.int16), f"read number {number}", "noise", None)
        for number in range(45)
    ]
    (tmp_path / "shards").mkdir()
    write_shard(tmp_path / "shards", 0, said)
    return open_shards([tmp_path / "shards"])


def test_each_state_predicts_its_token(model: WhisperModel, speech: Shards) -> None:
    """The product of a state and the vocabulary is what the decoder says at that place."""
    heard = hear(model, speech, 1, replace(OPTIONS, language="en"))
    assert heard.hidden.shape == (len(heard.said), model.dims.n_text_state)
    assert heard.said[-1] == model.tokenizer.eot
    assert "read number" in model.tokenizer.decode([token for token in heard.said if token < model.tokenizer.eot])


def test_parts_that_are_there_are_not_heard_again(model: WhisperModel, speech: Shards, tmp_path: Path) -> None:
    options = replace(OPTIONS, language="en")
    counts: list[int] = []
    stopped = hear_all(model, speech, options, tmp_path, lambda *_: counts.append(1), stop=lambda: len(counts) == 3)
    assert stopped is None
    first = hear_all(model, speech, options, tmp_path, lambda *_: None)
    again = hear_all(model, speech, options, tmp_path, lambda *_: pytest.fail("heard again"))
    assert first is not None
    assert again is not None
    assert len(first) == len(again) == 40 < PART
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.said, other.said)
    (tmp_path / "heard-0000.npz").write_bytes(b"no")
    with pytest.raises(CheckpointError, match="damaged"):
        hear_all(model, speech, options, tmp_path, lambda *_: None)


def test_a_run_from_speech_to_a_file(model: WhisperModel, speech: Shards, tmp_path: Path) -> None:
    options = replace(OPTIONS, language="en", steps=2, content_hash=model.content_hash)
    training = open_trainer(model, speech, options, tmp_path / "run", lambda *_: None)
    assert training is not None
    training.run(lambda *_: None)
    training.result().save(tmp_path / "drafter.npz")
    found = CellWeights.load(tmp_path / "drafter.npz", model.checkpoint)
    assert found.report["options"]["steps"] == 2
    assert "content_hash" not in found.report["options"]
    with pytest.raises(OptionError, match="got others for seed"):
        open_trainer(model, speech, replace(options, seed=1), tmp_path / "run", lambda *_: None)
    with pytest.raises(CorpusError, match="2 utterances"):
        open_trainer(model, Shards(()), options, tmp_path / "other", lambda *_: None)
