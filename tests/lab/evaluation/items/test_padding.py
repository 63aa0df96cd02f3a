"""What comes after a clip, and what that costs."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whispertide import api
from whispertide.audio.file import load_audio
from whispertide.methods.short.hush import HushWord
from whispertide.streaming.framing import PAD30
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.clips import Clip, clips_of
from whispertide_lab.evaluation.items import padding as items
from whispertide_lab.evaluation.items.padding import NOISE_BELOW_DB, Way, ways
from whispertide_lab.evaluation.store import Json
from whispertide_lab.evaluation.wer import Counts, align
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


def test_zeros_and_a_hush_word_are_after_a_clip_and_nothing_leaves_the_window() -> None:
    clip = sine(1)
    zeros = Way("zeros 1 s", 1.0).padded(clip)
    assert np.array_equal(zeros, np.concatenate([clip, np.zeros(SAMPLE_RATE, np.float32)]))
    assert np.array_equal(Way("hush 0.5 s", 0.5, hush=WORD).padded(clip), np.concatenate([clip, WORD.samples]))
    assert np.array_equal(Way("30 s", framing=PAD30).padded(clip), clip)
    assert len(Way("zeros 5 s", 5.0).padded(sine(28))) == 30 * SAMPLE_RATE


def small(*, is_adapted: bool = False) -> Any:
    return SimpleNamespace(is_adapted=is_adapted)


def test_an_adapter_is_a_row_without_and_with_the_shortest_hush_word() -> None:
    names = [way.name for way in ways(small(is_adapted=True), [WORD])]
    assert names[-2:] == ["adapter, none", "adapter, hush 0.5 s"]
    assert [way.name for way in ways(small(is_adapted=True), [])][-1] == "adapter, none"
    assert not any("adapter" in way.name for way in ways(small(), [WORD]))


class FakeRunner:
    """One model in a folder, and a corpus of three clips of two words, or of none."""

    def __init__(self, words: tuple[str, ...], folder: Path, *hush: HushWord) -> None:
        checkpoint = SimpleNamespace(folder=folder)
        self.model = SimpleNamespace(checkpoint=checkpoint, is_adapted=False)
        self.setup = SimpleNamespace(hush=hush)
        self.models = ("small",)
        said = tuple(RefWord(word) for word in words)
        clip = Utterance("u", said, 3.0, lambda: sine(3))
        self.corpus_name = "clips"
        self.corpus: Any = SimpleNamespace(utterances=lambda: iter([clip] * 3))

    def transcriber(self, model: str) -> Any:
        return SimpleNamespace(model=self.model)

    def each_clip(self, name: str, measure: Callable[[Clip], Json], **about: object) -> list[Json]:
        return [json.loads(json.dumps(measure(clip))) for clip in clips_of(self.corpus, None)]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The right words, without end after nothing; half a GFLOP, and a nat per second of a hush word for its tokens."""
    WORD.save(tmp_path / "hush-0.5s.npz")

    def hear(model: object, way: Way, clip: Clip) -> Json:
        text = "good day" if way.hush else "Good day, sir." if way.name == "none" else "Good day."
        counts = asdict(align(clip.words, text.split()).words)
        nats = way.seconds if way.hush else 0.0
        return {
            "text": text,
            "counts": counts,
            "gflop": 0.5,
            "endless": way.name == "none",
            "nats": nats,
            "tokens": bool(way.hush),
        }

    monkeypatch.setattr(items, "_hear", hear)


def test_the_table_has_errors_and_insertions_of_every_way(heard: None, tmp_path: Path) -> None:
    runner: Any = FakeRunner(("good", "day"), tmp_path)
    (table,) = items.padding_table(runner).tables
    assert table.columns[:3] == ("padding", "encoder GFLOP per audio second", "WER %")
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows) == [
        *("30 s", "none", "zeros 0.5 s", "zeros 1 s", "zeros 2 s", "zeros 5 s", "noise 5 s"),
        "hush 0.5 s",
        *(f"{way}, whole program" for way in ("30 s", "none", "zeros 1 s", "zeros 5 s", "noise 5 s", "hush 0.5 s")),
        "merged padding",
    ]
    assert rows["none"] == ("0.17", "50.0", "+50.00 [+50.00, +50.00]", "50.0", "3 of 3", "66.7")
    assert rows["30 s"] == ("0.17", "0.0", "", "0.0", "0 of 3", "50.0")
    assert rows["30 s, whole program"][-2] == "–", "it tries again: nobody looks whether its first text ends"
    assert rows["hush 0.5 s"] == ("0.17", "0.0", "+0.00 [+0.00, +0.00]", "0.0", "0 of 3", "0.0")


