"""The report of a fitted rule: its figures, its file, and the command that makes it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from made_up_streams import made_up
from wav_file import save_wav
from whispertide.audio.file import load_audio
from whispertide.cli.bundled import bundled_audio
from whispertide.cli.main import app
from whispertide.methods.attention.steadiness import FEATURES, read_rule
from whispertide.tuning.steadiness import fit_rule, held_out
from whispertide_lab.training.steadiness_report import accepted, reliability, report, save

S = 16_000
CLIP = Path(__file__).parents[2] / "clips/long.flac"


def test_what_a_rule_accepts_stays_as_it_says() -> None:
    chances, truth = held_out([made_up(800, voice, seed) for seed, voice in enumerate("abcd")])
    taken, changed = accepted(chances, truth, 0.1)
    assert taken > 0.05
    assert changed < 0.1
    assert "calibration error" in report(chances, truth)


def test_a_plot_that_cannot_be_is_told_before_anything_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whispertide.api.load", lambda *_, **__: pytest.fail("a model was loaded"))
    command = ["train", "steadiness", "nano.en", "--audio", str(CLIP), "--plot", str(tmp_path / "rule.html")]
    result = CliRunner().invoke(app, command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected a picture that ends in .png, .pdf, .svg; got 'rule.html'" in result.stderr


def test_a_fitted_rule_is_calibrated_on_voices_that_it_never_met() -> None:
    found = reliability(*held_out([made_up(800, voice, seed) for seed, voice in enumerate("abcd")]))
    assert found.error < 0.05
    assert found.brier < 0.85 * found.base


def test_reliability_sees_a_prediction_that_is_too_sure() -> None:
    truth = [True, False] * 200
    assert reliability([0.9] * 400, truth, bins=1).error == pytest.approx(0.4)
    assert reliability([0.5] * 400, truth, bins=1).error == pytest.approx(0.0)


def test_a_rule_is_kept_with_what_it_was_worth(tmp_path: Path) -> None:
    examples = [made_up(300, voice, seed) for seed, voice in enumerate("ab")]
    rule = fit_rule(examples)
    save(rule, *held_out(examples), tmp_path / "rule.json")
    about = json.loads((tmp_path / "rule.json").read_text())
    assert list(about["weights"]) == list(FEATURES)
    assert about["words"] == 600


@pytest.mark.slow  # two recordings, one for each model, some seconds
def test_the_command_fits_one_rule_to_recordings_that_models_hear_in_turn(tmp_path: Path) -> None:
    sounds = (bundled_audio(), load_audio(CLIP))
    recordings = [save_wav(tmp_path / f"{n}.wav", sound[: 30 * S]) for n, sound in enumerate(sounds)]
    kept, picture = tmp_path / "rule.json", tmp_path / "rule.png"
    command = ["train", "steadiness", "nano.en", "nano.en", "-o", str(kept), "--plot", str(picture)]
    command += [part for recording in recordings for part in ("--audio", str(recording))]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 0, ended.output
    assert "calibration error" in ended.stderr
    assert ended.stderr.count("nano.en: bare windows") == 2
    weights = tuple(json.loads(kept.read_text())["weights"].values())
    assert read_rule(ended.stdout).weights == pytest.approx(weights, rel=1e-3, abs=1e-3)
    assert picture.stat().st_size > 1000
