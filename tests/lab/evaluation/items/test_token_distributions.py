"""WhisperRT's figure 3: which sentences it takes, and that it says what the decoder expects."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluation_traces import reference
from reference import nano
from whispertide.audio.file import load_audio
from whispertide.errors import OptionError
from whispertide.model.engine import Encoded
from whispertide.streaming.framing import BARE
from whispertide.types import to_samples
from whispertide_lab.evaluation.items import token_distributions as items
from whispertide_lab.evaluation.items.token_distributions import expected, sentences_of
from whispertide_lab.speech.utterance import Utterance

FOLDER = Path(__file__).parents[3] / "clips"
TALK = reference(
    *(("The", 0.5, 0.7), ("river", 0.7, 1.1), ("rises.", 1.1, 1.8), ("It", 3.0, 3.2), ("was", 3.2, 3.4)),
    *(("late.", 3.4, 4.0), ("No", 9.0, 9.5)),
)


class Words:
    """Every word is one token, its number."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        return [self.seen.setdefault(text, len(self.seen))]


def test_sentences_begin_after_a_full_stop_and_end_where_enough_was_heard() -> None:
    model: Any = SimpleNamespace(tokenizer=Words())
    first, second = sentences_of(TALK, model)  # the last has no third word
    assert first.tokens == (0, 1, 2)
    assert first.end == to_samples(1.8) - to_samples(0.3)  # 0.2 s before its first word
    assert len(first.audio) == first.end + to_samples(1.2)
    assert second.end == to_samples(4.0) - to_samples(2.8)


def test_without_exact_times_there_are_none() -> None:
    model: Any = SimpleNamespace(tokenizer=Words())
    assert list(sentences_of(replace(TALK, exact_times=False), model)) == []
    assert len(list(sentences_of(replace(TALK, exact_times=False, aligned_by="base"), model))) == 2


def clip() -> Utterance:
    """A recording whose third word is over after a second and a half."""
    text = (FOLDER / "river.txt").read_text(encoding="utf-8").split()[:3]
    audio = load_audio(FOLDER / "river.flac")
    said = reference(*((word, 0.5 * n, 0.5 * n + 0.5) for n, word in enumerate(text)), seconds=len(audio) / 16_000)
    return replace(said, audio=lambda: audio)


@pytest.mark.slow
def test_a_decoder_expects_the_word_that_it_hears() -> None:
    model = nano()
    tokens = tuple(model.tokenizer.encode(" The river"))
    (sentence, *_) = sentences_of(clip(), model)
    encoded: Encoded = next(encoded for _, encoded in items._padded(model, replace(sentence, end=len(sentence.audio))))
    right, end, other = expected(model, encoded, tokens)
    assert 0 <= right <= 1
    assert right + end + other <= 1 + 1e-5
    wrong = expected(model, encoded, (*tokens[:-1], tokens[-1] + 1))
    assert max(wrong[2], wrong[0]) == pytest.approx(max(right, other), rel=1e-4)


@pytest.mark.slow
def test_the_figure_has_a_curve_for_each_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (items.OFFSETS_S[0], items.OFFSETS_S[-1]) == (-0.6, 1.2), "from before its word is over to after it"
    monkeypatch.setattr(items, "OFFSETS_S", (-0.5, 0.0))
    monkeypatch.setattr(items, "PAD30", BARE)
    model = nano()
    runner: Any = SimpleNamespace(
        quick=True,
        models=("nano.en",),
        transcriber=lambda name: SimpleNamespace(model=model),
        corpus=SimpleNamespace(name="one", utterances=lambda: iter([clip()])),
    )
    outcome = items.distribution_figure(runner)
    rows = outcome.tables[0].rows
    assert [row[:2] for row in rows] == [
        (name, offset) for name in ("Whisper, padded to 30 s", "causal, block by block") for offset in ("-0.5", "+0.0")
    ]
    tokens = ("third token", "end of text", "likeliest other")
    assert outcome.tables[0].columns == ("model", "s after the end of its word", *tokens)
    for plot in outcome.plots:
        assert plot.drawing.heading[1:3] == ("s after the end of its word", "probability")
        assert [row[:2] for row in plot.drawing.rows] == [(token, at) for token in tokens for at in ("-0.5", "0")]
    assert all(0 <= float(value) <= 1 for row in rows for value in row[2:] if value is not None)


def test_a_corpus_without_sentences_is_refused() -> None:
    def nothing() -> Iterator[Utterance]:
        return iter([replace(TALK, audio=lambda: np.zeros(8, np.float32))])

    runner: Any = SimpleNamespace(
        quick=True,
        models=("nano.en",),
        transcriber=lambda name: SimpleNamespace(model=SimpleNamespace(tokenizer=Words())),
        corpus=SimpleNamespace(name="silence", utterances=nothing),
    )
    with pytest.raises(OptionError, match="sentences with word times, for example talks; silence has none"):
        items.distribution_figure(runner)
