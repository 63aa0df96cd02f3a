"""The soak campaign finds what is planted, and goes on where it stopped: one that cannot fail is worth nothing."""

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmark_scripts import benchmark
from whispertide.events import Confirmed, Event
from whispertide.server.hub import Hub
from whispertide.server.journal import Journal
from whispertide.server.live import LiveSession
from whispertide.types import Word


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with benchmark("soak") as module:
        yield module


@pytest.fixture
def scenario(script: ModuleType) -> Callable[[str], Any]:
    return lambda name: next(each for each in script.KINDS if each.name == name)


# --- what is counted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heard", "found"),
    [
        ("a b c d", (0, 0, 0)),
        ("a b d", (1, 0, 0)),
        ("a b x d", (1, 1, 0)),
        ("a b b c d a", (0, 0, 2)),
        ("b a c d", (0, 1, 0)),
        ("", (4, 0, 0)),
    ],
)
def test_every_word_is_accounted_for(script: ModuleType, heard: str, found: tuple[int, int, int]) -> None:
    from campaign.difference import difference

    result = difference(["a", "b", "c", "d"], heard.split())
    assert (result.lost, result.changed, result.repeated) == found


def test_memory_that_grows_is_told(script: ModuleType) -> None:
    from campaign.lines import Line
    from campaign.page import flatness

    lines = [Line("x", seed, rss_mb=100 + 200 * (seed < 10) + seed / 10, process=1) for seed in range(100)]
    first, last, change = flatness([Line("x", 0, rss_mb=900.0, process=2), *lines])
    assert first == pytest.approx(102.9, abs=1)
    assert change == pytest.approx(last / first - 1)
    assert change > 0.04


# --- going on where it stopped ---------------------------------------------------------------------------------------


def test_what_was_run_is_not_run_again(script: ModuleType, tmp_path: Path) -> None:
    from contextlib import contextmanager

    from campaign.lines import Line, Notes
    from campaign.scenario import Scenario

    played: list[int] = []

    @contextmanager
    def opened(_: Path) -> Iterator[Callable[[int], Line]]:
        def run(seed: int) -> Line:
            if len(played) == 2:
                played.append(-1)
                raise KeyboardInterrupt
            played.append(seed)
            return Line("short", seed, harm=10)

        yield run

    notes = Notes(tmp_path / "code")
    short = Scenario("short", "", "things", 40, opened)
    with pytest.raises(KeyboardInterrupt):
        script.work(short, notes, float("inf"))
    with (tmp_path / "code" / "short.jsonl").open("a") as file:
        file.write('{"scenario": "short", "se')  # the campaign died in the middle of a line
    script.work(short, notes, float("inf"))
    assert played == [0, 1, -1, 2, 3]


