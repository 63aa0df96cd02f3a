"""Cutting windows with known ends, and training the detector on them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from few_examples import quick
from whispertide.checkpoint.attachments import report_in
from whispertide.cli.main import app
from whispertide.errors import CorpusError, OptionError
from whispertide.methods.attention.truncation import TruncationDetector
from whispertide.model.engine import LAST_LAYER
from whispertide.types import FRAME_SAMPLES, FloatArray
from whispertide_lab.speech.utterance import Utterance as Reference
from whispertide_lab.training import teacher_times
from whispertide_lab.training.shards import Shards, Utterance, open_shards, write_shard
from whispertide_lab.training.truncation import (
    TruncationOptions,
    cut_window,
    train_truncation,
    wanted_weights,
)

pytestmark = pytest.mark.slow

RATE = 16_000
OPTIONS = TruncationOptions(windows=120, framing="bare", longest_s=4.0)


def spoken(seed: int, words: int = 8) -> Utterance:
    """Words of 0.3 s of tone, each swelling to its end, 20 ms or 0.2 s apart, silence after the last."""
    dice = np.random.RandomState(seed)
    parts, spans, at = [], [], 0
    for _ in range(words):
        length = int(RATE * (0.25 + 0.15 * dice.random_sample()))
        tone = np.sin(np.arange(length) * 0.2) * np.linspace(0.1, 1.0, length)
        gap = int(RATE * (0.02 if dice.random_sample() < 0.5 else 0.2))
        parts += [tone, np.zeros(gap)]
        spans.append((at, at + length))
        at += length + gap
    samples = (20000 * np.concatenate(parts)).astype(np.int16)
    return Utterance(samples, " ".join(["word"] * words), "tone", tuple(spans))


@quick(50)
@given(seed=st.integers(0, 10**6), longest=st.floats(1.0, 6.0))
def test_a_window_is_what_it_says(seed: int, longest: float) -> None:
    said = spoken(seed % 50)
    cut = cut_window(said, longest, np.random.RandomState(seed))
    if cut is None:
        return
    assert said.words is not None
    assert len(cut.samples) <= (longest + 0.71) * RATE
    starts = {start for start, _ in said.words}
    candidates = [begin for begin in starts if all(begin + end in {e for _, e in said.words} for end in cut.ends)]
    assert candidates or not cut.ends
    last = cut.ends[-1] if cut.ends else 0
    rest = len(cut.samples) - last
    assert {"inside": rest > 0, "after": 0 <= rest <= 0.03 * RATE, "pause": 0.1 * RATE <= rest <= 0.7 * RATE}[
        cut.ending
    ]
    weights = wanted_weights(cut)
    assert len(weights) == cut.frames
    assert set(weights[-2:]) == {float(cut.ending != "inside")}
    before = [end // FRAME_SAMPLES for end in cut.ends if end // FRAME_SAMPLES < cut.frames - 2]
    assert np.flatnonzero(weights[:-2]).tolist() == before


def test_all_kinds_of_endings_come() -> None:
    dice = np.random.RandomState(0)
    endings = [cut.ending for _ in range(200) if (cut := cut_window(spoken(1), 4.0, dice)) is not None]
    assert {"inside", "after", "pause"} == set(endings)


class Ears:
    """Stands in for a model: its encoder says how loud each frame is, and whether the audio ends soon."""

    checkpoint = SimpleNamespace(tensors_hash="c" * 64)
    dims = SimpleNamespace(n_mels=80)

    def encode(self, mel: FloatArray, *, taps: tuple[int, ...]) -> Any:
        assert taps == (LAST_LAYER,)
        frames = mel.shape[1] // 2
        loud = mel[:, : 2 * frames].max(axis=0).reshape(frames, 2).mean(axis=1)
        rising = np.gradient(loud)
        return SimpleNamespace(taps={LAST_LAYER: np.stack([loud, rising, np.ones(frames)], axis=1).astype(np.float32)})


def shards(folder: Path, utterances: Sequence[Utterance]) -> Shards:
    write_shard(folder, 0, utterances)
    return open_shards([folder])


@pytest.fixture(scope="module")
def utterances() -> list[Utterance]:
    return [spoken(seed) for seed in range(40)]


@pytest.fixture(scope="module")
def speech(utterances: list[Utterance], tmp_path_factory: pytest.TempPathFactory) -> Shards:
    return shards(tmp_path_factory.mktemp("speech"), utterances)


def test_it_learns_what_can_be_heard(speech: Shards) -> None:
    told: list[str] = []
    detector = train_truncation(Ears(), speech, OPTIONS, told.append)  # type: ignore[arg-type]
    report = detector.report
    assert report["fires_pause"] > 0.9  # after 0.1 s of silence
    assert report["fires_inside"] < 0.2  # in the middle of a tone
    assert report["balanced_accuracy"] > 0.7
    assert detector.content_hash == Ears.checkpoint.tensors_hash
    assert len(told) == 2


def test_the_same_seed_gives_the_same_layer(speech: Shards) -> None:
    options = replace(OPTIONS, windows=20, iterations=10, longest_s=1.5)
    one, other = (train_truncation(Ears(), speech, options) for _ in range(2))  # type: ignore[arg-type]
    np.testing.assert_array_equal(one.weight, other.weight)
    another = train_truncation(Ears(), speech, replace(options, seed=1))  # type: ignore[arg-type]
    assert not np.array_equal(one.weight, another.weight)


def test_caution_makes_it_fire_less(speech: Shards) -> None:
    bold, careful = (
        train_truncation(Ears(), speech, replace(OPTIONS, windows=60, caution=caution, counting=0.0))  # type: ignore[arg-type]
        for caution in (0.2, 20.0)
    )
    total = [sum(d.report[f"fires_{ending}"] for ending in ("inside", "after", "pause")) for d in (bold, careful)]
    assert total[1] < total[0]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (lambda said: said[:3], "word times; got 3"),
        (lambda said: [replace(one, words=None) for one in said], "got 0"),
        (lambda said: [replace(one, text="word", words=one.words[:1]) for one in said], "longer sentences"),
    ],
)
def test_speech_that_does_not_suffice(
    utterances: list[Utterance], changed: Callable[[list[Utterance]], list[Utterance]], told: str, tmp_path: Path
) -> None:
    with pytest.raises(CorpusError, match=told):
        train_truncation(Ears(), shards(tmp_path, changed(utterances)), OPTIONS)  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"windows": 3}, {"longest_s": 40.0}, {"framing": "hush"}, {"caution": 0.0}])
def test_options_that_make_no_sense(change: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="expected"):
        TruncationOptions(**change)


def test_the_command_trains_the_bundled_model(tmp_path: Path, utterances: list[Utterance]) -> None:
    write_shard(tmp_path, 0, utterances)
    path = tmp_path / "detector.npz"
    arguments = ["train", "truncation", "nano.en", "-o", path, "--data", tmp_path, "--windows", 30, "--framing", "bare"]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == str(path)
    assert "balanced_accuracy" in result.stderr
    from whispertide.checkpoint import load_checkpoint

    checkpoint = load_checkpoint("nano.en")
    width = checkpoint.dims.n_audio_state
    detector = TruncationDetector.load(path, *checkpoint.hashes, width=width)
    assert detector.report["windows"] == 30
    assert isinstance(detector.fires(np.zeros((50, width), np.float32)), bool)


def test_the_command_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "whispertide_lab.training.device", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    result = CliRunner().invoke(app, ["train", "truncation", "nano.en", "-o", str(tmp_path / "x.npz")])
    assert result.exit_code == 2
    assert "pip install './lab[train]'" in result.stderr


def test_where_nobody_timed_the_words_the_model_does(
    tmp_path: Path, utterances: list[Utterance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """People's recordings come with a text alone."""
    times = iter([said.words for said in utterances])

    def aligned(said: Reference, *_: object) -> Reference:
        spans = next(times) or ()
        words = tuple(replace(word, start=span[0], end=span[1]) for word, span in zip(said.words, spans, strict=True))
        return replace(said, words=words, aligned_by="nano.en")

    monkeypatch.setattr(teacher_times, "aligned", aligned)
    write_shard(tmp_path, 0, [replace(said, words=None) for said in utterances])
    path = tmp_path / "detector.npz"
    result = CliRunner().invoke(app, f"train truncation nano.en -o {path} --data {tmp_path} --windows 20".split())
    assert result.exit_code == 0, result.stderr
    assert "40 of 40 utterances have no word times: nano.en places their words" in result.stderr
    assert report_in(path)["windows"] == 20
