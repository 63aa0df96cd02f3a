"""Pilot inference's tables and figures: what counts as a delay, what is sent for a goal, and which inputs it hits."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluation_traces import reference
from result_tables import by_first
from whispertide.errors import OptionError
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation.items import pilot as items
from whispertide_lab.evaluation.items.commands import Sentence, Way
from whispertide_lab.evaluation.items.offloading import Both, by_chance, choice, mean_wait_s, needed
from whispertide_lab.evaluation.items.pilot import delay, selected

TALK = reference(("It", 5.0, 5.5), ("rains.", 6.0, 7.0))


def test_a_delay_is_a_share_of_real_time() -> None:
    said = [Sentence((), np.zeros(2 * SAMPLE_RATE, np.float32)), Sentence((), np.zeros(6 * SAMPLE_RATE, np.float32))]
    assert delay(Way(waits=[0.1, 0.3]), said) == pytest.approx(0.05)


def both(local: int, remote: int, perplexity: float) -> Both:
    """Ten words in 4 s."""
    return Both(10, 4.0, {"perplexity": perplexity, "entropy": -perplexity}, local, 0.1, remote, 0.2)


HEARD = [both(0, 0, 1.0), both(4, 0, 9.0), both(1, 1, 2.0), both(2, 1, 5.0)]


def test_the_first_ones_are_sent_until_the_goal_is_reached() -> None:
    by_perplexity = choice("perplexity", HEARD, [one.signals["perplexity"] for one in HEARD])
    assert by_perplexity.errors == (7 / 40, 3 / 40, 2 / 40, 2 / 40, 2 / 40)
    assert [needed(by_perplexity.errors, above) for above in (0.15, 0.05, 0.0)] == [0, 1, 2]
    assert items.needed_for(HEARD, by_chance(HEARD), None, 0.05) in (2, 3), "2.5 on average; their mean curve needs 3"
    assert by_perplexity.area == 1.0


def test_those_that_are_better_elsewhere_are_to_be_sent() -> None:
    better = [one.remote_errors < one.local_errors for one in HEARD]
    assert selected(better, [1.0, 9.0, 2.0, 5.0], 2) == (1.0, 0.0)
    assert selected(better, [9.0, 1.0, 2.0, 5.0], 2) == (0.5, 0.5)
    assert selected([False, False], [1.0, 2.0], 1) == (0.0, 0.5)


def test_by_chance_a_delay_lies_between_none_and_all() -> None:
    none, whole = (mean_wait_s(HEARD, [0.0] * 4, count, items.LINK) / 4 for count in (0, 4))
    assert items.delay_with(HEARD, None, 0) == none == 0.1 / 4
    assert items.delay_with(HEARD, None, 2) == pytest.approx((none + whole) / 2)
    assert items.delay_with(HEARD, [9.0, 1.0, 1.0, 1.0], 4) == whole


class FakeRunner:
    """Everything is measured already."""

    models, corpus_name, quick = ("folder/small", "large"), "talks", True
    joules: float | None = None
    corpus = SimpleNamespace(name="talks-60s", utterances=lambda: iter([TALK]))

    def kept(self, name: str, *_: Any, **__: Any) -> Any:
        if name == "sent":
            return HEARD
        waits = {"no pilots": 0.2, "pilots": 0.1, "no collapse": 0.19}.get(name.split(": ")[1], 0.15)
        return Way(waits=[waits, waits], errors=[(1, 10), (0, 10)], cpu_s=0.05, energy_j=self.joules)


def test_pilots_stand_next_to_the_paper_s() -> None:
    runner: Any = FakeRunner()
    rows = by_first(items.frequency_table(runner))
    assert rows["no pilots"] == ("0.1600", "0.200", "5.00", "0.020", "–", "0.168")
    assert rows["every 0.5 s"] == ("0.0800", "0.100", "5.00", "0.020", "–", "0.120")
    parts = by_first(items.ablation_figure(runner))
    assert parts["no collapse"][:2] == ("190.0", "1.90")
    assert parts["no pilots"][1] == "2.00"


def test_energy_is_told_where_the_machine_tells_it() -> None:
    runner: Any = FakeRunner()
    runner.joules = 5.0
    assert by_first(items.frequency_table(runner))["no pilots"][-2:] == ("2.00", "0.168")


def test_what_is_sent_for_a_goal_stands_next_to_the_paper_s() -> None:
    runner: Any = FakeRunner()
    outcome = items.sending(*items.both(runner))
    rows = by_first(outcome)
    assert rows["perplexity"][:2] == ("25.0", f"{(mean_wait_s(HEARD, [1, 9, 2, 5], 1, items.LINK)) / 4:.3f}")
    assert [rows["perplexity"][place] for place in (2, 4, 6)] == ["25.0", "50.0", "50.0"]
    assert rows["perplexity"][-4:] == ("25.0", "34.5", "47.3", "–")
    assert rows["random (NaiveHybrid)"][0] in ("50.0", "75.0"), "2.5 of four on average; their mean curve needs all"
    assert rows["random (NaiveHybrid)"][4] == "75.0", "the later one of two of four"
    assert rows["perplexity"][8:10] == ("1.00", "1.00"), "those with errors here, those that the server hears better"
    assert rows["random (NaiveHybrid)"][8:10] == ("0.50", "0.50")
    assert "small here, large on the server" in outcome.note


def test_a_choice_after_the_full_decode_is_a_row_of_its_own() -> None:
    """Where it is known of every input; what is sent then waits for the decode as well, 0.1 s of 4."""
    runner: Any = FakeRunner()
    assert items.FULL not in by_first(items.sending(HEARD, ""))
    decoded = [replace(one, full=one.signals["perplexity"]) for one in HEARD]
    rows = by_first(items.sending(decoded, items.both(runner)[1]))
    assert rows[items.FULL][0] == rows["perplexity"][0] == "25.0", "it orders the inputs alike here"
    later = float(rows[items.FULL][1]) - float(rows["perplexity"][1])
    assert later == pytest.approx(0.1 / 4 / 4, abs=0.001), "one of four is sent"


@pytest.mark.parametrize(
    ("models", "server"),
    [
        (("tiny.en",), "base"),
        (("tiny.en", "small"), "small"),
        (("commands",), "base"),
        (("nano.en", "commands"), "base"),
    ],
)
def test_the_server_is_a_larger_model(models: tuple[str, ...], server: str) -> None:
    """Not the same one again, which would hear nearly the same."""
    runner: Any = FakeRunner()
    runner.models = models
    assert items.server_of(runner) == server
    assert f"{models[0]} here, {server} on the server" in items.both(runner)[1]


def test_the_figures_have_every_way_to_decide() -> None:
    runner: Any = FakeRunner()
    rows = by_first(items.trade_off(*items.both(runner)))
    assert rows["all here"] == ("0.025", "17.50")
    assert rows["all sent"][1] == "5.00"
    assert rows["perplexity, half sent"][1] == "5.00"
    chosen = by_first(items.selection(*items.both(runner)))
    assert chosen["perplexity, +1"] == ("100.0", "0.0", "50.0")
    assert chosen["random (NaiveHybrid), +1"] == ("75.0", "75.0", "75.0")


def test_what_is_sent_is_told_for_two_goals_and_next_to_chance() -> None:
    """Pilot inference's figure 6: inputs to be sent and the others, of two variants and of NaiveHybrid."""
    runner: Any = FakeRunner()
    outcome = items.selection(*items.both(runner))
    assert outcome.tables[0].columns == (
        *("decided by, points above the server", "sent of those to be sent %", "sent of the others %", "sent %"),
    )
    ways = ("perplexity", "entropy (for DeeBERT)", "random (NaiveHybrid)")
    named = [f"{way}, {goal}" for goal in ("+2", "+1") for way in ways]
    assert list(by_first(outcome)) == named
    (plot,) = outcome.plots
    assert [row[0] for row in plot.drawing.rows] == [
        f"{name}: {which}" for name in named for which in ("those to be sent", "the others")
    ]


def test_without_sentences_there_is_no_item() -> None:
    runner: Any = FakeRunner()
    runner.corpus = SimpleNamespace(name="pieces", utterances=lambda: iter([]))
    with pytest.raises(OptionError, match=r"word times.*pieces has none"):
        items.frequency_table(runner)
