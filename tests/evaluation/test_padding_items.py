"""What stands behind a clip, and what that costs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whispertide import api
from whispertide.audio.file import load_audio
from whispertide.evaluation import padding_items
from whispertide.evaluation.padding_items import NOISE_BELOW_DB, Way, ways
from whispertide.streaming.framing import HUSH
from whispertide.streaming.hush import HushWord, file_name
from whispertide.types import SAMPLE_RATE, FloatArray

CLIP = Path(__file__).parents[1] / "clips" / "quiet.flac"
WORD = HushWord(np.random.default_rng(0).normal(0, 0.1, SAMPLE_RATE // 2).astype(np.float32))


def sine(seconds: float) -> FloatArray:
    return np.sin(np.arange(round(seconds * SAMPLE_RATE), dtype=np.float32))


def test_noise_behind_a_clip_is_as_far_below_it_as_said() -> None:
    clip = sine(1)
    padded = Way("noise 2 s", 2.0, noise=True).behind(clip)
    assert len(padded) == 3 * SAMPLE_RATE
    assert np.array_equal(padded[:SAMPLE_RATE], clip)
    level = 20 * np.log10(np.std(padded[SAMPLE_RATE:]) / np.sqrt(np.mean(np.square(clip))))
    assert level == pytest.approx(-NOISE_BELOW_DB, abs=0.2)


def test_zeros_are_behind_a_clip_and_a_hush_word_is_the_framings_affair() -> None:
    clip = sine(1)
    zeros = Way("zeros 1 s", 1.0).behind(clip)
    assert np.array_equal(zeros, np.concatenate([clip, np.zeros(SAMPLE_RATE, np.float32)]))
    assert Way("hush 0.5 s", 0.5, HUSH, hush=WORD).behind(clip) is clip
    assert Way("30 s", 30.0, "pad30").behind(clip) is clip


def test_hush_words_beside_the_checkpoint_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(padding_items, "folder_of", lambda model: tmp_path)
    transcriber: Any = type("T", (), {"model": None})
    without = [way.name for way in ways(transcriber)]
    assert without[:2] == ["30 s", "none"]
    assert not any(name.startswith("hush") for name in without)
    WORD.save(tmp_path / file_name(0.5))
    found = ways(transcriber)[-1]
    assert (found.name, found.framing, found.seconds) == ("hush 0.5 s", HUSH, 0.5)


def test_the_encoder_is_charged_for_what_is_behind() -> None:
    transcriber = api.load("nano.en")
    clip = load_audio(CLIP)[: 3 * SAMPLE_RATE]
    every = (
        Way("none", 0.0),
        Way("hush 0.5 s", 0.5, HUSH, hush=WORD),
        Way("zeros 1 s", 1.0),
        Way("30 s", 30.0, "pad30"),
    )
    spent = [padding_items._hear(transcriber, way, clip)[1] for way in every]
    assert spent == sorted(spent)
    assert len(set(spent)) == 4
