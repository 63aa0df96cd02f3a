"""NPUsper's figure 2: how clips are padded, and what counts with inventions and without."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whispertide.streaming.framing import BARE, PAD30
from whispertide_lab.evaluation.clips import Clip
from whispertide_lab.evaluation.items import lengths as items
from whispertide_lab.evaluation.items.lengths import framing, judge

CLIP = Clip(("the", "cat", "sat"), np.zeros(16_000, np.float32))


def test_a_window_is_padded_to_a_length_in_all() -> None:
    assert framing(0.0) == BARE
    assert framing(30.0) == PAD30
    assert [framing(15.0).length_s(seconds) for seconds in (2.0, 15.0, 20.0)] == [15.0, 15.0, 20.0]


def test_what_stands_after_the_last_right_word_is_an_invention() -> None:
    heard = judge(CLIP, "the hat sat and then it ran", 0.1)
    assert heard.hallucinated
    assert (heard.words.errors, heard.words_said.errors) == (5, 1)
    assert heard.letters.errors > heard.letters_said.errors == 1
    assert not judge(CLIP, "the cat sat and then", 0.1).hallucinated
    assert judge(CLIP, "no word is right", 0.1).words_said.deletions == 3


def test_the_figure_has_a_row_for_each_length(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {0.0: "the cat sat and then it", 30.0: "the cat sat"}

    def decode(model: Any, frame: Any, clip: Clip) -> Any:
        length = 0.0 if frame == BARE else frame.length_s(1.0)
        return SimpleNamespace(tokens=texts.get(length, "the hat sat"), encode_s=0.001 * (length or 1.0))

    class Runner:
        quick, models, corpus_name = True, ("nano.en",), "noisy"

        def transcriber(self, name: str) -> Any:
            return SimpleNamespace(model=SimpleNamespace(tokenizer=SimpleNamespace(decode=lambda tokens: tokens)))

        def each_clip(self, name: str, measure: Any, **about: Any) -> list[Any]:
            return [measure(CLIP), measure(CLIP)]

    monkeypatch.setattr(items, "decode_clip", decode)
    runner: Any = Runner()
    outcome = items.length_figure(runner)
    rows = {row[0]: row[1:] for row in outcome.tables[0].rows}
    assert rows["none"] == ("100.0", "100.0", rows["none"][2], "0.0", "0.0", "1")
    assert rows["15 s"][:2] == ("0.0", "33.3")
    assert rows["30 s"] == ("0.0", "0.0", "0.0", "0.0", "0.0", "30")
    assert "2 of noisy" in outcome.note
    # the paper's figure 2: (a) hallucinations and the time of encoding, (b) WER and CER, without inventions too
    assert list(rows) == ["none", "10 s", "15 s", "20 s", "25 s", "30 s"]
    rates = ("WER", "CER", "WER without inventions", "CER without inventions")
    assert outcome.tables[0].columns == (
        *("padded to", "hallucinating %", *(f"{rate} %" for rate in rates), "encoding ms"),
    )
    errors, times = (plot.drawing.rows for plot in outcome.plots)
    lengths = ("0", "10", "15", "20", "25", "30")
    curves = (*rates, "hallucinating clips")
    assert [row[:2] for row in errors] == [(curve, length) for curve in curves for length in lengths]
    assert [row[:3] for row in times] == [("encoding", length, str(max(int(length), 1))) for length in lengths]
