"""A siege of a server that knows its words: what is measured, and that hostile clients end by themselves."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmark_scripts import benchmark
from served import SECONDS, TEXT, limited
from slow_rows import slow_but
from standing_server import Standing, standing

PROTOCOLS = ("native", "asr", "deepgram", "assemblyai", "whisperlive", "realtime", "wyoming", "lines")


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with benchmark("siege") as module:
        yield module


ALONE = {"median_s": 0.4, "worst_s": 0.9, "words": ["one", "two", "three", "four"]}


def row(**other: Any) -> dict[str, Any]:
    good = {
        "kind": "pings:4",
        "protocol": "native",
        "model": "nano.en",
        "alone": ALONE,
        **ALONE,
        "ended": True,
        "problem": "",
        "probe_p99_s": 0.01,
        "memory_mb": [200.0, 260.0, 210.0],
        "files": [12, 20, 12],
        "log_kb": 1.0,
        "server_cpu_s": 2.0,
        "server_waited_s": 0.5,
        "hostile": [{"cpu_s": 0.5, "met": {"close 1008": 7}}],
        "rounds": 0,
        "rounds_mb": [],
        "load": 1.0,
        "code": "0123",
    }
    return {**good, **other}


# --- what a row misses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"median_s": 0.91}, ["median over 0.90 s"]),
        ({"median_s": None, "worst_s": None}, ["median over 0.90 s", "worst over 2.0 s"]),
        ({"worst_s": 2.1}, ["worst over 2.0 s"]),
        ({"ended": False}, ["not ended"]),
        ({"words": ["one", "three", "four"]}, ["1 words lost"]),
        ({"words": ["one", "too", "three", "four"]}, []),
        ({"words": ["one", "too", "four"]}, ["1 words lost"]),
        ({"probe_p99_s": 0.2}, ["/healthz over 0.2 s"]),
        ({"memory_mb": [200.0, 900.0, 301.0]}, ["memory over 100 MB more"]),
        ({"rounds_mb": [250.0, 280.0, 310.0]}, ["memory over 100 MB more"]),
    ],
)
def test_each_goal_can_be_missed(script: ModuleType, changes: dict[str, Any], missed: list[str]) -> None:
    from hostile.goals import missed_goals

    assert missed_goals(row(**changes)) == missed


def test_a_protocol_that_holds_words_back_is_compared_with_itself(script: ModuleType) -> None:
    from hostile.goals import missed_goals

    slow = {**ALONE, "worst_s": 6.0}
    assert missed_goals(row(alone=slow, worst_s=6.4)) == []
    assert missed_goals(row(alone=slow, worst_s=6.6)) == ["worst over 6.5 s"]


def test_the_last_row_of_a_kind_is_on_the_page(script: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "siege.md"
    rows = [row(kind="alone"), row(median_s=9.87), row(median_s=0.77), row(protocol="wyoming", ended=False)]
    script.write_page(page, [*rows, row(rounds=50, rounds_mb=[211.0, 212.0])])
    text = page.read_text(encoding="utf-8")
    assert "9.87" not in text
    assert "| `pings:4` | 0.40, 0.90 | 0.77 | 0.90 | yes | 0 | 0 | 0.01 | 200, 260, 210 |" in text
    assert "### wyoming" in text
    assert "`pings:4`, 50 | 200, 210, 211, 212 | 12 |" in text
    assert (tmp_path / "siege" / "delays.csv").read_text(encoding="utf-8").splitlines()[1:] == [
        "alone,0.4,0.4,0.9",
        "pings:4,0.77,0.77,0.9",
    ]


@pytest.mark.slow
def test_what_was_not_measured_again_stays_on_the_page(script: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "siege.md"
    first = [row(median_s=0.77), row(kind="alone"), row(protocol="wyoming", audio=["talk.flac"])]
    script.write_page(page, [*first, row(rounds=50, rounds_mb=[211.0, 212.0])])
    again = page.read_text(encoding="utf-8")
    script.write_page(page, [])
    assert page.read_text(encoding="utf-8") == again
    script.write_page(page, [row(median_s=0.55), row(kind="leave:8"), row(kind="leave:8", rounds_mb=[213.0])])
    expected = again.replace("| 0.77 |", "| 0.55 |").splitlines()
    text = page.read_text(encoding="utf-8").splitlines()
    assert set(expected) < set(text)
    assert [line.split("|")[1].strip() for line in text if "`leave:8" in line] == ["`leave:8`", "`leave:8`, 0"]
    assert "--protocol wyoming -m nano.en --audio talk.flac`" in "".join(text)


def test_kinds_are_asked_for_by_name(script: ModuleType) -> None:
    from hostile.kinds import named, parsed

    assert [named(siege) for siege in parsed("pings")] == ["pings:1", "pings:4", "pings:16"]
    assert [named(siege) for siege in parsed("pings:3+unpaced")] == ["pings:3+unpaced:2"]
    for wrong in ("pongs", "pings:0", "pings:65", "pings:x"):
        with pytest.raises(ValueError, match=r"expected|invalid"):
            parsed(wrong)


# --- hostile clients, and an honest one ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def besieged() -> Iterator[Standing]:
    with standing(limited(resume_s=0.3)) as town:
        yield town


ATTACKS = ("guesses", "requests", "wrong-keys", "unread", "idle", "silent", "flushes", "takeovers", "slow-bodies")


@pytest.mark.parametrize("name", slow_but(ATTACKS, "guesses", "takeovers"))
def test_an_attack_is_carried_out_and_ends(script: ModuleType, besieged: Standing, name: str, tmp_path: Path) -> None:
    from hostile.assault import SPEECH, Assault, carry_out
    from hostile.kinds import KINDS

    async def attacked() -> Assault:
        assault = Assault(besieged.port, besieged.tcp, "", tmp_path, 2, threading.Event(), time.monotonic() + 60)
        attack = asyncio.create_task(asyncio.to_thread(carry_out, assault, KINDS[name].attack))
        async with besieged.bystander(), asyncio.timeout(60):
            while assault.tally["connections"] < 2:
                await asyncio.sleep(0.01)
        assault.stop.set()
        await attack
        await besieged.settled()
        return assault

    (tmp_path / SPEECH).write_bytes(bytes(64_000))
    assault = asyncio.run(attacked())
    assert bool(assault.tally["bytes"]) == (name != "silent")


@pytest.mark.slow
def test_a_party_attacks_as_often_as_it_is_told_and_reports(
    script: ModuleType, besieged: Standing, tmp_path: Path
) -> None:
    from hostile.kinds import parsed
    from hostile.party import Where, parties

    async def twice() -> list[dict[str, Any]]:
        where = Where(besieged.port, besieged.tcp, "", str(tmp_path))
        async with parties(parsed("guesses:1")[0], where) as (party,):
            reports = []
            for _ in range(2):
                await party.attack(60)
                reports.append(await party.called_back())
            return reports

    assert [set(report) for report in asyncio.run(twice())] == 2 * [{"cpu_s", "did", "met"}]


@pytest.mark.parametrize("protocol", slow_but(PROTOCOLS, "native", "wyoming"))
def test_the_honest_session_hears_its_words_on_each_protocol(
    script: ModuleType, besieged: Standing, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model knows them, so they may be said at once."""
    import honest_sessions
    import paced_sessions

    async def at_once(talk: Any, send: Callable[[bytes], Awaitable[None]]) -> None:
        for _ in range(round(10 * SECONDS)):
            await send(bytes(3_200))

    monkeypatch.setattr(paced_sessions, "pace", at_once)
    monkeypatch.setattr(honest_sessions, "pace", at_once)
    talk = paced_sessions.Talk(np.zeros(round(SECONDS * 16_000), np.float32), ())
    heard = paced_sessions.Heard()
    place = honest_sessions.Place(besieged.port, besieged.tcp, "")
    asyncio.run(honest_sessions.PROTOCOLS[protocol](place, talk, heard))
    assert heard.problem == ""
    assert heard.complete
    assert [word for word, _ in heard.words] == TEXT


async def test_the_vitals_of_a_process_and_its_answers_to_probes(besieged: Standing, script: ModuleType) -> None:
    from vitals import probed, vitals

    if not Path("/proc/self/status").exists():
        pytest.skip("expected /proc")
    with TemporaryFile() as log:
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=log)
        now = vitals(process.pid)
        process.communicate(b"\n")
    assert 0 < now.memory_mb <= now.most_mb
    assert now.files >= 2
    async with probed(besieged.port) as probes, asyncio.timeout(60):
        while len(probes.took) < 2:
            await asyncio.sleep(0.01)
    assert probes.failed == 0
    assert 0 < probes.p99 < 60
    async with probed(besieged.tcp["lines"]) as probes, asyncio.timeout(60):
        while not probes.failed:
            await asyncio.sleep(0.01)
