"""Pilot inference's items by the paper's own kind of network: whose they are, and what stands in them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from result_tables import by_first
from whispertide.errors import OptionError
from whispertide_lab.evaluation.items import pilot as by_whisper
from whispertide_lab.evaluation.paper import Outcome
from whispertide_lab.evaluation.papers import get_paper
from whispertide_lab.speech.utterance import RefWord, Utterance
from whispertide_lab.training.latecontext import pilot_items as items
from whispertide_lab.training.latecontext.understood import BASE, CommandResult

NETWORK = "commands"
WAITS = {BASE: 0.02, "every 1 s": 0.01, "no collapse": 0.03}


def command(text: str, intent: str | None = "play_music") -> Utterance:
    words = tuple(RefWord(word) for word in text.split())
    return Utterance("u", words, 2.0, lambda: np.zeros(32_000, np.float32), intent=intent)


def heard(errors: int, wait_s: float | None, perplexity: float | None) -> CommandResult:
    return CommandResult(errors, 4, errors == 0, 2.0, wait_s, 0.5, None if perplexity is None else True, perplexity)


class FakeRunner:
    """Two commands with a pilot and a short one without; the server hears all of them right."""

    models, corpus_name, quick = (NETWORK, "nano.en"), "commands:spoken", False
    corpus = SimpleNamespace(name="commands-spoken", utterances=lambda: iter(3 * [command("play me a song")]))
    watch = SimpleNamespace(begin=lambda *_: None, advance=lambda *_: None, end=lambda: None)

    def kept(self, name: str, kind: type, make: Any, *_: str, **__: Any) -> Any:
        return make()

    def transcriber(self, name: str) -> Any:
        return SimpleNamespace(
            warm_up=lambda: None, transcribe=lambda *_, **__: SimpleNamespace(text="Play me a song.")
        )


RUNNER: Any = FakeRunner()


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[CommandResult]]:
    """What comes of three commands here, by each way; the server's words mean that somebody wants music."""
    found = {
        way: [heard(2, wait, 9.0), heard(0, wait, 1.0), heard(1, wait, None)]
        for way, wait in {name: WAITS.get(name, 0.015) for name in (*items.EVERY, *items.PARTS)}.items()
    }
    means = SimpleNamespace(meaning=lambda text: SimpleNamespace(intent="play_music"))
    monkeypatch.setattr(items, "load_late", lambda folder: means)
    monkeypatch.setattr(items, "heard_by", lambda runner, model: found)
    return found


def test_delays_stand_next_to_the_paper_s() -> None:
    found = by_first(items.frequency_table(RUNNER))
    measured = ("20.0", "20.0", "0", "25.00", "33.3", "100.0", "0.250", "–")
    assert found[BASE] == ("0.0100", "1.00", *measured, "0.168", "1.00")
    assert found["every 1 s"][:2] == ("0.0050", "2.00")
    assert found["every 0.5 s"][-2:] == ("0.120", "1.40")


def test_each_part_is_left_out_once() -> None:
    outcome = items.ablation_figure(RUNNER)
    names = [f"{NETWORK}: {part}" for part in items.PARTS]
    assert list(by_first(outcome)) == names
    assert by_first(outcome)[f"{NETWORK}: no collapse"][:2] == ("3.00", "30.0")
    assert [row[0] for row in outcome.plots[0].drawing.rows] == names


@pytest.mark.slow
def test_rivals_have_the_parts_too_and_stand_next_to_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pilot inference's figure 5 has a Branchformer with pilots, figure 4 the other networks on the device alone."""
    runner: Any = FakeRunner()
    runner.models = (NETWORK, "rivals/branchformer", "rivals/rnnt", "nano.en")
    kinds = {NETWORK: "late", "branchformer": "branchformer", "rnnt": "rnnt"}
    monkeypatch.setattr(items, "is_late", lambda folder: folder.name in kinds)
    shape = SimpleNamespace
    means = {"meaning": lambda text: None}
    monkeypatch.setattr(items, "load_late", lambda folder: shape(dims=shape(kind=kinds[folder.name]), **means))
    parts = by_first(items.ablation_figure(runner))
    assert [name for name in parts if name.startswith("branchformer")] == [f"branchformer: {p}" for p in items.PARTS]
    assert not any(name.startswith("rnnt") for name in parts), "it has no search that pilots could help"
    alone = {row[0]: row[1:] for row in items.trade_off_figure(runner).tables[1].rows if "alone" in str(row[0])}
    assert alone == {
        "branchformer alone, no pilots": ("0.0100", "25.00", "33.3"),
        "branchformer alone, every 1 s": ("0.0050", "25.00", "33.3"),
        "branchformer alone, every 0.5 s": ("0.0075", "25.00", "33.3"),
    }


