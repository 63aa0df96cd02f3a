from pathlib import Path

import pytest

from evaluation_cells import make_cell, results_in
from whispertide.errors import OptionError
from whispertide_lab.evaluation.named import find, listing, pairs
from whispertide_lab.evaluation.store import Cell


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    results = results_in(tmp_path)
    return [
        make_cell(results, utterances=1),
        make_cell(results, utterances=1, recogniser="tide", step_s=0.3),
        make_cell(results, utterances=1, recogniser="tide", step_s=0.3, changes=("margin_s=0.3",)),
        make_cell(results, utterances=1, recogniser="tide", step_s=0.5),
        make_cell(results, utterances=1, recogniser="tide", step_s=0.3, model="base.en"),
        make_cell(results, utterances=1, recogniser="tide", step_s=0.3, corpus="noisy", corpus_hash="ba9876543210"),
    ]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("whisper-streaming", [0]),
        ("tide", [1, 3, 4, 5]),
        ("tide 0.3 s", [1, 4, 5]),
        ("talks 0.3 s tide nano.en", [1]),
        ("tide margin_s=0.3", [2]),
        ("noisy", [5]),
        ("base.en", [4]),
    ],
)
def test_a_name_is_some_words_of_a_row_and_means_the_unchanged(cells: list[Cell], name: str, found: list[int]) -> None:
    assert find(cells, name) == [cells[at] for at in found]


def test_the_beginning_of_a_key_is_a_name(cells: list[Cell]) -> None:
    assert find(cells, cells[2].key) == find(cells, cells[2].key[:8]) == [cells[2]]


@pytest.mark.parametrize("name", ["tyde", "tide 9 s", "", "tid", "0"])
def test_an_unknown_name_is_refused_with_those_there_are(cells: list[Cell], name: str) -> None:
    with pytest.raises(OptionError) as caught:
        find(cells, name)
    assert repr(name) in str(caught.value)
    assert [cell.key for cell in cells if cell.key not in str(caught.value)] == []


def test_of_what_was_measured_twice_the_newest_counts(cells: list[Cell], tmp_path: Path) -> None:
    again = make_cell(results_in(tmp_path), utterances=1, code="another")
    assert find([*cells, again], "whisper-streaming") == [again]
    assert cells[0].key not in listing([*cells, again])


def test_cells_of_one_model_and_corpus_belong_together(cells: list[Cell], tmp_path: Path) -> None:
    ours, plain, _, half, large, noisy = cells
    other = make_cell(results_in(tmp_path), utterances=1, corpus="noisy", corpus_hash="ba9876543210")
    assert pairs([ours, other], [noisy, plain]) == [(ours, plain), (other, noisy)]
    assert pairs([plain], [large]) == [(plain, large)], "two single ones, whatever they are"
    with pytest.raises(OptionError, match="add words") as caught:
        pairs([ours], find(cells, "tide"))
    assert half.key in str(caught.value)
    with pytest.raises(OptionError, match="in common"):
        pairs([ours, plain][:1], [large, noisy])
