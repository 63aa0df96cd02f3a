from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluation_cells import make_cell
from whispertide.errors import CorpusError
from whispertide_lab.evaluation.kept_cells import keep, read_kept
from whispertide_lab.evaluation.store import Results


def test_cells_are_what_they_were_but_for_their_traces(tmp_path: Path) -> None:
    cell, path = make_cell(Results(tmp_path / "results")), tmp_path / "page" / "nano.en.jsonl.gz"
    keep(path, {"tide on talks": cell})
    (kept,) = read_kept(path).values()
    assert (kept.spec, dict(kept.score), kept.date) == (cell.spec, dict(cell.score), cell.date)
    assert list(kept.utterances) == list(cell.utterances)
    assert list(kept.traces()) == []


def test_cells_are_added_and_those_asked_for_alike_replaced(tmp_path: Path) -> None:
    results, path = Results(tmp_path / "results"), tmp_path / "nano.en.jsonl.gz"
    assert read_kept(path) == {}
    keep(path, {"a": make_cell(results, wer=0.05), "b": make_cell(results, wer=0.06)})
    keep(path, {"b": make_cell(results, wer=0.07), "c": make_cell(results, wer=0.08)})
    assert {asked: cell.score["wer"] for asked, cell in read_kept(path).items()} == {"a": 0.05, "b": 0.07, "c": 0.08}


def test_nothing_is_lost_where_several_keep_at_once(tmp_path: Path) -> None:
    path, cell = tmp_path / "nano.en.jsonl.gz", make_cell(Results(tmp_path / "results"))
    names = [f"cell {number}" for number in range(24)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: keep(path, {name: cell}), names))
    assert sorted(read_kept(path)) == sorted(names)


@pytest.mark.parametrize("damage", [b"no gzip", None])
def test_a_damaged_file_is_named(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "nano.en.jsonl.gz"
    keep(path, {"a": make_cell(Results(tmp_path / "results"))})
    path.write_bytes(path.read_bytes()[:-20] if damage is None else damage)
    with pytest.raises(CorpusError, match=r"nano\.en\.jsonl\.gz; it is damaged"):
        read_kept(path)