def test_where_the_servers_words_mean_nothing_what_was_understood_here_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = SimpleNamespace(meaning=lambda text: None)
    monkeypatch.setattr(items, "load_late", lambda folder: nothing)
    rows = {row[0]: row[-1] for row in items.trade_off_figure(RUNNER).tables[1].rows}
    assert rows["perplexity, all sent"] == rows["perplexity, none sent"] == "50.0"


@pytest.mark.slow
def test_intents_of_what_is_sent_are_those_of_the_servers_words() -> None:
    outcome = items.trade_off_figure(RUNNER)
    rows = {row[0]: row[2:] for row in outcome.tables[1].rows}
    assert rows["perplexity, none sent"] == ("25.00", "50.0")
    assert rows["perplexity, half sent"] == ("0.00", "100.0")
    assert rows["random (NaiveHybrid), half sent"][1] == "75.0"
    assert [plot.drawing.heading[2] for plot in outcome.plots] == ["WER (%)", "intents right (%)"]


def test_the_table_of_delays_tells_what_is_sent_by_how_often_there_is_a_guess(
    here: dict[str, list[CommandResult]],
) -> None:
    here["every 2 s"][:] = [replace(one, perplexity=-(one.perplexity or 0.0)) for one in here["every 2 s"]]
    alone, sent = items.frequency_table(RUNNER).tables
    assert [row[0] for row in sent.rows] == list(items.EVERY)[1:]
    shares = {row[0]: row[1] for row in sent.rows}
    assert shares.pop("every 2 s") == "100.0", "there perplexity is the lower, the more is wrong"
    assert set(shares.values()) == {"50.0"}, "the one that went wrong here"
    assert "sent for +4 points" in sent.columns[1]
    assert "14 % fewer" in sent.title
    runner: Any = FakeRunner()
    runner.models = (NETWORK,)
    assert items.frequency_table(runner).tables == (alone,), "without a server nothing is sent"


@pytest.mark.slow
def test_those_with_a_pilot_are_sent_by_its_perplexity() -> None:
    outcome = items.sending_table(RUNNER)
    assert by_first(outcome)["perplexity"][:1] == ("50.0",), "the one that the server hears better goes first"
    assert "3 commands of commands-spoken" in outcome.note
    assert "2 had a pilot" in outcome.note
    assert by_first(items.trade_off_figure(RUNNER))["all here"][1] == "25.00"
    assert by_first(items.selection_figure(RUNNER))["perplexity, +1"] == ("100.0", "0.0", "50.0")


def test_those_without_a_final_text_are_counted_apart(here: dict[str, list[CommandResult]]) -> None:
    """They are no wait of 0 s, neither in a mean nor where something is sent."""
    here.update({way: [heard(2, 0.02, 9.0), heard(4, None, 5.0), heard(1, 0.04, 1.0)] for way in here})
    measured = dict(zip(items._MEASURED, by_first(items.frequency_table(RUNNER))[BASE][2:], strict=False))
    assert (measured["wait mean ms"], measured["no final text"]) == ("30.0", "1")
    assert "2 had a pilot, every 1 s, and a final text." in items.sending_table(RUNNER).note


@pytest.mark.parametrize(
    ("name", "whispers"),
    [
        *(("frequency_table", "frequency_table"), ("ablation_figure", "ablation_figure")),
        *(("sending_table", "sending"), ("trade_off_figure", "trade_off"), ("selection_figure", "selection")),
    ],
)
def test_where_whisper_comes_first_it_is_whispers(name: str, whispers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Outcome(note="by Whisper")
    monkeypatch.setattr(by_whisper, "both", lambda runner: ([], ""))
    monkeypatch.setattr(by_whisper, whispers, lambda *asked: told)
    whisper: Any = SimpleNamespace(models=("nano.en",))
    assert getattr(items, name)(whisper) is told


def test_what_is_missing_is_said() -> None:
    runner: Any = FakeRunner()
    runner.models = (NETWORK,)
    assert "base on the server" in items.sending_table(runner).note
    runner.corpus = SimpleNamespace(name="talks", utterances=lambda: iter([command("It rains.", None)]))
    with pytest.raises(OptionError, match=r"with word times|corpus of commands"):
        items.frequency_table(runner)


def test_every_item_of_the_paper_but_the_encoders_is_made_by_its_network() -> None:
    names = [item.measure for item in get_paper("pilot").items if item.measure]
    assert all(name.startswith("training.latecontext.pilot_items.") for name in names[1:])
