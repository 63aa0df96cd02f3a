"""What was measured is compared, reported and explained."""

import re
from pathlib import Path

import pytest

from bench_lines import ONE
from command_line import Run
from evaluation_cells import make_cell
from fake_recognisers import Heard
from whispertide_lab.evaluation import report
from whispertide_lab.evaluation.store import Results


def test_two_cells_are_compared(run: Run, tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    slow, quick = make_cell(results, late_s=2.0), make_cell(results, late_s=0.5, step_s=0.2)
    result = run("bench", "compare", slow.key[:8], quick.key, "--output", results.folder)
    assert result.exit_code == 0
    assert "confirmed latency lower by 1.500 s" in result.stdout
    assert result.stdout.startswith("A: whisper-streaming 1 s\nB: whisper-streaming 0.2 s\n")
    assert run("bench", "compare", slow.folder, quick.folder).stdout == result.stdout


def test_cells_are_compared_by_the_names_that_the_table_shows(run: Run, tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    make_cell(results, late_s=2.0)
    make_cell(results, recogniser="tide", late_s=0.5, step_s=0.3)
    make_cell(results, recogniser="tide", late_s=0.7, step_s=0.3, changes=("framing=pad30",))
    place = ("--output", results.folder)
    result = run("bench", "compare", "whisper-streaming", "tide", *place)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("A: whisper-streaming 1 s\nB: tide 0.3 s\n")
    assert "confirmed latency lower by 1.500 s" in result.stdout
    changed = run("bench", "compare", "whisper-streaming", "tide framing=pad30", *place)
    assert "confirmed latency lower by 1.300 s" in changed.stdout
    for recogniser, step_s in (("whisper-streaming", 1.0), ("tide", 0.3)):
        make_cell(results, recogniser=recogniser, step_s=step_s, corpus="noisy", corpus_hash="ba9876543210")
    both = run("bench", "compare", "whisper-streaming", "tide", *place).stdout
    assert re.findall(r"nano\.en on (\w+), simulated clock\nA: whisper", both) == ["talks", "noisy"]


@pytest.mark.parametrize("names", [(), ("tide",), ("tide", "tyde")])
def test_without_names_or_with_an_unknown_one_what_there_is_is_listed(
    run: Run, tmp_path: Path, names: tuple[str, ...]
) -> None:
    results = Results(tmp_path / "results")
    cells = [make_cell(results), make_cell(results, recogniser="tide", step_s=0.3)]
    result = run("bench", "compare", *names, "--output", results.folder)
    listed = result.stderr if names else result.stdout
    assert (result.exit_code, bool(result.stdout)) == ((2, False) if names else (0, True))
    assert [part for cell in cells for part in (cell.key, cell.spec.recogniser) if part not in listed] == []
    assert len(names) < 2 or "'tyde'" in listed
    nothing = run("bench", "compare", *names, "--output", tmp_path / "nothing")
    assert (nothing.exit_code, "bench run" in nothing.stderr) == (2, True)


def test_a_report_is_written_whole_or_not_at_all(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "charts", lambda cells: [])  # drawing takes most of the time
    results = Results(tmp_path / "results")
    make_cell(results, utterances=3)
    page = tmp_path / "new" / "report.html"
    assert run("bench", "report", results.folder, "-o", page).exit_code == 0
    assert page.read_text(encoding="utf-8").endswith("</html>\n")
    (tmp_path / "file").write_text("")
    failed = run("bench", "report", results.folder, "-o", tmp_path / "file" / "report.html")
    assert (failed.exit_code, "Traceback" in failed.stderr) == (5, False)
    assert run("bench", "report", tmp_path / "nothing", "-o", page).exit_code == 2


@pytest.mark.slow
def test_explain_says_where_the_wait_comes_from(run: Run, heard: Heard) -> None:
    """The recogniser shows each word a step after its end, with one round in between that is computed at once."""
    result = run(*ONE, "--steps", "0.5", "--explain")
    assert result.exit_code == 0, result.stderr
    table = result.stdout.split("Where the wait comes from\n")[1].splitlines()
    assert table[0].split("  ")[0] == "part of the wait (ms)"
    parts = {line.rsplit(maxsplit=1)[0].strip(): line.rsplit(maxsplit=1)[1] for line in table[1:] if line.strip()}
    assert parts["together"] == "500"
    assert Path("bench-results/waits.png").read_bytes().startswith(b"\x89PNG")


def test_explain_without_word_times_says_so(run: Run, heard: Heard) -> None:
    result = run("bench", "run", "--recipes", "offline", "--explain")
    assert result.exit_code == 0, result.stderr
    assert "--explain: no recipe found words with known times" in result.stderr
