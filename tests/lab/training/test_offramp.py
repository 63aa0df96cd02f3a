"""Training offramps: what went wrong is learned from what pilots were like."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import whispertide
from whispertide.cli.bundled import bundled_audio
from whispertide.cli.main import app
from whispertide.errors import CorpusError, OptionError
from whispertide.methods.pilot.pilot import Scores
from whispertide_lab.evaluation.trained_offramp import TRAINED, Trained, TrainedOfframp
from whispertide_lab.training.augment import Augmentation
from whispertide_lab.training.offramp import (
    Example,
    OfframpOptions,
    areas,
    fitting,
    hear_examples,
    pilots_recipe,
    train_offramp,
)
from whispertide_lab.training.shards import Utterance, write_shard

pytestmark = pytest.mark.slow

QUICK = OfframpOptions(epochs=10)


def example(number: int, wrong: bool) -> Example:
    """One that went wrong has unlikely tokens in a row, and states with a pattern; else as many here and there."""
    dice = np.random.default_rng(number)
    logprobs = -0.1 * dice.random(12)
    places = np.arange(4) + dice.integers(8) if wrong else np.arange(0, 12, 3)
    logprobs[places] = -2.0
    states = dice.standard_normal((60, 8))
    states[:, :4] += 1.5 * wrong
    return Example(Scores(tuple(logprobs.tolist()), 0.5), states.astype(np.float16), 3 * wrong, 10)


EXAMPLES = [example(number, bool(number % 3 == 0)) for number in range(240)]


@pytest.mark.parametrize(("kind", "epochs"), [("bilstm", 30), ("cnn", 8), ("linear", 20)])
def test_it_learns(kind: Trained, epochs: int) -> None:
    trained = train_offramp(kind, EXAMPLES, OfframpOptions(epochs=epochs), "abc")
    fresh = [example(1000 + number, bool(number % 2)) for number in range(60)]
    assert areas(trained, fresh)[f"area_{kind}"] > 0.9
    assert abs(areas(trained, fresh)["area_perplexity"] - 0.5) < 0.25, "the tokens are as unlikely in both sorts"
    assert trained.report["utterances"] == 240
    assert trained.content_hash == "abc"


def test_the_seed_decides() -> None:
    one, other = (train_offramp("bilstm", EXAMPLES, replace(QUICK, epochs=2), "") for _ in range(2))
    assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)
    third = train_offramp("bilstm", EXAMPLES, replace(QUICK, epochs=2, seed=1), "")
    assert not np.array_equal(one.arrays["out.weight"], third.arrays["out.weight"])


def test_where_nothing_goes_wrong_nothing_can_be_learned() -> None:
    with pytest.raises(CorpusError, match="harder speech"):
        train_offramp("cnn", [example(number, False) for number in range(100)], QUICK, "")


def test_impossible_options() -> None:
    with pytest.raises(OptionError):
        OfframpOptions(epochs=0)


def spoken() -> list[Utterance]:
    """Two sentences of the bundled recording, and a piece too short for a pilot."""
    audio = (bundled_audio() * 32767).astype(np.int16)
    return [Utterance(audio[: 16_000 * end], "some words", "bundled", None) for end in (4, 6, 1)]


def test_the_newest_pilot_of_each_utterance() -> None:
    model = whispertide.load("nano.en", threads=1)
    options = OfframpOptions(augmentation=Augmentation.none())
    recipe = model.framed(pilots_recipe()).recipe
    heard = list(hear_examples(model.model, recipe, spoken(), options))
    assert heard[2] is None
    for found in heard[:2]:
        assert found is not None
        assert found.scores.logprobs
        assert found.states.shape[1] == model.dims.n_audio_state
        assert found.words == 2
        assert found.wrong, "the reference is not what is said"
    assert heard[0] is not None
    assert heard[0].states.shape[0] == 200, "the pilot that ends with the audio: 4 s of 20 ms"


def test_utterances_are_chosen_by_the_seed() -> None:
    said = [
        Utterance(np.zeros(16_000 * length, np.int16), text, "x", None)
        for length, text in ((2, "a"), (25, "too long"), (3, "b"), (2, " "), (4, "c"))
    ]
    chosen = fitting(said, OfframpOptions(utterances=2))
    assert len(chosen) == 2
    assert {one.text for one in fitting(said, OfframpOptions())} == {"a", "b", "c"}


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide_lab.training.offramp._FEWEST", 1)
    monkeypatch.setattr("whispertide_lab.training.offramp.OfframpOptions", partial(OfframpOptions, epochs=3))
    audio = (bundled_audio()[: 12 * 16_000] * 32767).astype(np.int16)
    model = whispertide.load("nano.en", threads=1)
    sentences = [(part.text, audio[part.start : part.end]) for part in model.transcribe(audio).segments]
    said = [
        Utterance(piece, text, "bundled", None)
        for right, piece in sentences
        for text in (right, "nobody said any of these words")
    ]
    (tmp_path / "data").mkdir()
    write_shard(tmp_path / "data", 0, said)
    arguments = ["train", "offramp", "nano.en", "--data", str(tmp_path / "data"), "--output", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    files = [tmp_path / "out" / f"offramp-{kind}.npz" for kind in TRAINED]
    assert result.stdout.split() == [str(file) for file in files]
    for kind, file in zip(TRAINED, files, strict=True):
        found = TrainedOfframp.load(file, kind, width=model.dims.n_audio_state, content_hash=model.model.content_hash)
        assert 0 < found.report["utterances"] <= len(said)
        assert f"area_{kind}" in found.report
