"""NPUsper's table 8: what a plan of chunks takes, by hand, and the table of a run that is written down."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from whispertide.api import load
from whispertide.audio.file import load_audio
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation import report
from whispertide_lab.evaluation.items import chunks as items
from whispertide_lab.evaluation.items import static_decoding
from whispertide_lab.evaluation.items.chunks import SIZES, Work, work
from whispertide_lab.evaluation.trace import RoundCost, Shown, Trace
from whispertide_lab.evaluation.watch import Watch
from whispertide_lab.speech.utterance import RefWord, Utterance

CLIP = Path(__file__).parents[3] / "clips" / "quiet.flac"


def test_a_decode_takes_chunk_after_chunk_until_all_is_fed() -> None:
    assert work((4, 6, 5, 5), [1]) == Work(1, 4)
    assert work((4, 6, 5, 5), [4, 10, 11]) == Work(1 + 2 + 3, 4 + 10 + 15)
    assert work((4, 6, 3, 3), [11]) == Work(3, 13)
    assert work((4, 6), []) == Work(0, 0)


def test_the_plans_are_the_paper_s() -> None:
    assert SIZES == {3: (4, 6, 3, 3, 3, 3, 3, 3), 5: (4, 6, 5, 5, 5, 5), 7: (4, 6, 7, 7, 7)}
    assert SAMPLE_RATE == 16_000


@pytest.mark.soak
def test_words_come_out_of_graphs_of_the_plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Every graph of the plan is there before the first round, and a word is confirmed after it was said."""
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    transcriber = load("nano.en", threads=1)
    audio = load_audio(CLIP)
    words = tuple(RefWord(word, end=SAMPLE_RATE) for word in transcriber.transcribe(audio).text.split())
    said = Utterance("u", words, len(audio) / SAMPLE_RATE, lambda: audio, exact_times=True)
    runner: Any = SimpleNamespace(
        models=("nano.en",),
        transcriber=lambda name: transcriber,
        corpus=SimpleNamespace(name="clips", utterances=lambda: iter([said])),
        watch=Watch(),
    )
    plan = (4, 6, 3)
    assert items.opened(transcriber.model, plan).layout.plans == (plan, (6, 4, 3))
    late = items.score_with(runner, plan)["confirmed_mean_s"]
    assert late is not None
    assert 0 < late < len(audio) / SAMPLE_RATE + 5


@pytest.mark.slow
def test_the_table_stands_next_to_the_paper_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr(items, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(items, "SIZES", {3: (4, 6, 3), 5: (4, 6, 5)})  # graphs of two later chunks fewer
    costs = [RoundCost(2.0, 0.1, 2.0, tokens=count, search_runs=runs) for count, runs in ((9, 9), (0, 0), (40, 9))]
    trace = Trace("u", "npusper", "simulated", 6.0, (Shown(2.0, (" The", " river", " rises.")),), tuple(costs))
    runner: Any = SimpleNamespace(
        quick=True,
        models=("nano.en",),
        corpus=SimpleNamespace(name="talks"),
        setup=SimpleNamespace(engine=SimpleNamespace(threads=1, provider="cpu", gpu=False)),
        cell=lambda recipe: SimpleNamespace(traces=lambda: iter([trace])),
        kept=lambda name, kind, make, *_: make(),
        watch=Watch(),
    )
    monkeypatch.setattr(static_decoding, "thread_count", lambda engine: 1)
    monkeypatch.setattr(
        items,
        "score_with",
        lambda runner, plan: {"confirmed_mean_s": plan[-1] / 10, "matched_as_offline": plan[-1] < 5},
    )
    outcome = items.chunk_table(runner)
    rows = {row[0]: row[1:] for row in outcome.tables[0].rows}
    tokens = 4  # The river rises .
    ours = ("graph runs", "switches", "positions")
    assert outcome.tables[0].columns[3:6] == tuple(f"{name} per token" for name in ours)
    assert (rows["3"][0], rows["5"][0]) == ("0.300", "0.500 !")
    # The tokens are those of all decodes, and so is the work: the second one takes the whole of every plan, 13 tokens.
    assert rows["5"][2:5] == (f"{(3 + 3) / tokens:.3f}", f"{(4 + 4) / tokens:.3f}", f"{(15 + 15) / tokens:.3f}")
    assert rows["5"][5:] == ("1.943", "0.389", "0.510", "1.946")
    assert rows["3"][4] == f"{(13 + 13) / tokens:.3f}"
    assert "2 decodes of `npusper`" in outcome.note
    assert "13 tokens at most" in outcome.note
    assert report.UNRELIABLE_NOTE in outcome.note
