"""Sessions that are dropped: nothing of them runs afterwards, and what a running step takes is not taken from it."""

import asyncio
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from served import SILENCE, KnowingModel, client, limited, multilingual, served
from whispertide.checkpoint.languages import DETECT
from whispertide.errors import GraphError, OptionError
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.client import RefusedError
from whispertide.server.hub import Hub
from whispertide.server.live import LiveSession
from whispertide.server.observers import Command
from whispertide.server.options import ServerOptions
from whispertide.server.protocols.base import Audio, Configure, Settings
from whispertide.server.recording import find_recordings, read_recording


def second() -> Audio:
    return Audio(np.zeros(16_000, np.float32))


def test_a_session_that_is_dropped_before_its_turn_takes_no_step(tmp_path: Path) -> None:
    """It was closed by then: a step would begin its recording anew."""

    async def run() -> None:
        options = replace(limited(), record=tmp_path)
        async with served(options) as (server, hub), client(server) as one:
            await one.send(SILENCE, SILENCE, {"type": "flush"})
            await one.until("flushed")
            (live,) = hub.sessions.values()
            scheduler = hub.scheduler
            while scheduler.running:
                await asyncio.sleep(0.01)
            scheduler.running = scheduler._workers + 1  # all are busy with others
            hub.put(live, second())
            hub.put(live, second())
            assert live.queued_at is not None
            hub.drop(live)
            scheduler.running = 0
            scheduler._dispatch()
            assert not scheduler.running
            assert live.commands == 3

    asyncio.run(run())
    recording = read_recording(find_recordings([tmp_path])[0])
    assert recording.text.lower().startswith("w0")
    assert len(recording.samples) == 32_000


def test_a_step_may_run_while_its_session_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """At the worst moment: between its look into the inbox and taking what is there."""
    hub = Hub({"nano.en": KnowingModel()}, get_recipe("whisper-streaming"), limited())  # type: ignore[dict-item]

    class Watched(deque[Command]):
        def __bool__(self) -> bool:
            filled = len(self) > 0
            hub.drop(live)
            return filled

    live, _ = hub.open(Settings(), "", "native")
    inbox: Any = Watched([second(), second()])
    live.inbox, live.running = inbox, True
    step = live.step(0)
    assert not step.more
    assert live.commands == 2
    assert not caplog.records or "session failed" not in caplog.text


def two_models(text: DecodeOptions | None = None) -> Hub:
    models: dict[str, Any] = {"base.en": KnowingModel(), "small": multilingual(KnowingModel(), "en", "de")}
    return Hub(models, get_recipe("whisper-streaming"), ServerOptions(text=text or DecodeOptions()))


def test_of_models_that_nobody_names_the_first_that_can_write_it() -> None:
    hub = two_models()
    live, started = hub.open(Settings(model="whisper-1", language="de"), "", "native")
    assert (live.model, started.model, live.asked_options.language) == ("small", "small", "de")
    assert hub.open(Settings(task="translate"), "", "native")[0].model == "small"
    assert hub.open(Settings(language="english"), "", "native")[0].model == "base.en"
    with pytest.raises(RefusedError, match="klingon"):
        hub.open(Settings(language="klingon"), "", "native")
    with pytest.raises(RefusedError, match=r"a model among base\.en, small"):
        hub.open(Settings(model="whisper-1", strict_model=True), "", "native")


def test_what_is_usual_on_the_server() -> None:
    hub = two_models(DecodeOptions(language="de", task="translate", prompt="Ebbe"))
    assert (hub.info.language, hub.info.task) == ("de", "translate")
    live, started = hub.open(Settings(), "", "lines")
    assert (live.model, started.language, live.asked_options.prompt) == ("small", "de", "Ebbe")
    assert live.asked_options.task == "translate"
    live.suspended = True  # the commands stay where they are
    hub.put(live, Configure({"language": None, "prompt": ""}))
    hub.put(live, Configure({"language": DETECT, "prompt": "Flut"}))
    assert [dict(command.changes) for command in live.inbox if isinstance(command, Configure)] == [
        {"language": "de", "prompt": "Ebbe", "languages": ()},
        {"language": None, "prompt": "Flut", "languages": ()},
    ]
    for text in (DecodeOptions(language="fr"), DecodeOptions(prompt="x" * 10_001)):
        with pytest.raises(OptionError, match=r"fr|10001"):
            two_models(text)


def test_the_journal_keeps_what_was_usual_then() -> None:
    """After a restart with other settings the session goes on as it was."""
    told: list[Settings] = []

    def record(live: LiveSession, settings: Settings) -> Any:
        told.append(settings)

    hub = two_models(DecodeOptions(language="de"))
    hub.record = record
    hub.open(Settings(), "", "native")
    assert (told[0].language, told[0].task) == ("de", "transcribe")


@pytest.mark.parametrize("fails", [False, True])
async def test_while_nothing_runs_spare_memory_is_given_back(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """And again later, also where a graph has failed."""
    given = asyncio.Event()
    loop, times = asyncio.get_running_loop(), 0

    def give_back() -> None:
        nonlocal times
        times += 1
        if times == 2:
            loop.call_soon_threadsafe(given.set)
        if fails:
            raise GraphError("the graph decoder.onnx failed")

    monkeypatch.setattr("whispertide.server.hub._SWEEP_S", 0.0)
    monkeypatch.setattr("whispertide.server.hub.spare_graphs", lambda: [object()])
    monkeypatch.setattr("whispertide.server.hub.give_back_spare", give_back)
    hub = two_models()
    await hub.start()
    async with asyncio.timeout(30):
        await given.wait()
    await hub.stop()
