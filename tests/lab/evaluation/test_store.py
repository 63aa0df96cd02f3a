from dataclasses import asdict, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from each_row import each_row
from evaluation_cells import SPEC, make_cell, make_record, make_trace, results_in
from whispertide.errors import OptionError, OutputError
from whispertide_lab.evaluation import store
from whispertide_lab.evaluation.store import CellSpec, Results, open_results
from whispertide_lab.from_json import built


def test_a_trace_comes_back_as_it_was(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    trace = replace(make_trace("group/talk 1"), settings={"a": "b"}, cpu_s=0.1 + 0.2, energy_j=None)
    assert results.trace(SPEC, trace.utterance) is None
    results.save_trace(SPEC, trace)
    assert Results(results.folder).trace(SPEC, trace.utterance) == trace


def test_utterances_with_similar_names_are_kept_apart(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    for name in ("a/b", "a b", "a_b", "x" * 300, "x" * 301):
        results.save_trace(SPEC, make_trace(name))
    assert {
        name: kept.utterance for name in ("a/b", "a b", "a_b", "x" * 300) if (kept := results.trace(SPEC, name))
    } == {name: name for name in ("a/b", "a b", "a_b", "x" * 300)}


def test_a_cell_comes_back_as_it_was(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    made = make_cell(results, changes=("framing=bare",), utterances=2)
    assert results.cells() == [made]
    assert results.cell(made.spec) == made
    assert [trace.utterance for trace in made.traces()] == ["talk/0", "talk/1"]


def test_a_cell_is_not_there_before_it_is_saved(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    results.begin(SPEC)
    results.save_trace(SPEC, make_trace("talk"))
    assert results.cell(SPEC) is None
    assert results.cells() == []


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str | tuple):
        return value + value[:0].__class__(("x",)) if isinstance(value, tuple) else value + "x"
    return {**value, "x": "y"} if isinstance(value, dict) else value + 1


@each_row("name", [field.name for field in fields(CellSpec)])
def test_every_setting_is_part_of_the_key(name: str) -> None:
    changed = replace(SPEC, **{name: other(getattr(SPEC, name))})
    assert changed.key != SPEC.key
    assert replace(changed, **{name: getattr(SPEC, name)}).key == SPEC.key
    assert built(CellSpec, asdict(changed)) == changed


@pytest.mark.parametrize(
    "content", [b"", b'{"utterance": "talk"', b"[]", b'{"utterance": "talk", "shown": 3}', b"\xff"]
)
def test_a_damaged_trace_is_left_out_with_a_warning(tmp_path: Path, content: bytes) -> None:
    results = results_in(tmp_path)
    results.save_trace(SPEC, make_trace("talk"))
    next(results.folder.rglob("talk*.json")).write_bytes(content)
    with pytest.warns(UserWarning, match="damaged"):
        assert results.trace(SPEC, "talk") is None


def test_a_damaged_cell_does_not_hide_the_others(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    whole = make_cell(results, utterances=1)
    damaged = make_cell(results, utterances=1, step_s=2.0)
    assert damaged.folder is not None
    (damaged.folder / "cell.json").write_text('{"spec": {}}')
    with pytest.warns(UserWarning, match="damaged"):
        assert results.cells() == [whole]


def test_a_write_that_fails_leaves_the_old_file_and_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = results_in(tmp_path)
    made = make_cell(results, utterances=1)

    def fail(self: Path, target: Path) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(OutputError, match="no space left"):
            results.save(made.spec, {"wer": 1.0}, [make_record("talk/0")])
    assert results.cell(made.spec) == made
    assert not list(results.folder.rglob("*.part"))


def test_a_folder_that_cannot_be_made_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="choose another"):
        Results(tmp_path / "file" / "results").begin(SPEC)
    with pytest.raises(OutputError, match="choose another with --output"):
        Results(tmp_path / "file" / "results").check_writable()
    Results(tmp_path / "new" / "results").check_writable()
    assert list((tmp_path / "new" / "results").iterdir()) == []


def test_results_are_opened_as_a_folder_or_as_one_cell(tmp_path: Path) -> None:
    results = results_in(tmp_path)
    first = make_cell(results, utterances=1)
    make_cell(results, utterances=1, step_s=2.0)
    assert len(open_results(results.folder)) == 2
    assert first.folder is not None
    assert open_results(first.folder) == [first]
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(OptionError, match="bench run"):
            open_results(place)


def test_the_code_version_follows_what_computes_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_SOURCES", {"": tmp_path})
    counts = ("session.py", "lab/speech/talks.py", "lab/evaluation/clock.py", "bundled/steadiness.json")
    does_not = (
        *("cli/main.py", "server/app.py", "lab/training/loop.py", "lab/cli/bench.py", "lab/evaluation/report.py"),
        *("lab/evaluation/items/padding.py", "lab/evaluation/card/page.py"),
    )
    for name in (*counts, *does_not):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("a = 1\n")

    def now(part: str = "") -> str:
        store.code_version.cache_clear()
        return store.code_version(part)

    first, first_of_peers = now(), now("lab/evaluation")
    for name in does_not:
        (tmp_path / name).write_text("a = 2\n")
    assert (now(), now("lab/evaluation")) == (first, first_of_peers)
    versions, versions_of_peers = [first], [first_of_peers]
    for name in counts:
        (tmp_path / name).write_text("a = 2\n")
        versions.append(now())
        versions_of_peers.append(now("lab/evaluation"))
    store.code_version.cache_clear()
    assert len(set(versions)) == 5
    assert len(set(versions_of_peers)) == 2, "other programs' results depend on how they are run and scored alone"


@pytest.mark.parametrize("package", ["onnxruntime", "jiwer", "rapidfuzz", "whisper-normalizer"])
def test_the_code_version_follows_the_packages_that_compute_and_count(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = store.code_version("lab/evaluation")
    monkeypatch.setattr(store, "_version", lambda name: "0.0.1" if name == package else version(name))
    store.code_version.cache_clear()
    assert store.code_version("lab/evaluation") != known
    store.code_version.cache_clear()


def test_a_version_follows_what_is_asked_for_besides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_SOURCES", {"": tmp_path})
    files = ("lab/training/latecontext/understood.py", "lab/evaluation/report.py", "lab/evaluation/items/padding.py")
    found = []
    for text in ("a = 1\n", "a = 2\n"):
        for name in files:
            (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
            (tmp_path / name).write_text(text)
        store.code_version.cache_clear()
        modules = ("lab.training.latecontext", "lab.evaluation.report", "lab.evaluation.items.pad")
        asked = ((), *((f"whispertide_{module}",) for module in modules))
        found.append([store.code_version("", *more) for more in asked])
    store.code_version.cache_clear()
    assert [one == other for one, other in zip(*found, strict=True)] == [True, False, False, True], (
        "a name counts whole"
    )


def test_only_an_engine_of_ours_has_a_version_of_its_own() -> None:
    assert [store.engine_version(name) for name in ("auto", "cpu", "cuda")] == [""] * 3
    assert store.engine_version("torch")


def test_the_parts_that_a_version_is_asked_for_are_there() -> None:
    for part in ("lab/evaluation", "lab/training", "lab/cli", "cli", "server"):
        assert store._path(part).is_dir()
    for place in store._IRRELEVANT:
        assert store._path(place).exists()


def test_machine_and_commit_say_something() -> None:
    assert "cores" in store.machine()
    assert store.commit() not in ("", "+")
