"""One who follows a session and fails is dropped, whatever it is, and the session goes on as if it had never been."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scripted_translator import ScriptedTranslator
from served import TEXT, client, complete, limited, say_everything, served
from whispertide.events import Error
from whispertide.server.journal import Journal
from whispertide.server.metrics import Metrics
from whispertide.server.observers import Observer, Observers, Step
from whispertide.server.options import ServerOptions, TranslationAccess
from whispertide.server.protocols.base import Finish
from whispertide.server.recording import _SessionRecording
from whispertide.translation.translating import Translating

CALLS: dict[str, Callable[[Observers[str]], Any]] = {
    "put": lambda observers: observers.put("live", Finish()),
    "step": lambda observers: observers.step("live", [], []),
    "told": lambda observers: observers.told("live", Step()),
    "acknowledged": lambda observers: observers.acknowledged("live", 1),
    "closed": lambda observers: observers.closed("live"),
}


class Heard(Observer[str]):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def told(self, live: str, step: Step) -> None:
        self.calls.append("told")

    def closed(self, live: str) -> None:
        self.calls.append("closed")


def breaks(*_: Any, **__: Any) -> Any:
    raise IndexError("a text and not its voices")


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line.getMessage() for line in caplog.records if line.levelno >= logging.ERROR]


@pytest.mark.parametrize("name", CALLS)
def test_who_fails_is_told_of_nothing_more_and_the_others_are(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, whole, observers = Heard(), Heard(), Observers[str]("a-session")
    observers.add("live", "broken", lambda: broken)
    observers.add("live", "whole", lambda: whole)
    monkeypatch.setattr(broken, name, breaks)
    for _ in range(3):
        CALLS[name](observers)
    observers.told("live", Step())
    assert (observers.dropped, "broken" in observers, "whole" in observers) == ({"broken"}, False, True)
    assert broken.calls == ([] if name == "closed" else ["closed"]), "it may give back what it holds"
    assert whole.calls[-1] == "told"
    assert failures(caplog) == ["the broken of a session failed; it continues without it"]


def test_who_is_added_again_counts_as_whole() -> None:
    observers = Observers[str]("a-session")
    observers.add("live", "broadcast", breaks)
    observers.add("live", "broadcast", Heard)
    assert (observers.dropped, "broadcast" in observers) == (set(), True)


def test_who_cannot_begin_is_as_one_who_fails(caplog: pytest.LogCaptureFixture) -> None:
    observers = Observers[str]("a-session")
    observers.add("live", "recording", breaks)
    assert observers.dropped == {"recording"}
    assert len(failures(caplog)) == 1


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (_SessionRecording, "_append"),
        (_SessionRecording, "closed"),
        (Metrics, "told"),
        (Journal, "opened"),
        (Journal, "put"),
        (Journal, "step"),
        (Journal, "acknowledged"),
    ],
)
async def test_the_speaker_goes_on(
    owner: type, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(owner, name, breaks)
    options = replace(limited(), record=tmp_path / "recordings", journal=str(tmp_path / "journal"))
    async with served(options) as (server, _), client(server) as one:
        await say_everything(one)
        await one.send({"type": "ack", "seq": 0})
        assert await one.rest() == 1000
        lost = [problem["message"] for problem in one.said("problem")]
    assert complete(one.events)
    assert one.text == TEXT
    assert len(failures(caplog)) == 1
    assert lost == (["the journal cannot be written; this may be lost with the server"] if owner is Journal else [])


@pytest.mark.parametrize("name", ["take", "ready", "finish"])
async def test_captions_go_on_without_their_translation(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Translating, name, breaks)
    options = ServerOptions(translation=TranslationAccess(ScriptedTranslator(), ("fr",)))
    async with served(options) as (server, _), client(server) as one:
        await one.send({"type": "start", "translate_to": "fr"})
        await say_everything(one)
        assert await one.rest() == 1000
    assert complete(one.events)
    assert one.text == TEXT
    told = [event.message for event in one.events if isinstance(event, Error)]
    assert told == ["translations fail, captions continue: the server made a mistake"]
    assert len(failures(caplog)) == 1