def test_clips_of_one_speaker_are_drawn_together() -> None:
    """Three clips of each of two speakers, of whom one is heard as badly as can be: either of them twice, or both."""
    sources = ("ann", "ann", "ann", "bo", "bo", "bo")

    def padded(name: str, wrong: int) -> items.Padded:
        errors = tuple((float(wrong * (source == "bo")), 1.0) for source in sources)
        return items.Padded(
            Way(name), 1.0, 6.0, Counts(hits=6 - 3 * wrong, deletions=3 * wrong), errors, sources, 0, 0, 0
        )

    assert padded("none", 1).rates(padded("30 s", 0))[1] == "+50.00 [+0.00, +100.00]"


def test_hush_words_that_are_named_stand_in_place_of_those_next_to_the_checkpoint(heard: None, tmp_path: Path) -> None:
    words = [HushWord(np.tile(WORD.samples, 2 * seconds)) for seconds in (2, 1)]
    usual, named = (FakeRunner(("good", "day"), tmp_path, *hush) for hush in ((), words))
    without, found = (items.length_table(runner).tables[0].rows for runner in (usual, named))  # type: ignore[arg-type]
    assert [row[0] for row in without] == ["0.5 s"]
    assert [row[:2] for row in found] == [("1 s", "1.000"), ("2 s", "2.000")], "the shortest first"


def test_without_hush_words_there_is_no_table_of_their_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "_paddings", lambda runner: [])
    assert items.length_table(FakeRunner(("good", "day"), tmp_path)).tables == ()  # type: ignore[arg-type]


def test_where_nothing_was_said_words_are_counted_by_the_minute(heard: None, tmp_path: Path) -> None:
    runner: Any = FakeRunner((), tmp_path)
    (table,) = items.padding_table(runner).tables
    assert table.columns[-2:] == ("invented words a minute", "texts without end")
    found = {row[0]: row[-2:] for row in table.rows if row[0] in ("none", "30 s")}
    assert found == {"none": ("60.0", "3 of 3"), "30 s": ("40.0", "0 of 3")}
    assert "invented words a minute" in items.padding_figure(runner).plots[0].drawing.csv()


def test_the_figure_has_a_curve_for_each_kind_and_a_line_for_30_s(heard: None, tmp_path: Path) -> None:
    runner: Any = FakeRunner(("good", "day"), tmp_path)
    outcome = items.padding_figure(runner)
    numbers = outcome.plots[0].drawing.csv()
    assert all(text in numbers for text in ("zeros", "noise", "hush", "padded to 30 s", "WER %"))
    (work,) = outcome.tables
    assert {row[0]: row[1:3] for row in work.rows}["none"] == ("0.17", "50.0")


@pytest.mark.slow
def test_the_encoder_is_charged_for_what_comes_after_and_the_loss_is_of_the_right_words() -> None:
    model = api.load("nano.en", threads=1).model
    samples = load_audio(CLIP)[: 3 * SAMPLE_RATE]
    every = (
        Way("none"),
        Way("hush 0.5 s", 0.5, hush=WORD),
        Way("zeros 1 s", 1.0),
        Way("30 s", framing=PAD30),
    )
    found = [items._hear(model, way, Clip(("any",), samples)) for way in every]
    spent = [one["gflop"] for one in found]
    assert spent == sorted(set(spent))
    assert [one["tokens"] > 1 for one in found] == [False, True, False, False]
    looped = items._hear(model, replace(every[1], looped=True), Clip(("any",), samples))
    assert looped["gflop"] >= spent[1], "it may go on after its first text"
    assert looped["text"]
    heard = found[1]["text"].split()
    assert items._hear(model, every[1], Clip(tuple(heard), samples))["nats"] < 5 * len(heard)
    assert found[1]["nats"] > 5
