"""WhisperRT's items: cells of every chunk and beam, their errors, and what a second of audio costs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation_traces import reference
from whispertide.audio.file import load_audio
from whispertide.errors import OptionError
from whispertide.options import EngineOptions
from whispertide.recipes.catalogue import RECIPES, get_recipe
from whispertide.recipes.recipe import parse_overrides
from whispertide.types import seconds
from whispertide_lab.evaluation.flops import encoder_gflop
from whispertide_lab.evaluation.grid import Setup
from whispertide_lab.evaluation.items import whisperrt as items
from whispertide_lab.evaluation.items.aligned_errors import AlignedErrors
from whispertide_lab.evaluation.items.whisperrt import Work, work_by_length
from whispertide_lab.evaluation.runner import Runner
from whispertide_lab.evaluation.trace import RoundCost, Shown, Trace
from whispertide_lab.speech.utterance import Corpus, RefWord, Utterance

CLIP = Path(__file__).parents[3] / "clips" / "quiet.flac"
SAID = reference(("one", 0.0, 0.5), ("two", 0.5, 1.0), seconds=3.0)


@dataclass
class FakeRunner:
    """Cells whose first word comes 0.1 s after its end, the second one a chunk later; it notes all that it runs."""

    quick: bool = False
    said: tuple[Utterance, ...] = (SAID,)
    clock: str = "simulated"
    asked: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def corpus(self) -> Any:
        return SimpleNamespace(name="two words", utterances=lambda: iter(self.said))

    @contextmanager
    def timed_by(self, clock: str) -> Iterator[None]:
        before, self.clock = self.clock, clock
        yield
        self.clock = before

    def cell(self, recipe: str, *settings: str, step_s: float) -> Any:
        self.asked.append((self.clock, parse_overrides(get_recipe(recipe), settings).replace(step_s=step_s)))
        shown = (Shown(0.6, (" one",)), Shown(1.0 + step_s, (" two",)))
        costs = tuple(
            RoundCost(n * step_s, 0.1, n * step_s, encode_s=0.01, decode_s=0.02, encoder_gflop=0.5, decoder_runs=2)
            for n in (1, 2, 3)
        )
        return SimpleNamespace(score={"wer": 0.5}, traces=lambda: iter([Trace("u", recipe, "free", 3.0, shown, costs)]))


CHUNKS, OTHERS_CHUNKS = (0.1, 0.2, 0.3, 0.5, 1.0), (0.1, 0.3, 1.0)


def test_every_recipe_has_a_round_for_each_chunk_and_only_blocks_are_as_long() -> None:
    runner: Any = FakeRunner()
    outcome = items.chunk_figure(runner)
    assert {clock for clock, _ in runner.asked} == {"free"}
    assert runner.clock == "simulated"
    steps = {(recipe.name, recipe.schedule.step_s) for _, recipe in runner.asked}
    assert steps == {(name, chunk) for name in RECIPES for chunk in (CHUNKS if name == "whisperrt" else OTHERS_CHUNKS)}
    streams = [recipe for _, recipe in runner.asked if recipe.name == "whisperrt"]
    assert all(recipe.framing.block_s == recipe.schedule.step_s for recipe in streams)
    rows = {row[:2]: row[2:] for row in outcome.tables[0].rows}
    # at 1, 2, 3 s: "one", "one two", "one two" of two words each
    assert rows["whisperrt", "1"] == ("16.67", "0.00", "50.00")
    # at 0.5, 1, .. 3 s: nothing, "one", then both, of 1, 2, 2, 2, 2, 2 words
    assert rows["whisperrt", "0.5"] == ("18.18", "0.00", "50.00")
    assert rows["tide", "1"] == rows["whisperrt", "1"]
    assert outcome.tables[0].columns == ("recipe", "chunk (s)", "ARWER %", "RWER %", "WER %")
    assert "whisperrt,1,16.6667" in outcome.plots[0].drawing.csv()
    arwer, rwer = (plot.drawing for plot in outcome.plots)
    assert (arwer.heading[1:3], rwer.heading[1:3]) == (("chunk (s)", "ARWER %"), ("chunk (s)", "RWER %"))
    for drawing in (arwer, rwer):
        assert {row[:2] for row in drawing.rows} == {(name, f"{chunk:g}") for name, chunk in steps}
    differences = {row[:2]: row[2:] for row in outcome.tables[1].rows}
    assert differences.keys() == {(name, chunk) for name, chunk in rows if name != "whisperrt"}
    assert differences["tide", "1"] == ("+0.00", "+0.00", "+0.00", "1")


def test_a_difference_is_that_of_the_same_utterances() -> None:
    """Ours: 1 of 4 words and 0 of 4; theirs: 2 of 4 and 1 of 4, so a quarter more in every draw."""
    cell: Any = None
    mine, theirs = (
        [items.Point(0.3, cell, {"a": AlignedErrors(a, 0, 4), "b": AlignedErrors(b, 0, 4)})]
        for a, b in ((1, 0), (2, 1))
    )
    table = items._differences({"whisperrt": mine, **dict.fromkeys(items.OTHERS, theirs)})
    assert table.rows[0] == ("whisper-streaming", "0.3", "+25.00", "+25.00", "+25.00", "2")
    of_one = [replace(mine[0], speakers={"a": "ann", "b": "ann"})]
    table = items._differences({"whisperrt": of_one, **dict.fromkeys(items.OTHERS, theirs)})
    assert table.rows[0] == ("whisper-streaming", "0.3", "+25.00", "+25.00", "+25.00", "1"), "one speaker"


def test_beams_are_those_of_the_paper() -> None:
    runner: Any = FakeRunner()
    outcome = items.beam_figure(runner)
    found = [(recipe.search.hypotheses, recipe.policy.holds) for _, recipe in runner.asked]
    assert found == [(1, "either"), (2, "both"), (3, "both"), (5, "both")]
    assert {recipe.framing.block_s for _, recipe in runner.asked} == {0.3}
    assert [row[1] for row in outcome.tables[0].rows] == ["1", "2", "3", "5"]
    assert outcome.tables[0].columns == ("recipe", "beam", "ARWER %", "RWER %", "WER %")
    for plot in outcome.plots:
        assert [row[:2] for row in plot.drawing.rows] == [("whisperrt", beam) for beam in ("1", "2", "3", "5")]


def test_a_quick_run_has_few_cells() -> None:
    runner: Any = FakeRunner(quick=True)
    items.chunk_figure(runner)
    items.beam_figure(runner)
    assert len(runner.asked) == 2 * 8 + 2


@pytest.mark.parametrize("measure", [items.chunk_figure, items.beam_figure])
def test_words_need_times_and_those_by_forced_alignment_do(measure: Any) -> None:
    runner: Any = FakeRunner(said=(replace(SAID, exact_times=False),))
    with pytest.raises(OptionError, match="word times, for example talks, or --align"):
        measure(runner)
    aligned: Any = FakeRunner(said=(replace(SAID, exact_times=False, aligned_by="base"),))
    assert measure(aligned).tables[0].rows == measure(FakeRunner()).tables[0].rows


@pytest.mark.parametrize("measure", [items.chunk_figure, items.beam_figure])
def test_recordings_that_are_left_out_are_told(measure: Any) -> None:
    """A word that could not be placed leaves out its recording, but not from the word errors at the end."""
    unplaced = replace(SAID, id="v", words=(*SAID.words, RefWord("three")), exact_times=False, aligned_by="base")
    told = "of 1 of 2 recordings: the others have words without times"
    assert told in measure(FakeRunner(said=(SAID, unplaced))).note
    assert told not in measure(FakeRunner()).note


def test_work_is_that_of_new_audio_and_silence_between_rounds_is_none() -> None:
    """Rounds at 1 and 2 s, a pause, and one at 9 s that hears 1.5 s; at 10 s one that hears 6 s."""
    times = ((1.0, 1.0), (2.0, 2.0), (9.0, 1.5), (10.0, 6.0))
    costs = tuple(
        RoundCost(at, 0.1, heard, encode_s=0.25, decode_s=0.5, encoder_gflop=0.5, decoder_runs=3, search_rows=4)
        for at, heard in times
    )
    found = work_by_length(iter([Trace("u", "test", "free", 12.0, (), costs)]))
    assert found == {0: Work(3.5, 1.5, 9, 12, 750, 1500), 1: Work(1.0, 0.5, 3, 4, 250, 500)}


def test_the_cost_is_a_row_for_each_length_and_one_for_all() -> None:
    runner: Any = FakeRunner()
    outcome = items.cost_figure(runner)
    rows = [row for row in outcome.tables[0].rows if row[0] == "whisperrt"]
    assert rows == [
        ("whisperrt", length, "1", "1.67", "6.67", "0.00", "33.33", "66.67") for length in ("0 to 5", "all")
    ]
    streams = ("whisperrt", "whisper-streaming", "tide")
    assert [row[:2] for row in outcome.tables[0].rows] == [
        (name, part) for name in streams for part in ("0 to 5", "all")
    ]
    assert {(recipe.name, recipe.schedule.step_s) for _, recipe in runner.asked} == {(name, 0.3) for name in streams}
    work = ("encoder GFLOP", "decoder runs", "searched hypotheses", "encoding ms", "decoding ms")
    assert outcome.tables[0].columns == (
        *("recipe", "heard by a round (s)", "new audio (s)"),
        *(f"{what} per s" for what in work),
    )
    drawings = [plot.drawing for plot in outcome.plots]
    assert [drawing.heading[1:3] for drawing in drawings] == [
        ("audio that a round hears (s)", f"{what} per s") for what in ("encoder GFLOP", "decoder runs")
    ]
    assert [[row[:2] for row in drawing.rows] for drawing in drawings] == 2 * [[(name, "2.5") for name in streams]]


@pytest.mark.slow
def test_a_stream_is_charged_for_new_frames_and_their_past(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    samples = load_audio(CLIP)
    talk = Utterance("u", (), seconds(len(samples)), lambda: samples, exact_times=True)
    corpus: Any = SimpleNamespace(name="one", hash="0" * 12, utterances=lambda: iter([talk]))
    silent: Any = SimpleNamespace(begin=lambda *_: None, advance=lambda _: None, end=lambda: None, say=lambda _: None)
    runner = Runner(tmp_path, Setup(engine=EngineOptions(threads=1)), silent)
    opened: Corpus = corpus
    monkeypatch.setattr(Runner, "open_corpus", lambda self, name, model=None: opened)
    monkeypatch.setattr(Runner, "label_of", lambda self, corpus: "one")
    runner.use_corpus("one")
    with runner.timed_by("free"):
        cell = runner.cell("whisperrt", "block_s=0.3", step_s=0.3)
    dims = runner.transcriber("nano.en").dims
    (trace,) = cell.traces()
    spent = [cost.encoder_gflop for cost in trace.rounds if cost.encoder_gflop]
    known = {encoder_gflop(dims, 15, 30 + 15 * n): n for n in range(90)}
    whole = [gflop for gflop in spent if gflop in known]
    assert len(whole) > 2
    assert whole[:3] == [encoder_gflop(dims, 15, past) for past in (30, 45, 60)]
