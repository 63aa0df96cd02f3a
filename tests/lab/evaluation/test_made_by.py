"""What is kept of a measurement depends on all code that measures it. Cells do not depend on what measures items."""

import ast
import shutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from test_imports import LABORATORY, SOURCE, imported, modules, name_of
from whispertide_lab.evaluation import store
from whispertide_lab.evaluation.clips import CUT_BY
from whispertide_lab.evaluation.peer_cells import peer_code
from whispertide_lab.evaluation.peers import PEERS

ITEMS, TRAINING = "whispertide_lab.evaluation.items.", "whispertide_lab.training."
FILES = {name_of(path): path for path in modules()}
MEASURING = [name for name in FILES if name.startswith((ITEMS, TRAINING))]
PEERS_FOLDER = "whispertide_lab.evaluation.peers."
# What every program uses, and what reads the checkpoint, which is told apart by its content.
COMMON = (
    *(f"whispertide.{name}" for name in ("types", "errors", "options", "atomic", "checkpoint")),
    "whispertide_lab.from_json",
)
PLAIN = ("", "lab/evaluation")  # of cells: ours, and other programs'


class Kept(NamedTuple):
    """A call that keeps what a module measures, and the modules that the call says it is made by."""

    module: str
    line: int
    made_by: tuple[str, ...]


def keeping(module: str) -> Iterator[Kept]:
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in ("runner.kept", "runner.each_clip"):
            said = [ast.unparse(argument) for argument in node.args[3:]]
            said += [f"*{ast.unparse(word.value)}" for word in node.keywords if word.arg == "made_by"]
            named = eval(f"[{', '.join(said)}]", vars(import_module(module)))
            yield Kept(module, node.lineno, (*named, *([CUT_BY] if name == "runner.each_clip" else [])))


@pytest.fixture(scope="module")
def calls() -> list[Kept]:
    return [call for module in MEASURING for call in keeping(module)]


def needed(module: str, known: set[str]) -> set[str]:
    """The module and what it imports that no cell depends on, but for what shows."""
    known.add(module)
    for name in imported(ast.parse(FILES[module].read_text())):
        if name in {*MEASURING, CUT_BY} - known:
            needed(name, known)
    return known


def place_of(path: Path) -> str:
    """As `store` calls it: what is the laboratory's is in `lab`."""
    if path.is_relative_to(LABORATORY):
        return f"lab/{path.relative_to(LABORATORY).as_posix()}"
    return path.relative_to(SOURCE).as_posix()


def everything(module: str, known: set[str]) -> set[str]:
    """The module and what it imports, and so on, but for what is common."""
    known.add(module)
    for name in imported(ast.parse(FILES[module].read_text())):
        if name in FILES.keys() - known and not name.startswith(COMMON):
            everything(name, known)
    return known


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    shutil.copytree(LABORATORY, folder / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_all_that_keep_are_found(calls: list[Kept]) -> None:
    files = {call.module.removeprefix(ITEMS).removeprefix(TRAINING) for call in calls}
    clips = {"attention", "guard", "lengths", "padding"}
    others = {"allocation", "chunks", "lowering", "pilot", "static_decoding", "whisperkit_compression"}
    assert files == {*clips, *others, "latecontext.pilot_items"}


@pytest.mark.slow
def test_what_is_kept_follows_what_measures_it(
    calls: list[Kept], copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_SOURCES", {"": copied})
    needs = {call: needed(call.module, set()) for call in calls}

    def versions(of: Iterable[Kept]) -> tuple[dict[tuple[str, ...], str], list[str]]:
        store.code_version.cache_clear()
        made_by = {call.made_by for call in of}
        return {each: store.code_version("", *each) for each in made_by}, [*map(store.code_version, PLAIN)]

    first, plain = versions(calls)
    for module in set().union(*needs.values()):
        concerned = [call for call in calls if module in needs[call]]
        path = copied / place_of(FILES[module])
        text = path.read_text()
        path.write_text(f"{text}\n# changed\n")
        now, plain_now = versions(concerned)
        path.write_text(text)
        same = [call for call in concerned if now[call.made_by] == first[call.made_by]]
        assert same == [], f"these are made by {module} too"
        assert plain_now == plain
    store.code_version.cache_clear()


@pytest.mark.parametrize("program", sorted({peer.program for peer in PEERS.values() if peer.program}))
def test_what_is_kept_of_another_program_follows_all_that_runs_it(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_SOURCES", {"": tmp_path})
    names = everything(PEERS_FOLDER + program, set())
    paths = [Path(place_of(FILES[name])) for name in names]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    store.code_version.cache_clear()
    versions = {peer_code()}
    for path in paths:
        (tmp_path / path).write_text("# changed")
        store.code_version.cache_clear()
        versions.add(peer_code())
    store.code_version.cache_clear()
    assert len(versions) == 1 + len(paths), f"some of {paths} does not count"