def test_a_failure_fails_the_campaign(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from campaign.lines import Line, Notes

    notes = Notes.here(tmp_path)
    notes.folder.mkdir(parents=True)
    line = Line("kills", 7, harm=10**6, lost=1, problem="it was planted")
    (notes.folder / "kills.jsonl").write_text(json.dumps(asdict(line)) + "\n")
    monkeypatch.setattr(sys, "argv", ["soak", "--only", "kills", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match="1 seeds"):
        script.main()
    assert "kills seed 7: 1 words lost" in capsys.readouterr().out


def test_memory_that_grows_fails_the_campaign(script: ModuleType, tmp_path: Path) -> None:
    from campaign.lines import Line, Notes

    notes = Notes(tmp_path)
    steady = [each for each in script.KINDS if each.name == "fuzz"]
    for seed in range(100):
        notes.add(Line("fuzz", seed, rss_mb=100 + seed / 100, process=1))
    assert script.grown(steady, notes) == []
    for seed in range(100, 500):
        notes.add(Line("fuzz", seed, rss_mb=100 + seed / 100, process=1))
    assert [name for name, _ in script.grown(steady, notes)] == ["fuzz"]


# --- what is planted is found ----------------------------------------------------------------------------------------


def forgets_a_command(patch: pytest.MonkeyPatch) -> None:
    """The journal does not write every fifth command down, and says that it has."""
    submit, count = Journal._submit, iter(range(10**9))

    def forgetful(self: Journal, statements: list[Any], then: Callable[[bool], None] = lambda _: None) -> None:
        command = any(statement.startswith("INSERT INTO commands") for statement, _ in statements)
        submit(self, [] if command and next(count) % 5 == 4 else statements, then)

    patch.setattr(Journal, "_submit", forgetful)


def promises_too_soon(patch: pytest.MonkeyPatch) -> None:
    """Clients are told that audio is safe before it is written."""
    put = Hub._put

    def hasty(self: Hub, live: LiveSession, command: Any) -> None:
        put(self, live, command)
        live.safe = live.accepted

    patch.setattr(Hub, "_put", hasty)
    write = Journal._transaction

    def slow(self: Journal, jobs: Sequence[Any]) -> None:
        import time

        time.sleep(0.05)
        write(self, jobs)

    patch.setattr(Journal, "_transaction", slow)


def _confirming(change: Callable[[tuple[Word, ...]], tuple[Word, ...]]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        numbered = LiveSession._number

        def changed(self: LiveSession, entries: list[Any]) -> list[Any]:
            return numbered(
                self,
                [replace(each, words=change(each.words)) if isinstance(each, Confirmed) else each for each in entries],
            )

        patch.setattr(LiveSession, "_number", changed)

    return plant


drops_a_word = _confirming(lambda words: words[1:] if len(words) > 2 else words)
changes_a_word = _confirming(lambda words: (*words[:-1], replace(words[-1], text=" whale")) if words[2:] else words)
repeats_a_word = _confirming(lambda words: (*words, words[-1]) if len(words) > 2 else words)


def tells_events_anew(patch: pytest.MonkeyPatch) -> None:
    """What comes again after a resume is not what came before."""
    from whispertide.server.outbox import Outbox

    resume = Outbox.resume

    def other(self: Outbox, last_seq: int) -> None:
        resume(self, last_seq)
        for index, entry in enumerate(self.entries):
            if isinstance(entry, Event):
                self.entries[index] = replace(entry, at=entry.at + 160)

    patch.setattr(Outbox, "resume", other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "plant", "seen"),
    [
        ("kills", forgets_a_command, "problem"),
        pytest.param("kills", promises_too_soon, "problem", marks=pytest.mark.soak),
        ("disconnects", drops_a_word, "lost"),
        pytest.param("drains", changes_a_word, "changed", marks=pytest.mark.soak),
        pytest.param("outages", repeats_a_word, "repeated", marks=pytest.mark.soak),
        pytest.param("disconnects", tells_events_anew, "problem", marks=pytest.mark.soak),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_planted_defect_is_found(
    scenario: Callable[[str], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    plant: Callable[[pytest.MonkeyPatch], None],
    seen: str,
) -> None:
    plant(monkeypatch)
    with scenario(name).opened(tmp_path) as run:
        lines = [run(seed) for seed in range(2)]
    assert any(getattr(line, seen) for line in lines), lines
    assert any(line.failed for line in lines)


LOSES_WORDS = """
def confirmed(self, entries):
    return numbered(self, [each for each in entries if not isinstance(each, Confirmed)])

numbered, LiveSession._number = LiveSession._number, confirmed
"""
LOGS_AN_ERROR = """
def told(self, connection, message):
    logging.getLogger("whispertide.server").error("it was planted")
    fuzz_server._RECEIVE(connection, message)

fuzz_server.Counter.counted = told
"""
DIES = """
fuzz_server.Counter.counted = lambda self, connection, message: os._exit(1)
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("plant", "seen"),
    [(LOSES_WORDS, "bystander"), (LOGS_AN_ERROR, "it was planted"), (DIES, "the server")],
    ids=["loses words", "logs an error", "dies"],
)
def test_a_defect_of_the_fuzzed_server_is_found(
    scenario: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: str, seen: str
) -> None:
    monkeypatch.setattr("campaign.fuzz.CONVERSATIONS", 3)
    imports = "import logging, os; from campaign import fuzz_server; from whispertide.events import Confirmed; "
    imports += "from whispertide.server.live import LiveSession"
    program = f"{imports}\n{plant}\nfuzz_server.main()"
    monkeypatch.setattr("campaign.fuzz.SERVER", (sys.executable, "-c", program))
    with scenario("fuzz").opened(tmp_path) as run:
        line = run(0)
    assert seen in line.problem
    assert line.failed


@pytest.mark.soak  # CI runs the campaign itself
@pytest.mark.parametrize("name", ["kills", "drains", "disconnects", "outages", "journal-faults", "clock", "fuzz"])
def test_a_good_server_passes(scenario: Callable[[str], Any], tmp_path: Path, name: str) -> None:
    with scenario(name).opened(tmp_path) as run:
        line = run(1)
    assert not line.failed, line
    assert line.harm > 0


@pytest.mark.soak
def test_a_campaign_of_seconds_writes_its_page(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "LOOK_S", 0.05)
    only = ["--only", "kills-process,fuzz", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["soak", "--minutes", "0.1", *only])
    script.main()
    page = tmp_path / "docs" / "soak.md"
    page.parent.mkdir()
    monkeypatch.setattr(sys, "argv", ["soak", "--page", str(page), *only])
    script.main()
    text = page.read_text()
    row = next(line for line in text.splitlines() if line.startswith("| `kills-process`"))
    assert row.split("|")[2].strip() != "0"
    assert (page.parent / "soak" / "memory.png").is_file()
    page.write_text("Before.\n" + text + "After.\n")
    script.main()
    assert page.read_text().startswith("Before.\n")
    assert page.read_text().endswith("After.\n")
    kept = page.read_text()
    (tmp_path / script.Notes.here(tmp_path).folder.name / "kills-process.jsonl").unlink()
    script.main()
    assert page.read_text() == kept  # a scenario without lines keeps its rows


def test_a_full_disk_is_full_and_a_read_only_one_read_only(script: ModuleType, tmp_path: Path) -> None:
    from campaign.life import Disk

    database = sqlite3.connect(tmp_path / "x.sqlite3", isolation_level=None)
    disk = Disk(database, tmp_path)
    disk.execute("CREATE TABLE things (data BLOB)")
    for kind, told in (("full", "full"), ("read-only", "readonly")):
        disk.fail(kind)
        with pytest.raises(sqlite3.OperationalError, match=told):
            disk.execute("INSERT INTO things VALUES (?)", (bytes(100_000),))
        disk.fail("")
        disk.execute("INSERT INTO things VALUES (?)", (bytes(100_000),))
    database.close()
