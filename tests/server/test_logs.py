"""What a server writes down about its sessions, and what it does not."""

import asyncio
import io
import json
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from served import TEXT, client, keyed, say_everything, served, web_client
from whispertide.server import logs

KEY = "a-secret-key"
NAMES = ("", "whispertide.server")


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Standard error, as the command sets it up at its most talkative."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    loggers = [logging.getLogger(name) for name in NAMES]
    before = [(logger.handlers, logger.level) for logger in loggers]
    with warnings.catch_warnings():
        logs.set_up("debug")
        yield stream
        logging.captureWarnings(False)
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers = handlers
        logger.setLevel(level)


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def a_session(options: Any) -> str:
    """One client that says everything, one with a wrong key; returns the session's id."""

    async def run() -> str:
        async with served(options) as (server, _):
            async with client(server, query=f"?api_key={KEY}") as one:
                await one.send({"type": "nonsense"})
                await say_everything(one)
                assert await one.rest() == 1000
                assert one.text == TEXT
            with suppress(InvalidStatus):
                async with client(server, query="?api_key=a-wrong-key"):
                    pass
            return str(one.said("session")[0]["session"])

    return asyncio.run(run())


def test_sessions_are_logged_and_neither_words_nor_keys(errors: io.StringIO) -> None:
    session = a_session(keyed(KEY))
    logged = entries(errors)
    mine = [entry["event"] for entry in logged if entry.get("session") == session[:8]]
    assert mine
    assert mine == ["session opened", "session parked", "session closed"][: len(mine)]
    assert any(entry["event"] == "problem" and entry["kind"] == "bad_request" for entry in logged)
    assert all({"time", "level", "logger", "event"} <= entry.keys() for entry in logged)
    text = errors.getvalue()
    assert KEY not in text
    assert "a-wrong-key" not in text
    assert not [word for word in TEXT if f"{word} " in text.lower() or f"{word}," in text.lower()]


async def test_who_is_refused_is_logged_with_the_reason_and_no_secret(errors: io.StringIO) -> None:
    """Before a session, by whatever: each kind of handshake, and requests by HTTP that lack a key."""
    fine = {"authorization": f"Bearer {KEY}"}
    refusals = {  # address, headers -> protocol, kind, status
        "/ws?api_key=a-wrong-key": ({}, "native", "key", 401),
        "/v1/listen?token=a-wrong-key": ({}, "deepgram", "key", 401),
        "/ws?lang=de&session=a-session-of-mine": (fine, "native", "bad_request", 400),
        "/v3/ws?api_key=a-wrong-key": ({**fine, "origin": "https://example.org"}, "assemblyai", "origin", 403),
        "/watch/a-key-of-nobody": ({}, "watch", "watch", 404),
        "/elsewhere/a-secret-path": (fine, "none", "path", 404),
    }
    async with served(keyed(KEY, connections=1)) as (server, _):
        for path, (headers, *_) in refusals.items():
            with suppress(InvalidStatus):
                async with client(server, path=path, additional_headers=headers):
                    pass
        async with client(server, additional_headers=fine) as one:
            await one.until("hello")
            with suppress(InvalidStatus):
                async with client(server, additional_headers=fine):
                    pass
        async with web_client(server) as web:
            await web.get("/v1/models?token=a-wrong-key")
    told = [entry for entry in entries(errors) if entry["event"] == "refused"]
    expected = [*[tuple(expected) for _, *expected in refusals.values()]]
    expected += [("native", "overloaded", 503), ("http", "key", 401)]
    assert [(entry["protocol"], entry["kind"], entry["status"]) for entry in told] == expected
    assert {entry["address"] for entry in told} == {"127.0.0.1"}
    assert "expected parameters among" in told[2]["problem"]
    assert not [
        secret for secret in (KEY, "wrong-key", "of-mine", "of-nobody", "a-secret") if secret in errors.getvalue()
    ]


def test_confirmed_text_where_it_is_asked_for(errors: io.StringIO) -> None:
    session = a_session(replace(keyed(KEY), transcripts_in_log=True))
    said = [entry["text"] for entry in entries(errors) if entry["event"] == "confirmed"]
    assert [word.strip(" ,.!").lower() for text in said for word in text.split()] == TEXT
    assert session


def test_what_a_package_says_of_a_client_is_a_line_of_json_too(errors: io.StringIO) -> None:
    """Of a form that is nonsense python_multipart writes a line."""

    async def run() -> None:
        async with served() as (server, _), web_client(server) as web:
            form = {"content-type": "multipart/form-data; boundary=x"}
            answer = await web.post("/v1/audio/transcriptions", content=b"--nonsense", headers=form)
            assert answer.status_code == 400

    asyncio.run(run())
    (told,) = [entry for entry in entries(errors) if entry["logger"].startswith("python_multipart")]
    assert told["level"] == "warning"


