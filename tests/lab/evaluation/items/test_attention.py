"""NPUsper's figures 5 and 14: where layers look, and what a decoder says whose padding is hidden, or is not."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluation_traces import reference
from reference import nano
from whispertide.audio.file import load_audio
from whispertide.checkpoint import load_checkpoint
from whispertide.errors import OptionError
from whispertide.features import log_mel
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation.clips import Clip
from whispertide_lab.evaluation.items import attention as items
from whispertide_lab.evaluation.items.attention import Looked, Spoken, look, unhidden, width_s
from whispertide_lab.evaluation.items.guard import decode_clip
from whispertide_lab.evaluation.wer import Counts
from whispertide_lab.speech.utterance import RefWord

FOLDER = Path(__file__).parents[3] / "clips"
TALK = reference(
    *(("No.", 0.5, 0.9), ("The", 2.0, 2.2), ("river", 2.2, 2.6), ("rises,", 2.6, 4.0), ("slowly.", 4.0, 4.5)),
    seconds=10.0,
)


def test_the_width_of_an_even_attention_is_its_length() -> None:
    row = np.zeros(100, np.float32)
    row[10:35] = 1 / 25
    assert width_s(row) == pytest.approx(0.5)
    assert width_s(np.eye(1, 100, 7, dtype=np.float32)[0]) == pytest.approx(0.02)


def test_a_layer_is_sharp_if_it_looks_at_the_words() -> None:
    row = np.zeros((2, 100), np.float32)
    row[:, 12] = 1.0
    tokens = (Spoken(" cat", (0.2, 0.4)), Spoken(",", None))
    assert items._sharpness([Looked(tokens, row)]) == ("100.00", "100.00", "0.02", "0.02")
    elsewhere = (Spoken(" cat", (1.0, 1.2)),)
    assert items._sharpness([Looked(elsewhere, row[:1])]) == ("0.00", "0.00", "0.02", "–")


def test_what_is_drawn_ends_with_punctuation_within_the_sentence() -> None:
    tokens = [Spoken(text, None if text in ",." else (0, 1)) for text in ("a", "b", ",", "c", "d", "e", "f", ".")]
    assert [tokens[place].text for place in items._chosen(tokens)] == ["a", "c", "d", "f", ","]
    assert items._chosen(tokens[:2]) == [0, 1]


def river() -> tuple[np.ndarray[Any, Any], list[str]]:
    return load_audio(FOLDER / "river.flac"), (FOLDER / "river.txt").read_text(encoding="utf-8").split()


@pytest.mark.slow
def test_every_layer_is_looked_at_for_words_and_punctuation() -> None:
    audio, said = river()
    step = len(audio) // len(said)
    words = [RefWord(text, n * step, (n + 1) * step) for n, text in enumerate(said)]
    model = nano()
    looked = look(model, audio, words)
    assert len(looked) == model.dims.n_text_layer
    spoken = [token for token in looked[0].tokens if token.span is not None]
    assert [token.span for token in spoken][-1] == (words[-1].start / SAMPLE_RATE, words[-1].end / SAMPLE_RATE)  # type: ignore[operator]
    assert len(spoken) == len(said)
    marks = {token.text for token in looked[0].tokens if token.span is None}
    assert marks
    assert all(not any(letter.isalnum() for letter in mark) for mark in marks)
    for one in looked:
        assert one.attention.shape == (len(one.tokens), -(-len(audio) // 320))
        np.testing.assert_allclose(one.attention.sum(axis=-1), 1.0, atol=1e-4)
    last = [int(row.argmax()) for token, row in zip(looked[-1].tokens, looked[-1].attention, strict=True) if token.span]
    assert last == sorted(last) or sum(np.diff(last) < 0) <= 1, "the last layer goes forward through the audio"


def test_without_sentences_there_is_no_figure() -> None:
    runner: Any = SimpleNamespace(
        quick=True,
        models=("nano.en",),
        transcriber=lambda name: SimpleNamespace(model=None),
        corpus=SimpleNamespace(name="pieces", utterances=lambda: iter([replace(TALK, exact_times=False)])),
    )
    with pytest.raises(OptionError, match=r"word times.*pieces has none"):
        items.layer_figure(runner)


def test_every_layer_is_drawn_over_time_with_the_times_of_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """NPUsper's figure 5: attention of words and of a mark of punctuation by decoder layer, words' own times shaded."""
    spoken = (Spoken(" The", (0.2, 0.4)), Spoken(" river", (0.4, 0.8)), Spoken(",", None), Spoken(" rises", (0.8, 2.2)))
    even = np.full((len(spoken), 20), 0.05, np.float32)
    monkeypatch.setattr(items, "look", lambda *_: [Looked(spoken, even)] * 3)
    runner: Any = SimpleNamespace(
        quick=True,
        models=("nano.en",),
        transcriber=lambda name: SimpleNamespace(model=SimpleNamespace(dims=SimpleNamespace(n_text_layer=3))),
        corpus=SimpleNamespace(name="talks", utterances=lambda: iter([TALK])),
    )
    outcome = items.layer_figure(runner)
    (table,) = outcome.tables
    assert table.columns == (
        *("decoder layer", "words: attention within the word %", "words: peak within it %", "words: width s"),
        "punctuation: width s",
    )
    assert [row[0] for row in table.rows] == ["1", "2", "3"]
    assert {row[-2:] for row in table.rows} == {("0.40", "0.40")}
    drawings = [plot.drawing for plot in outcome.plots]
    assert [drawing.title for drawing in drawings] == [f"attention of decoder layer {layer}" for layer in (1, 2, 3)]
    for drawing in drawings:
        assert drawing.heading[1:3] == ("audio time (s)", "attention")
        assert list(dict.fromkeys(row[0] for row in drawing.rows)) == ["'The'", "'river'", "'rises'", "','"]
        assert [row[1] for row in drawing.rows if row[0] == "','"] == [f"{0.02 * n + 0.01:g}" for n in range(20)]
        assert len(drawing.figure.axes[0].patches) == 3, "a band for each word"


@pytest.mark.slow
def test_the_encoder_s_output_is_the_same_with_and_without_the_padding() -> None:
    audio, said = river()
    model = nano()
    hidden = items.HIDDEN(model, log_mel(audio, model.dims.n_mels))
    seen = items.Seen()(model, log_mel(audio, model.dims.n_mels))
    assert seen.valid_frames == seen.frames == hidden.frames > hidden.valid_frames
    assert unhidden(hidden).cross_k is hidden.cross_k
    found = items.compare(model, Clip(tuple(said), audio))
    assert found.hidden.reference == found.seen.reference == len(said)
    assert found.steps[-1].token == "end"
    assert all(0 <= step.probability <= 1 for step in found.steps)
    assert all(step.left == (step.seen[0] != step.token) for step in found.steps)
    text = "".join(step.token for step in found.steps[:-1])
    alone = decode_clip(model, items.HIDDEN, Clip(tuple(said), audio))
    assert text == model.tokenizer.decode(alone.tokens)


def test_a_step_has_the_three_likeliest_tokens_with_the_padding() -> None:
    tokenizer = load_checkpoint("nano.en").tokenizer
    model: Any = SimpleNamespace(tokenizer=tokenizer)
    (the,), (cat,) = tokenizer.encode(" the"), tokenizer.encode(" cat")
    hidden, seen = np.zeros((2, tokenizer.eot + 1), np.float32)
    hidden[the] = 0.75
    seen[[cat, tokenizer.eot, the]] = (0.5, 0.25, 0.125)
    step = items._step(model, the, hidden, seen)
    assert step == items.Step(" the", 0.75, (" cat", "end", " the"), (0.5, 0.25, 0.125))
    assert step.left


def test_the_first_text_that_leaves_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    same = items.Step(" a", 0.9, (" a", " b", " c"), (0.8, 0.1, 0.05))
    other = items.Step(" b", 0.6, (" x", " b", " c"), (0.5, 0.3, 0.1))
    counts = Counts(3, 0, 0, 0)
    kept = items.Masked((same,) * 13, counts, counts)
    left = items.Masked((*10 * (same,), other, same, same), counts, Counts(2, 1, 0, 0))
    found = iter([kept, left])
    monkeypatch.setattr(items, "compare", lambda model, clip: next(found))
    runner: Any = SimpleNamespace(
        quick=True,
        models=("nano.en",),
        corpus_name="talks",
        transcriber=lambda name: SimpleNamespace(model=None),
        each_clip=lambda name, measure, **about: [measure(None), measure(None)],
    )
    outcome = items.masking_figure(runner)
    errors, example = outcome.tables
    assert errors.rows == (("hidden", "0.00", "0.00", "0.00"), ("seen", "16.67", "0.00", "0.00"))
    assert errors.columns == ("padded frames", "WER %", "insertions %", "deletions %")
    # NPUsper's figure 14: steps 9 to 13 of a text that leaves at step 11; the best one without, the best three with
    assert example.columns == ("step", "likeliest without", "with, 1.", "with, 2.", "with, 3.")
    assert [row[0] for row in example.rows] == ["9", "10", "11", "12", "13"]
    assert example.rows[2][1:] == ("' b' 0.60", "' x' 0.50", "' b' 0.30", "' c' 0.10")
    (plot,) = outcome.plots
    assert [row[1:3] for row in plot.drawing.rows] == [(str(n), "0" if n < 11 else "50") for n in range(1, 14)]
    assert "Of 26 steps" in outcome.note
    assert "1 have another likeliest token with it; 1 of 2 texts leave somewhere" in outcome.note
