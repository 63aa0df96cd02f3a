"""WhisperKit's figures: every system in one table, ours measured and others' as published."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from result_tables import by_first
from whispertide_lab.evaluation.items import whisperkit as items
from whispertide_lab.evaluation.peer_cells import PeerMissing
from whispertide_lab.evaluation.peers import PEERS
from whispertide_lab.evaluation.report import UNRELIABLE_NOTE


def cell(number: int, **more: Any) -> Any:
    """Its figures are told apart by its number."""
    parts = {f"{of}_{part}_s": number + 0.1 for of in ("first_seen", "confirmed") for part in ("mean", "median", "p90")}
    tails = {f"{of}_p99_s": 9.0 for of in ("first_seen", "confirmed")}
    cursors = {f"{of}_s": number + 0.5 for of in ("cursor", "cursor_confirmed")}
    unclamped = {f"{of}_unclamped_s": number + 0.25 for of in ("cursor", "cursor_confirmed")}
    score = {"wer": number / 100, "revisions_per_100": 10.0 * number, "matched": 0.97, **more}
    rows = ({"revisions": 3, "first_seen_s": [0.1], "confirmed_s": [1.0]}, {"revisions": 4, "first_seen_s": None,
            "confirmed_s": None})  # fmt: skip
    return SimpleNamespace(score={**parts, **tails, **cursors, **unclamped, **score}, utterances=rows)


@dataclass
class FakeRunner:
    quick: bool = False
    asked: list[str] = field(default_factory=list)

    def cell(self, recipe: str) -> Any:
        self.asked.append(recipe)
        return cell(len(self.asked))

    def peer(self, name: str) -> Any:
        if name == "whisper-streaming":
            return cell(50)
        raise PeerMissing("not installed")


RECIPES = ["whisperkit", "whisper-streaming", "whisperflow", "simulstreaming", "npusper", "whisperrt", "tide"]
KIT, FIREWORKS, DEEPGRAM, OPENAI = (
    f"{name}, paper" for name in ("WhisperKit", "Fireworks", "Deepgram nova-3", "OpenAI gpt-4o-transcribe")
)
APP = {causal: f"Argmax's app, {causal}, OpenBench" for causal in ("causal", "not causal")}


def published(outcome: Any) -> dict[str, str]:
    """The rows of the paper and of OpenBench, and their first figure."""
    return {name: row[0] for name, row in by_first(outcome).items() if name.endswith((", paper", ", OpenBench"))}


@pytest.mark.slow
def test_every_system_of_the_paper_stands_next_to_ours() -> None:
    """WhisperKit's figures 6 and 7: a table, a bar for each, and each word's latency of ours."""
    seen = {
        KIT: "0.45",
        FIREWORKS: "0.45",
        DEEPGRAM: "0.83",
        OPENAI: "1.70",
        APP["causal"]: "0.38",
        APP["not causal"]: "0.63",
    }
    confirmed = {KIT: "1.70", DEEPGRAM: "1.70", OPENAI: "1.70", APP["causal"]: "1.35", APP["not causal"]: "1.47"}
    for measure, theirs in ((items.hypothesis_figure, seen), (items.confirmed_figure, confirmed)):
        runner: Any = FakeRunner()
        outcome = measure(runner)
        ours = [*RECIPES, "whisper-streaming (peer)"]
        assert runner.asked == RECIPES
        assert published(outcome) == theirs
        assert list(by_first(outcome)) == [*ours, *theirs]
        assert outcome.tables[0].columns == (
            *("system", "cursor s", "unclamped s", "mean s", "median s", "p90 s", "p99 s", "matched %"),
        )
        means, words = (plot.drawing for plot in outcome.plots)
        assert [row[0] for row in means.rows] == [*ours, *theirs]
        assert list(dict.fromkeys(row[0] for row in words.rows)) == ours


def test_every_system_of_the_paper_has_its_errors_or_its_corrections() -> None:
    """WhisperKit's figure 8, whose text has no word errors of OpenAI's, and no corrections of the others."""
    runner: Any = FakeRunner()
    outcome = items.accuracy_figure(runner)
    rows = by_first(outcome)
    assert outcome.tables[0].columns == ("system", "WER %", "corrections per 100 words", "corrections")
    assert list(rows)[:8] == [*RECIPES, "whisper-streaming (peer)"]
    assert {name: (rows[name][0], rows[name][2]) for name in published(outcome)} == {
        KIT: ("2.00", "–"),
        FIREWORKS: ("4.72", "–"),
        DEEPGRAM: ("2.00", "–"),
        OPENAI: ("–", "0"),
        APP["causal"]: ("3.58", "997"),
        APP["not causal"]: ("2.65", "539"),
    }
    errors, corrections = ([row[0] for row in plot.drawing.rows] for plot in outcome.plots)
    assert errors == [name for name in rows if name != OPENAI]
    assert corrections == list(rows)[:8]


def test_both_measures_of_the_hypothesis_stand_side_by_side() -> None:
    runner: Any = FakeRunner()
    outcome = items.hypothesis_figure(runner)
    rows = by_first(outcome)
    assert runner.asked == ["whisperkit", *items.OTHERS]
    assert rows["whisperkit"] == ("1.50", "1.25", "1.10", "1.10", "1.10", "9.00", "97.00")
    assert rows["whisper-streaming (peer)"][0] == "50.50"
    assert rows["WhisperKit, paper"][:2] == ("0.45", "–")
    assert rows["Argmax's app, causal, OpenBench"][0] == "0.38"
    assert "OpenAI has no hypothesis" in outcome.note


def test_latencies_of_too_few_matched_words_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    few = cell(1, matched_as_offline=False)
    monkeypatch.setattr(items, "_cells", lambda runner: ([("whisperkit", few)], []))
    runner: Any = FakeRunner()
    outcome = items.hypothesis_figure(runner)
    assert by_first(outcome)["whisperkit"][:3] == ("1.50 !", "1.25 !", "1.10 !")
    assert UNRELIABLE_NOTE in outcome.note


def test_peers_that_cannot_run_are_named_with_the_reason() -> None:
    runner: Any = FakeRunner()
    note = items.confirmed_figure(runner).note
    absent = [name for name, peer in PEERS.items() if peer.streaming and name != "whisper-streaming"]
    assert absent
    assert all(f"{name}: not installed" in note for name in absent)


def test_the_confirmed_stream_is_compared_with_what_is_said_of_it() -> None:
    runner: Any = FakeRunner(quick=True)
    rows = by_first(items.confirmed_figure(runner))
    assert runner.asked == ["whisperkit", *items.QUICK_OTHERS]
    assert rows["OpenAI gpt-4o-transcribe, paper"][0] == "1.70"
    assert "Fireworks, paper" not in rows


def test_word_errors_stand_next_to_corrections() -> None:
    runner: Any = FakeRunner(quick=True)
    outcome = items.accuracy_figure(runner)
    rows = by_first(outcome)
    assert rows["whisperkit"] == ("1.00", "10.0", "7")
    assert rows["Argmax's app, not causal, OpenBench"] == ("2.65", "–", "539")
    assert rows["Fireworks, paper"] == ("4.72", "–", "–")
    assert [plot.drawing.rows[0][:2] for plot in outcome.plots] == [("whisperkit", "1"), ("whisperkit", "10")]