def test_a_failure_is_one_line_that_says_where(errors: io.StringIO) -> None:
    try:
        raise ZeroDivisionError("a defect\nin two lines")
    except ZeroDivisionError:
        logging.getLogger("whispertide.server").exception("session failed", extra={"session": "s1"})
    (entry,) = entries(errors)
    assert entry["event"] == "session failed"
    assert entry["session"] == "s1"
    assert entry["error"] == "ZeroDivisionError: a defect\nin two lines"
    assert entry["at"].startswith("test_logs.py:")
    assert "Traceback" not in errors.getvalue()
    assert len(errors.getvalue()) < 500


def failing(text: str) -> logging.LogRecord:
    try:
        raise ValueError(text)
    except ValueError:
        return logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, text, (), sys.exc_info())


def test_a_fault_has_few_characters_however_deep_it_arose_and_whatever_it_quotes() -> None:
    def deep(depth: int) -> None:
        if not depth:
            raise ValueError("x" * 10**6)
        deep(depth - 1)

    try:
        deep(500)
    except ValueError:
        record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "y" * 10**6, (), sys.exc_info())
    assert len(logs.JsonLines().format(record)) < 2_000


def test_lines_of_a_kind_that_come_too_often_are_counted() -> None:
    now = 0.0
    repeats = logs.Repeats(burst=3, rate=1, clock=lambda: now)
    # Each with another text, as an address in it makes it.
    assert [repeats.filter(failing(f"at 0x{number}")) for number in range(5)] == [True, True, True, False, False]
    assert repeats.filter(logging.LogRecord("asyncio", logging.ERROR, "", 0, "another", (), None))
    now = 1.5
    late = failing("late")
    assert repeats.filter(late)
    assert json.loads(logs.JsonLines().format(late))["repeated"] == 2
    assert not repeats.filter(failing("too soon"))


def test_minutes_of_nonsense_are_a_line_a_second() -> None:
    """From one client as from a hundred."""
    now = 0.0
    repeats = logs.Repeats(clock=lambda: now)
    written = 0
    for _ in range(6_000):
        now += 0.1
        written += repeats.filter(failing("nonsense"))
    assert 600 <= written <= 660


def test_kinds_without_end_become_one() -> None:
    repeats = logs.Repeats(burst=2, rate=0, clock=lambda: 0.0)
    written = [
        repeats.filter(logging.LogRecord("asyncio", logging.ERROR, "", 0, f"kind {number}", (), None))
        for number in range(10_000)
    ]
    assert sum(written) == logs._KINDS + 2
    assert len(repeats._kinds) == logs._KINDS + 1


def test_confirmed_text_is_all_there() -> None:
    repeats = logs.Repeats(burst=1, rate=0, clock=lambda: 0.0)
    record = logging.makeLogRecord({"name": "whispertide.server", "msg": "confirmed", "text": "word"})
    assert all(repeats.filter(record) for _ in range(100))


def test_a_warning_is_a_line_and_is_not_remembered(errors: io.StringIO) -> None:
    """Python keeps each text that it has warned of, and clients make as many as they like."""
    remembered: Any = {}
    for number in range(10):
        warnings.warn_explicit(f"{number} samples were not numbers", UserWarning, "pcm.py", 1, registry=remembered)
    assert [entry["logger"] for entry in entries(errors)] == ["py.warnings"] * 10
    assert set(remembered) <= {"version"}


def test_what_fails_in_the_event_loop_is_a_line_too(errors: io.StringIO) -> None:
    async def run() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)

    asyncio.run(run())
    (entry,) = entries(errors)
    assert entry["logger"] == "asyncio"
    assert entry["error"] == "ZeroDivisionError: division by zero"


def test_a_line_is_ascii_and_shows_no_whole_session(errors: io.StringIO) -> None:
    """What a client chose may steer a terminal or turn the direction of a line; whoever has an id may resume it."""
    log = logging.getLogger("whispertide.server")
    log.info("session opened", extra={"session": "abcdefghijklmnop", "problem": "a\x1b[2J\u202egnp\x9b\u2028b"})
    line = errors.getvalue()
    assert line.isascii()
    assert all(character.isprintable() for character in line.rstrip("\n"))
    (entry,) = entries(errors)
    assert entry["session"] == "abcdefgh"
    assert entry["problem"] == "a\x1b[2J\u202egnp\x9b\u2028b"
