"""What an offramp for commands learns from: the newest text of each, and whether its intent was wrong."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from small_late import TEXTS, late_model, small_late
from told_gate import Loud
from whispertide.audio.vad import SpeechGate
from whispertide.cli.exit import ExitCode
from whispertide.cli.main import app
from whispertide.errors import CorpusError
from whispertide.methods.pilot.trained_offramp import TRAINED
from whispertide.understand.checkpoint import save_late
from whispertide.understand.model import LateModel
from whispertide.understand.offramp import load_offramp
from whispertide_lab.evaluation.items.offloading import asked_of
from whispertide_lab.training.augment import Augmentation
from whispertide_lab.training.latecontext import offramp
from whispertide_lab.training.latecontext.intent_words import learn_intents
from whispertide_lab.training.latecontext.offramp import hear_commands
from whispertide_lab.training.latecontext.understood import hear
from whispertide_lab.training.offramp import OfframpOptions
from whispertide_lab.training.shards import Utterance, write_shard

pytestmark = pytest.mark.slow

AS_THEY_ARE = OfframpOptions(augmentation=Augmentation.none())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late") / "model"
    words = learn_intents([*TEXTS[:2], ""], (0, 1, 1), 2)
    save_late(replace(small_late(), intent_words=words), folder)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[LateModel]:
    with late_model(folder) as opened:
        yield opened


@pytest.fixture(autouse=True)
def hears_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The voice gate takes everything for speech: these commands are noise."""
    monkeypatch.setattr("whispertide.understand.understanding.SpeechGate", partial(SpeechGate, detector=Loud()))


def command(number: int, seconds: float = 1.2) -> Utterance:
    sound = np.random.default_rng(number).normal(0, 4000, round(16_000 * seconds)).astype(np.int16)
    return Utterance(sound, TEXTS[number % 3], "noise", None, intent=("play_music", "alarm_set")[number % 2])


def test_the_newest_text_and_whether_the_intent_was_wrong(model: LateModel, monkeypatch: pytest.MonkeyPatch) -> None:
    rights = iter((True, False))
    monkeypatch.setattr(offramp, "hear", lambda *asked: replace(hear(*asked), right=next(rights)))
    found = [one for one in hear_commands(model, [command(0), command(1)], AS_THEY_ARE) if one is not None]
    assert [one.wrong for one in found] == [False, True]
    for one in found:
        assert one.scores.logprobs
        assert one.states.shape[1] == model.dims.width


def test_without_commands_there_is_nothing_to_learn(model: LateModel) -> None:
    with pytest.raises(CorpusError, match="with intents"):
        list(hear_commands(model, [], AS_THEY_ARE))


def test_where_nothing_was_heard_there_is_nothing_to_learn(model: LateModel) -> None:
    silent = Utterance(np.zeros(16_000, np.int16), "play some music", "silence", None, intent="play_music")
    assert list(hear_commands(model, [silent], AS_THEY_ARE)) == [None]


def test_the_command(model: LateModel, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide_lab.training.offramp._FEWEST", 1)
    monkeypatch.setattr("whispertide_lab.training.offramp.OfframpOptions", partial(OfframpOptions, epochs=2))
    (tmp_path / "data").mkdir()
    people = [replace(command(number), intent=None) for number in range(9)]
    write_shard(tmp_path / "data", 0, [*(command(number) for number in range(20)), *people])
    arguments = ["train", "offramp", str(folder), "--output", str(tmp_path / "out"), "--utterances", "50"]
    without = CliRunner().invoke(app, arguments)
    assert without.exit_code == ExitCode.USAGE
    assert "whispertide train commands" in without.stderr
    result = CliRunner().invoke(app, [*arguments, "--data", str(tmp_path / "data")])
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == [str(tmp_path / "out" / f"offramp-{kind}.npz") for kind in TRAINED]
    late = LateModel.open(folder).checkpoint
    for kind in TRAINED:
        found = load_offramp(tmp_path / "out", late, kind)
        assert found.report["utterances"] == 20, "recordings without an intent are left out"
    asked = asked_of(tmp_path / "out", late)
    asked.offload_probability((-0.5,), np.zeros((50, late.dims.width), np.float32))
    assert asked.said_of(0).keys() == set(TRAINED)
    assert not asked_of(tmp_path, late).offramps
