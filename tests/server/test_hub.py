"""Sessions that are dropped: nothing of them runs afterwards, and what a running step takes is not taken from it."""

import asyncio
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from served import SILENCE, KnowingModel, client, limited, served
from whispertide.server.hub import Hub
from whispertide.server.live import Command
from whispertide.server.protocols.base import Audio, Settings
from whispertide.server.recording import find_recordings, read_recording
from whispertide.streaming.recipes import get_recipe


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
            scheduler.running = scheduler._workers  # all are busy with others
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
