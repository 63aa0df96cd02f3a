"""`whispertide bench paper`, with recognisers that need no model."""

import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import Run
from fake_recognisers import Heard
from whispertide.errors import CheckpointNotFoundError
from whispertide.tuning.page import Table
from whispertide_lab.evaluation import corpora, papers
from whispertide_lab.evaluation.items import padding
from whispertide_lab.evaluation.items import whisperflow as made
from whispertide_lab.evaluation.paper import Item, Outcome
from whispertide_lab.evaluation.papers import get_paper
from whispertide_lab.evaluation.runner import Runner

NANO = ("--models", "nano.en")  # at hand everywhere; what is usual has to be downloaded


@pytest.fixture
def whisperflow(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Only one item of the paper, because the paddings need a model."""

    def only(item_id: str) -> None:
        whole = get_paper("whisperflow")
        items = tuple(item for item in whole.items if item.id == item_id)
        monkeypatch.setattr(papers, "every_paper", lambda: {"whisperflow": replace(whole, items=items)})

    return only


@pytest.mark.slow
@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("table 2", r"nano\.en +5 +100 +100 +50"),
        ("table 4", r"0\.75 s +nano\.en +3\.33 +0\.75 +8\.7 +5\.00"),
        ("figure 7", r"\n\s*whisperflow executor=pipelined +0\.1 s"),
        ("figure 8", r"\n\s*whisper-streaming +2 s"),
        ("figure 9", "power meter"),
        (
            "figure 10",
            r"executor=pipelined hush_s=0\.5 align=time recover=true follows=heard reread=false "
            r"least_probability=0\.8 settle_s=0\.6 +0\.1 s",
        ),
    ],
)
def test_the_items_of_whisperflow_are_measured(
    run: Run, heard: Heard, whisperflow: Callable[[str], None], item: str, said: str
) -> None:
    whisperflow(item)
    result = run("bench", "paper", "whisperflow", *NANO, "--quick")
    assert result.exit_code == 0, result.stderr
    assert re.search(said, result.stdout), result.stdout
    whole = item not in ("table 2", "figure 8", "figure 9")
    assert (f"{item} (" in result.stdout.splitlines()[-1]) != whole, "what an item lacks is said"
    page = Path("bench-results", "paper-whisperflow.html").read_text(encoding="utf-8")
    assert ("<img" in page) == item.startswith("figure")
    numbers = b"".join(b64decode(found) for found in re.findall(r"text/csv;base64,([^\"]*)", page))
    assert (b"+ two workers" in numbers) == (item == "figure 10")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("figure 4", [r"\n\s*npusper +0\.3 +\d", r"\n\s*whisperrt +1 +\d"]),
        ("figure 5", [r"\n\s*whisperrt +3 +\d"]),
        ("complexity", [r"\n\s*tide +0 to 5 +8 +1\.50 +9\.00 +40\.00", r"\n\s*tide +15 to 20 +30 +1\.50"]),
    ],
)
def test_the_items_of_whisperrt_are_measured_on_the_free_clock(
    run: Run, heard: Heard, item: str, said: list[str]
) -> None:
    result = run("bench", "paper", "whisperrt", *NANO, "--items", item, "--quick")
    assert result.exit_code == 0, result.stderr
    assert all(re.search(line, result.stdout) for line in said), result.stdout
    asked = {name for name, _ in heard.asked if name != "offline"}
    assert asked
    assert all(name.endswith(" free") for name in asked)
    assert "<img" in Path("bench-results", "paper-whisperrt.html").read_text(encoding="utf-8")


def test_the_papers_are_of_real_weights_unless_told_otherwise(
    run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def noted(runner: Runner) -> Outcome:
        asked.append(runner.models)
        return Outcome()

    monkeypatch.setattr("whispertide.checkpoint.names.find_model", lambda name: None)
    monkeypatch.setattr(made, "beam_table", noted)
    result = run("bench", "paper", "whisperflow", "--items", "table 4")
    assert (result.exit_code, asked) == (0, [("tiny.en",)])


def test_hush_words_are_read_from_the_named_files(
    run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[list[float]] = []

    def noted(runner: Runner) -> Outcome:
        asked.append([word.seconds for word in runner.setup.hush])
        return Outcome()

    monkeypatch.setattr(padding, "padding_table", noted)
    files = [tmp_path / f"{seconds}.csv" for seconds in (0.5, 1)]
    for seconds, file in zip((0.5, 1), files, strict=True):
        np.savetxt(file, np.sin(np.arange(16000 * seconds)))
    for options in ((), ("--hush", ", ".join(map(str, files)))):
        assert run("bench", "paper", "whisperflow", *NANO, "--items", "table 1", *options).exit_code == 0
    assert asked == [[], [0.5, 1.0]]


def test_a_hush_word_that_is_not_there_is_said_before_anything_is_measured(run: Run, heard: Heard) -> None:
    result = run("bench", "paper", "whisperflow", *NANO, "--items", "text", "--hush", "none.csv")
    assert result.exit_code == 4
    assert "expected a CSV of samples; none.csv cannot be read" in result.stderr
    assert not Path("bench-results").exists()


def test_each_model_is_looked_for_also_if_no_item_needs_it(run: Run, heard: Heard) -> None:
    result = run("bench", "paper", "pilot", "--models", "commands,nano.en,rival", "--quick")
    assert result.exit_code == 4
    assert "'rival'" in result.stderr
    assert not heard.asked


def test_an_item_that_fails_says_why_and_the_others_go_on(
    run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the exit code of what failed; each paper is named where there are several."""

    def fails(runner: object) -> None:
        raise CheckpointNotFoundError("expected an adapter; there is none")

    def works(runner: Runner) -> Outcome:
        return Outcome(note=f"made on {runner.setup.length_s:g} s of {runner.corpus_name}")

    monkeypatch.setattr(made, "stage_table", fails)
    monkeypatch.setattr(made, "beam_table", works)
    items = (
        Item("table 1", "one", "page 1", "talks", measure="whisperflow.stage_table"),
        Item("table 2", "two", "page 2", "talks", measure="whisperflow.beam_table", usual_s=30.0),
    )
    several = {name: replace(get_paper(name), items=items) for name in ("whisperflow", "npusper")}
    monkeypatch.setattr(papers, "every_paper", lambda: several)
    page = tmp_path / "page.html"
    result = run("bench", "paper", "all", *NANO, "--page", page)
    assert result.exit_code == 4
    assert "npusper, table 1: one\nnot measured: expected an adapter; there is none\n" in result.stdout
    assert "whisperflow, table 2: two\nmade on 30 s of talks\n" in result.stdout
    assert page.read_text(encoding="utf-8").count("not measured: expected an adapter") == 2


def test_an_item_of_two_corpora_says_on_which_each_part_was_made(
    run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def works(runner: Runner) -> Outcome:
        return Outcome((Table(("a",), ((runner.corpus_name,),)),), note=f"made on {runner.corpus_name}.")

    monkeypatch.setattr(made, "beam_table", works)
    items = (Item("table 1", "one", "", "", measure="whisperflow.beam_table", corpora=("talks", "noisy")),)
    whisperflow = replace(get_paper("whisperflow"), items=items)
    monkeypatch.setattr(papers, "every_paper", lambda: {"whisperflow": whisperflow})
    both, one, other = (
        run("bench", "paper", "whisperflow", *NANO, *asked) for asked in ((), ("-c", "rooms"), ("-c", "rooms,talks"))
    )
    assert "talks: made on talks. noisy: made on noisy." in both.stdout
    assert re.search(r"\ntalks\n.*\nnoisy\n", both.stdout, re.DOTALL), "each table is titled"
    assert "\nmade on rooms.\n" in one.stdout
    assert "rooms: made on rooms. talks: made on talks." in other.stdout


def test_items_that_compare_times_are_made_by_the_processors_time(
    run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def works(runner: Runner) -> Outcome:
        return Outcome(note=f"made by the clock {runner.clock}")

    monkeypatch.setattr(made, "beam_table", works)
    items = tuple(
        Item(f"table {number}", "one", "", "", measure="whisperflow.beam_table", timed=timed)
        for number, timed in enumerate((True, False))
    )
    whisperflow = replace(get_paper("whisperflow"), items=items)
    monkeypatch.setattr(papers, "every_paper", lambda: {"whisperflow": whisperflow})
    result = run("bench", "paper", "whisperflow", *NANO, "--threads", 1)
    assert result.exit_code == 0, result.output
    assert re.findall(r"by the clock (\w+)", result.stdout) == ["processor", "simulated"]


def test_a_paper_is_measured_on_whole_talks(run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    """One piece is one long recording, not many short ones."""
    asked: list[tuple[float | None, int]] = []
    made = corpora.open_corpus

    def noted(spec: str, *, length_s: float | None, pieces: int, seed: int, **_: object) -> object:
        asked.append((length_s, pieces))
        return made(spec, seed=seed)

    monkeypatch.setattr(corpora, "open_corpus", noted)
    item = ("--items", "table 2", "--excerpt", "40")
    first = run("bench", "paper", "whisperflow", *NANO, *item, "--pieces", "1")
    assert first.exit_code == 0, first.stderr + first.stdout
    assert run("bench", "paper", "whisperflow", *NANO, *item).exit_code == 0
    assert asked == [(40.0, 1), (40.0, 16)]
    assert {name for _, name in heard.asked} == {"talk/0", "talk/0-first320000", "talk/1-first320000"}


def test_an_unknown_paper_is_wrong_usage(run: Run, heard: Heard) -> None:
    result = run("bench", "paper", "whisperfloe")
    assert (result.exit_code, "whisperflow" in result.stderr) == (2, True)


def test_a_list_of_items_without_an_item_is_wrong_usage(run: Run, heard: Heard) -> None:
    result = run("bench", "paper", "whisperflow", *NANO, "--items", ",")
    assert result.exit_code == 2, result.stderr
    assert "expected items of whisperflow" in result.stderr
    assert heard.asked == []
