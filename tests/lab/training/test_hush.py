"""Training a hush word: gradients through the log-mel, a loss that falls, exact resumption, the command."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from command_line import write_wav
from small_training import nano, quiet, resumed, small_dims
from whispertide.cli.main import app
from whispertide.errors import CheckpointError, CorpusError, OptionError, OutputError
from whispertide.methods.short.hush import HushWord
from whispertide_lab.training.augment import Augmentation
from whispertide_lab.training.hush import (
    HushBatches,
    HushOptions,
    HushTrainer,
    HushWindow,
    hush_loss,
    open_trainer,
)
from whispertide_lab.training.hush_windows import HushWindowOptions
from whispertide_lab.training.loop import LOG, STATE
from whispertide_lab.training.network import Whisper, load_network, new_network
from whispertide_lab.training.shards import Shards, open_shards

pytestmark = pytest.mark.slow

WINDOWS = HushWindowOptions(longest_s=1.5, augmentation=Augmentation.none())
OPTIONS = HushOptions(
    seconds=0.2, steps=6, epoch=2, batch=2, rate=0.05, best=2, held_out=3, content_hash="c" * 64, windows=WINDOWS
)


@pytest.fixture(scope="module")
def network() -> Whisper:
    return new_network(small_dims(), 0)


def batches(shards: Shards, options: HushOptions = OPTIONS) -> HushBatches:
    return HushBatches(shards, nano().tokenizer, options, n_mels=80, seed=0)


def trainer(network: Whisper, shards: Shards, folder: Path, **changes: Any) -> HushTrainer:
    return open_trainer(network, nano().tokenizer, shards, replace(OPTIONS, **changes), folder)


def in_double(window: HushWindow) -> HushWindow:
    parts = (window.before.double(), window.tail.double(), window.peak.double())
    return HushWindow(*parts, window.tokens, window.targets)


def test_the_gradient_reaches_the_hush_word_through_the_mel(shards: Shards) -> None:
    """Against finite differences, in double precision, along the gradient and along single samples."""
    network = new_network(small_dims(), 1).double().eval()
    window = in_double(batches(shards)[3].windows[0])
    rng = np.random.default_rng(0)
    hush = torch.tensor(0.1 * rng.standard_normal(3200), requires_grad=True)
    hush_loss(network, hush, window).backward()
    gradient = hush.grad
    assert gradient is not None
    places = [torch.eye(3200, dtype=torch.float64)[place] for place in (5, 160, 1600, 3100)]
    for direction in (gradient / gradient.norm(), *places):
        step = 1e-6
        with torch.no_grad():
            ahead = hush_loss(network, hush + step * direction, window)
            back = hush_loss(network, hush - step * direction, window)
        expected = float((ahead - back) / (2 * step))
        assert float(gradient @ direction) == pytest.approx(expected, rel=1e-3, abs=1e-7)
    assert float(gradient.norm()) > 1e-4


def test_the_gradient_is_zero_where_the_floor_of_loud_speech_hides_it(shards: Shards) -> None:
    network = new_network(small_dims(), 1).eval()
    window = batches(shards)[3].windows[0]
    hush = torch.full((3200,), 1e-7, requires_grad=True)
    hush_loss(network, hush, window).backward()
    assert hush.grad is not None
    assert not hush.grad[600:].any()


def test_the_loss_falls_on_a_fixed_batch(tmp_path: Path, shards: Shards) -> None:
    bundled = load_network(nano())
    run = trainer(bundled, shards, tmp_path / "run", rate=0.03, steps=40)
    batch = run.batches[0]
    losses = [run.update(batch) for _ in range(8)]
    assert min(losses[-3:]) < 0.97 * losses[0]
    assert all(p.grad is None for p in bundled.parameters())


def test_a_resumed_run_is_the_run_that_was_not_interrupted(tmp_path: Path, network: Whisper, shards: Shards) -> None:
    whole = trainer(network, shards, tmp_path / "whole")
    assert whole.run(quiet)
    for stop_at in (1, 4):
        second = resumed(trainer, network, shards, tmp_path / f"stopped{stop_at}", at=stop_at)
        np.testing.assert_array_equal(second.result().samples, whole.result().samples)
        assert [epoch.step for epoch in second.best] == [epoch.step for epoch in whole.best]


def test_the_best_epochs_are_averaged(tmp_path: Path, network: Whisper, shards: Shards) -> None:
    run = trainer(network, shards, tmp_path / "run", steps=8)
    seen = []
    run.run(lambda step, figures: seen.append(figures["held_out"]) if "held_out" in figures else None)
    assert len(seen) == 4
    assert [epoch.loss for epoch in run.best] == sorted(seen)[:2]
    word = run.result()
    kept = [epoch.parameters[0] for epoch in run.best]
    expected = {"average": torch.stack(kept).mean(0), "best": kept[0]}[word.report["kept"]]
    np.testing.assert_array_equal(word.samples, expected.numpy())
    assert word.content_hash == "c" * 64
    assert word.report["held_out"] <= round(sorted(seen)[0], 4)
    assert word.report["options"]["windows"]["longest_s"] == 1.5
    lines = (tmp_path / "run" / LOG).read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [2, 4, 6, 8]


def test_another_run_s_folder_is_refused(tmp_path: Path, network: Whisper, shards: Shards) -> None:
    trainer(network, shards, tmp_path / "run").save()
    with pytest.raises(OptionError, match="others for rate, seconds"):
        trainer(network, shards, tmp_path / "run", rate=0.1, seconds=0.3)
    with pytest.raises(OptionError, match="content_hash"):
        trainer(network, shards, tmp_path / "run", content_hash="d" * 64)
    with pytest.raises(OptionError, match="others for speech"):
        trainer(network, shards.having(lambda place: place != shards.places[0]), tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(OutputError, match="neither"):
        trainer(network, shards, tmp_path / "mine")
    (tmp_path / "run" / STATE).write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="damaged"):
        trainer(network, shards, tmp_path / "run")


def test_too_little_speech_is_refused(tmp_path: Path, network: Whisper, shards: Shards) -> None:
    with pytest.raises(CorpusError, match="at least 40 utterances"):
        trainer(network, Shards(shards.places[:20]), tmp_path / "run")


@pytest.mark.parametrize("change", [{"seconds": 0.0}, {"seconds": 9.0}, {"steps": 0}, {"rate": 0.0}, {"best": 0}])
def test_options_that_make_no_sense(change: dict[str, Any]) -> None:
    with pytest.raises((OptionError, CheckpointError), match="expected"):
        HushOptions(**change)


# --- the command ------------------------------------------------------------------------------------------------------


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["train", "hush", *map(str, arguments)])


def test_the_command_trains_and_goes_on(tmp_path: Path, more_speech: Path) -> None:
    path = tmp_path / "hush.npz"
    common = (
        "--model",
        "nano.en",
        "--run",
        tmp_path / "run",
        "-o",
        path,
        "--seconds",
        0.2,
        "--batch",
        1,
        "--held-out",
        2,
        "-j",
        0,
    )
    result = command(*common, "--data", more_speech, "--steps", 2)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == str(path)
    word = HushWord.load(path)
    assert (word.seconds, word.content_hash) == (0.2, nano().tensors_hash)
    path.unlink()
    again = command(*common, "--data", more_speech, "--steps", 2)
    assert again.exit_code == 0
    assert "update 2, 100% of the run" in again.stderr
    np.testing.assert_array_equal(HushWord.load(path).samples, word.samples)
    other = command(*common, "--data", more_speech, "--steps", 3)
    assert other.exit_code == 2
    assert "got others for steps" in other.stderr


def test_without_a_folder_the_run_is_kept_here_under_its_length_and_model(
    tmp_path: Path, more_speech: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ("--model", "nano.en", "--seconds", 0.2, "--batch", 1, "--held-out", 1, "-j", 0, "--steps", 1)
    result = command(*asked, "--data", more_speech, "-o", "word.npz")
    assert result.exit_code == 0, result.stderr
    folder = f"hush-0.2s-{nano().content_hash[:8]}"
    assert f"the run is kept in {folder}" in result.stderr
    assert (tmp_path / folder / "log.jsonl").exists()


def test_a_manifest_is_prepared_next_to_the_run_once(tmp_path: Path) -> None:
    """Three recordings are too few to train with, which is said after they were made into shards."""
    lines = []
    for number, text in enumerate(("The red fox ran.", "Good day.", "Hi.")):
        write_wav(tmp_path / f"{number}.wav", 1)
        lines.append(json.dumps({"audio": f"{number}.wav", "text": text}))
    manifest = tmp_path / "mine.jsonl"
    manifest.write_text("\n".join(lines))
    asked = ("--model", "nano.en", "--run", tmp_path / "run", "--data", manifest, "-j", 0)
    first = command(*asked)
    assert "expected at least 40 utterances" in first.stderr
    assert len(open_shards(list(tmp_path.glob("run-speech-*")))) == 3
    (tmp_path / "0.wav").unlink()
    again = command(*asked)
    assert first.stderr.endswith(again.stderr), "nothing is prepared again"


def test_the_command_says_what_is_wrong(tmp_path: Path, more_speech: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = command("--model", "nano.en", "--run", tmp_path / "run", "--data", tmp_path / "nowhere")
    assert (missing.exit_code, "does not exist" in missing.stderr) == (2, True)
    length = command("--model", "nano.en", "--run", tmp_path / "run", "--data", more_speech, "--seconds", 7)
    assert length.exit_code == 2
    assert "0.1 to 5 s" in length.stderr
    import sys

    monkeypatch.delitem(sys.modules, "whispertide_lab.training.device")
    monkeypatch.setitem(sys.modules, "torch", None)
    result = command("--model", "nano.en", "--run", tmp_path / "run")
    assert result.exit_code == 2
    assert "expected PyTorch for training" in result.stderr


def test_a_hush_word_can_be_learned_from_the_model_s_own_text(tmp_path: Path, more_speech: Path) -> None:
    path = tmp_path / "hush.npz"
    common = f"--model nano.en --run {tmp_path / 'run'} -o {path} --seconds 0.2 --batch 1 --held-out 2 -j 0 --steps 1"
    result = command(*common.split(), "--data", more_speech, "--pseudo-labels")
    # Nano hears no words in tones, so nothing is left to learn from.
    assert result.exit_code == 3, result.stderr
    assert "nano.en transcribes" in result.stderr
    assert "at least 40 utterances" in result.stderr
