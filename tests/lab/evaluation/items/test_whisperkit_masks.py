"""WhisperKit's table 1 and figure 4: which encoders are run, and what stands next to them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from whispertide.errors import CheckpointNotFoundError
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe, parse_overrides
from whispertide_lab.evaluation.items import whisperkit_masks as items
from whispertide_lab.evaluation.report import UNRELIABLE_NOTE
from whispertide_lab.evaluation.trace import RoundCost, Trace


@dataclass
class FakeRunner:
    """Only some masks have an adapter; it notes all that it runs, and on what."""

    quick: bool = False
    trained: tuple[str, ...] = ("d750",)
    corpus: str = "usual"
    enough: bool = True  # whether enough words are matched
    asked: list[tuple[str, Recipe]] = field(default_factory=list)

    @contextmanager
    def on_corpus(self, name: str) -> Iterator[None]:
        before, self.corpus = self.corpus, name
        yield
        self.corpus = before

    def cell(self, recipe: str, *settings: str) -> Any:
        chosen = parse_overrides(get_recipe(recipe), settings)
        framing: Any = chosen.framing
        if framing.kind == "masked" and framing.trained and framing.mask not in self.trained:
            raise CheckpointNotFoundError("there is none")
        self.asked.append((self.corpus, chosen))
        costs = (RoundCost(1.0, 0.5, 1.0, encode_s=0.1), RoundCost(2.0, 0.5, 1.0, encode_s=0.3))
        score = {"gflop_per_s": 1.5, "wer": 0.05, "cer": 0.02, "confirmed_mean_s": 1.25, "first_seen_mean_s": None}
        score["matched_as_offline"] = self.enough
        return SimpleNamespace(
            score=score, traces=lambda: iter([Trace("u", recipe, "simulated", 2.0, (), costs)]), spec=None
        )


def test_each_mask_stands_with_its_adapter_and_alone() -> None:
    runner: Any = FakeRunner()
    rows = {row[0]: row[1:] for row in items.mask_table(runner).tables[0].rows}
    assert list(rows) == [
        "original", "c250, the mask alone", "d750", "d750, the mask alone", "d500, the mask alone",
        "d250, the mask alone", "original, windows cut at the cursor", "windows without padding",
        "the same, cut at the cursor", "our default recipe",
    ]  # fmt: skip
    assert rows["d750"] == ("1.50", "200.0", "5.00", "1.25", "–", "1040", "218", "2.25", "12.85")
    assert rows["d750, the mask alone"][5:] == ("–", "–", "–", "–")
    cuts = [(recipe.framing.kind, recipe.policy.cut) for _, recipe in runner.asked if recipe.name == "whisperkit"]
    # else nothing that is encoded could be kept, and more than the mask would differ
    assert cuts == [
        ("pad30", "full"),
        *5 * [("masked", "full")],
        ("pad30", "cursor"),
        ("bare", "full"),
        ("bare", "cursor"),
    ]


def test_every_mask_of_the_paper_stands_next_to_its_row() -> None:
    """WhisperKit's table 1: encoder work and time of a window, word errors on both of its corpora."""
    runner: Any = FakeRunner(trained=("c250", "d750", "d500", "d250"))
    (table,) = items.mask_table(runner).tables
    assert table.columns == (
        *("encoder", "encoder GFLOP per s", "encoding, ms a round", "WER %", "confirmed mean s", "first seen mean s"),
        *("paper: GFLOP a window", "ms a window", "WER clean %", "WER Earnings-22 %"),
    )
    masks = [name for name, *_ in table.rows if name and "alone" not in name]
    assert masks == [
        "original",
        "c250",
        "d750",
        "d500",
        "d250",
        *(name for name, _ in items.RIVALS),
    ]
    assert {row[0]: row[6:] for row in table.rows if row[6] != "–"} == {
        "original": ("2270", "612", "1.93", "11.55"),
        "c250": ("2340", "702", "2.32", "12.89"),
        "d750": ("1040", "218", "2.25", "12.85"),
        "d500": ("680", "125", "3.39", "13.86"),
        "d250": ("330", "50", "25.58", "39.75"),
    }
    framings: list[Any] = [recipe.framing for _, recipe in runner.asked]
    ran = [(framing.mask, framing.trained) for framing in framings if framing.kind == "masked"]
    assert ran == [(mask, trained) for mask in ("c250", "d750", "d500", "d250") for trained in (True, False)]
    assert [framing.kind for framing in framings if framing.kind != "masked"][:-1] == ["pad30", "pad30", "bare", "bare"]


def test_latencies_of_too_few_matched_words_are_marked() -> None:
    sure, few = (items.mask_table(FakeRunner(enough=enough)) for enough in (True, False))  # type: ignore[arg-type]
    assert {row[4] for row in sure.tables[0].rows} == {"1.25"}
    assert {row[4:6] for row in few.tables[0].rows} == {("1.25 !", "–")}
    assert (UNRELIABLE_NOTE in sure.note, UNRELIABLE_NOTE in few.note) == (False, True)


def test_the_mask_is_compared_on_every_corpus() -> None:
    runner: Any = FakeRunner()
    outcome = items.corpus_figure(runner)
    assert [(corpus, recipe.framing.kind, recipe.policy.cut) for corpus, recipe in runner.asked] == [
        (corpus, kind, "full") for corpus in ("talks", "noisy") for kind in ("pad30", "masked")
    ]
    assert runner.corpus == "usual"
    assert [row[:2] for row in outcome.tables[0].rows][-1] == ("noisy", "d750")
    assert len(outcome.plots[0].drawing.rows) == 4
