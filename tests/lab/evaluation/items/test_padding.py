"""What comes after a clip, and what that costs."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whispertide import api
from whispertide.audio.file import load_audio
from whispertide.methods.short.hush import HushWord
from whispertide.streaming.framing import Hush
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.clips import Clip, clips_of
from whispertide_lab.evaluation.items import padding as items
from whispertide_lab.evaluation.items.padding import NOISE_BELOW_DB, Way, ways
from whispertide_lab.evaluation.store import Json
from whispertide_lab.speech.utterance import RefWord, Utterance

CLIP = Path(__file__).parents[3] / "clips" / "quiet.flac"
WORD = HushWord(np.random.default_rng(0).normal(0, 0.1, SAMPLE_RATE // 2).astype(np.float32))


def sine(seconds: float) -> FloatArray:
    return np.sin(np.arange(round(seconds * SAMPLE_RATE), dtype=np.float32))


def test_noise_after_a_clip_is_as_far_below_it_as_said() -> None:
    clip = sine(1)
    padded = Way("noise 2 s", 2.0, noise=True).padded(clip)
    assert len(padded) == 3 * SAMPLE_RATE
    assert np.array_equal(padded[:SAMPLE_RATE], clip)
    level = 20 * np.log10(np.std(padded[SAMPLE_RATE:]) / np.sqrt(np.mean(np.square(clip))))
    assert level == pytest.approx(-NOISE_BELOW_DB, abs=0.2)


def test_zeros_are_after_a_clip_and_a_hush_word_is_the_framings_affair() -> None:
    clip = sine(1)
    zeros = Way("zeros 1 s", 1.0).padded(clip)
    assert np.array_equal(zeros, np.concatenate([clip, np.zeros(SAMPLE_RATE, np.float32)]))
    assert Way("hush 0.5 s", 0.5, Hush.kind, hush=WORD).padded(clip) is clip
    assert Way("30 s", 30.0, "pad30").padded(clip) is clip


def in_folder(folder: Path) -> Any:
    """A recogniser whose checkpoint lies in `folder`."""
    return SimpleNamespace(model=SimpleNamespace(checkpoint=SimpleNamespace(folder=folder)))


def test_hush_words_next_to_the_checkpoint_are_found(tmp_path: Path) -> None:
    transcriber: Any = in_folder(tmp_path)
    without = [way.name for way in ways(transcriber)]
    assert without[:2] == ["30 s", "none"]
    assert not any(name.startswith("hush") for name in without)
    WORD.save(tmp_path / "hush-0.5s.npz")
    found = ways(transcriber)[-1]
    assert (found.name, found.framing, found.seconds) == ("hush 0.5 s", Hush.kind, 0.5)
    np.savetxt(tmp_path / "hush-0.5s.csv", np.zeros(8000)[None], delimiter=",")
    assert [way.content for way in ways(transcriber) if way.hush] == [found.content], "ours goes before another's"


class FakeRunner:
    """One model with a hush word, and a corpus of three clips of two words, or of none."""

    def __init__(self, words: tuple[str, ...], folder: Path) -> None:
        self.folder = folder
        self.models = ("small",)
        said = tuple(RefWord(word) for word in words)
        clip = Utterance("u", said, 3.0, lambda: sine(3))
        self.corpus_name = "clips"
        self.corpus: Any = SimpleNamespace(utterances=lambda: iter([clip] * 3))

    def transcriber(self, model: str) -> Any:
        return in_folder(self.folder)

    def each_clip(self, name: str, measure: Callable[[Clip], Json], **about: object) -> list[Json]:
        return [json.loads(json.dumps(measure(clip))) for clip in clips_of(self.corpus, None)]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The right words, one more after nothing, and another one where speech is quiet; half a GFLOP for everything."""
    WORD.save(tmp_path / "hush-0.5s.npz")

    def hear(transcriber: object, way: Way, clip: Clip) -> tuple[list[str], float]:
        words = ["good", "day"] if np.abs(clip.samples).max() > 0.2 else ["good", "say"]
        return words + ["sir"] * (way.name == "none"), 0.5

    monkeypatch.setattr(items, "_hear", hear)


def test_the_table_has_errors_and_insertions_of_every_way(heard: None, tmp_path: Path) -> None:
    runner: Any = FakeRunner(("good", "day"), tmp_path)
    by_way, by_gain = items.padding_table(runner).tables
    assert by_way.columns == ("padding", "encoder GFLOP per audio second", "WER %", "insertions %")
    rows = {row[0]: row[1:] for row in by_way.rows}
    lengths = ("1 s", "2 s", "3 s", "4 s", "5 s")  # the paper's table has 1 and 5 s of zeros, its figure all of them
    assert list(rows) == [
        *("30 s", "none", *(f"zeros {length}" for length in lengths), *(f"noise {length}" for length in lengths)),
        "hush 0.5 s",
    ]
    assert rows["none"] == ("0.17", "50.0", "50.0")
    assert rows["30 s"] == rows["zeros 3 s"] == rows["noise 1 s"] == rows["hush 0.5 s"] == ("0.17", "0.0", "0.0")
    quiet = {row[1]: row[2:] for row in by_gain.rows if row[0] == "-20 dB"}
    assert quiet == {"30 s": ("50.0", "0.0"), "none": ("100.0", "50.0"), "hush 0.5 s": ("50.0", "0.0")}


def test_where_nothing_was_said_words_are_counted_by_the_minute(heard: None, tmp_path: Path) -> None:
    runner: Any = FakeRunner((), tmp_path)
    by_way, by_gain = items.padding_table(runner).tables
    assert by_way.columns[-1] == by_gain.columns[-1] == "invented words a minute"
    assert {row[0]: row[-1] for row in by_way.rows if row[0] in ("none", "30 s")} == {"none": "60.0", "30 s": "40.0"}
    assert "invented words a minute" in items.padding_figure(runner).plots[0].drawing.csv()


def test_the_figure_has_a_curve_for_each_kind_and_a_line_for_30_s(heard: None, tmp_path: Path) -> None:
    runner: Any = FakeRunner(("good", "day"), tmp_path)
    outcome = items.padding_figure(runner)
    numbers = outcome.plots[0].drawing.csv()
    assert all(text in numbers for text in ("zeros", "noise", "hush", "padded to 30 s", "WER %"))
    (work,) = outcome.tables
    assert {row[0]: row[1:] for row in work.rows}["none"] == ("0.17", "50.0", "50.0")
    assert work.columns[1] == "encoder GFLOP per audio second"


def test_the_encoder_is_charged_for_what_comes_after() -> None:
    transcriber = api.load("nano.en", threads=1)
    clip = load_audio(CLIP)[: 3 * SAMPLE_RATE]
    every = (
        Way("none", 0.0),
        Way("hush 0.5 s", 0.5, Hush.kind, hush=WORD),
        Way("zeros 1 s", 1.0),
        Way("30 s", 30.0, "pad30"),
    )
    spent = [items._hear(transcriber, way, Clip(("any",), clip))[1] for way in every]
    assert spent == sorted(spent)
    assert len(set(spent)) == 4
