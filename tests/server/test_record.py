"""Recorded sessions, run again: the same rounds give the same words; damaged recordings are told apart."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oracle import make_gate
from served import SILENCE, TEXT, WORDS, KnowingModel, client, limited, say_everything, served, text_of
from whispertide.errors import AudioFileError, OptionError, TranscriptError
from whispertide.events import Confirmed, Error, Event
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.hub import Hub
from whispertide.server.recording import find_recordings, read_recording, replay_recording
from whispertide.session import Session


def recorded(folder: Path, *, flush: bool = True) -> list[Event]:
    """A session with a flush and a change of settings, recorded; returns its events."""

    async def run() -> list[Event]:
        options = replace(limited(), record=folder)
        async with served(options, KnowingModel(round_s=0.01)) as (server, _), client(server) as one:
            await one.send({"type": "start", "changes": {"step_s": 0.4}})
            for _ in range(4):
                await one.send(bytes(16_500))
                await asyncio.sleep(0.02)
            await one.until("hypothesis")  # a round in mid-utterance, however late the first step began
            if flush:
                await one.send({"type": "flush"})
                await one.until("flushed")
            await one.send({"type": "configure", "changes": {"step_s": 0.7}})
            await say_everything(one, seconds=9, portion=5_000)
            assert await one.rest() == 1000
            return one.events

    return asyncio.run(run())


def words(events: Any) -> list[tuple[str, int, int]]:
    return [
        (word.text, word.start, word.end) for event in events if isinstance(event, Confirmed) for word in event.words
    ]


@pytest.mark.parametrize("flush", [True, False])
def test_a_replay_says_what_was_said(tmp_path: Path, flush: bool) -> None:
    events = recorded(tmp_path, flush=flush)
    (folder,) = find_recordings([tmp_path])
    recording = read_recording(folder)
    assert len(recording.loads) == len(recording.boundaries) > 0
    said = replay_recording(recording, KnowingModel(), gate=make_gate(WORDS))  # type: ignore[arg-type]
    assert words(said.events) == words(events)
    assert said.text == recording.text
    assert said.samples == 4 * 8_250 + 9 * 16_000


async def nobody_left(hub: Hub) -> None:
    """Wait until every session is over."""
    async with asyncio.timeout(60):
        while hub.sessions:
            await asyncio.sleep(0.05)


def test_a_replay_with_another_recipe_says_it_too(tmp_path: Path) -> None:
    recorded(tmp_path, flush=False)
    recording = read_recording(find_recordings([tmp_path])[0])
    other = get_recipe("whisper-streaming").replace(step_s=3, agreement=3)
    assert text_of(replay_recording(recording, KnowingModel(), other, gate=make_gate(WORDS)).events) == TEXT  # type: ignore[arg-type]


def test_a_session_that_its_client_left_is_recorded_up_to_there(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(replace(limited(resume_s=0), record=tmp_path)) as (server, hub):
            async with client(server) as one:
                await one.send(SILENCE, SILENCE, {"type": "flush"})
                await one.until("flushed")
            await nobody_left(hub)

    asyncio.run(run())
    recording = read_recording(find_recordings([tmp_path])[0])
    assert len(recording.samples) == 32_000
    assert recording.text.lower().startswith("w0")


def test_a_replay_ends_where_its_client_left(tmp_path: Path) -> None:
    """The end of a session would confirm words that this one never got."""

    async def run() -> None:
        async with served(replace(limited(resume_s=0), record=tmp_path)) as (server, hub):
            async with client(server) as one:
                await one.send({"type": "start", "changes": {"step_s": 0.4}})
                for _ in range(6):
                    await one.send(SILENCE)
                    await asyncio.sleep(0.02)
                await one.until("confirmed")
            await nobody_left(hub)

    asyncio.run(run())
    recording = read_recording(find_recordings([tmp_path])[0])
    assert recording.text
    said = replay_recording(recording, KnowingModel(), gate=make_gate(WORDS))  # type: ignore[arg-type]
    assert said.text == recording.text
    other = get_recipe("whisper-streaming").replace(step_s=3)
    all_of_it = replay_recording(recording, KnowingModel(), other, gate=make_gate(WORDS))  # type: ignore[arg-type]
    assert len(all_of_it.text) > len(said.text), "another recipe has no such end: it says all that was spoken"


def test_a_server_that_records_nothing_makes_no_folder(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(replace(limited(), record=tmp_path)) as (server, _), client(server) as one:
            await one.send({"type": "start"})
            await one.until("session")

    asyncio.run(run())
    assert list(tmp_path.iterdir()) == []


def test_recordings_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="expected a recording"):
        find_recordings([tmp_path])
    recorded(tmp_path)
    (folder,) = find_recordings([tmp_path])
    about = json.loads((folder / "session.json").read_text())
    (folder / "session.json").write_text(json.dumps({**about, "recipe": {"name": "x", "nonsense": 1}}))
    with pytest.raises(TranscriptError, match="expected a recording"):
        read_recording(folder)
    earlier = {name: value for name, value in about.items() if name != "content_hash"}
    (folder / "session.json").write_text(json.dumps(earlier))
    with pytest.raises(TranscriptError, match="made by an earlier one"):
        read_recording(folder)
    (folder / "session.json").write_text("{")
    with pytest.raises(TranscriptError):
        read_recording(folder)
    (folder / "session.json").write_text(json.dumps(about))
    (folder / "audio.wav").write_bytes(b"RIFF")
    with pytest.raises(AudioFileError):
        read_recording(folder)


def test_a_server_that_was_killed_leaves_what_was_done_until_then(tmp_path: Path) -> None:
    """Steps are added as they come; the last line may be cut off."""
    recorded(tmp_path)
    (folder,) = find_recordings([tmp_path])
    whole, steps = read_recording(folder), folder / "steps.jsonl"
    assert len(steps.read_text().splitlines()) >= len(whole.commands) + 2
    steps.write_bytes(steps.read_bytes()[:-5])
    cut = read_recording(folder)
    assert (len(cut.boundaries), len(cut.commands)) != (len(whole.boundaries), len(whole.commands))
    assert whole.boundaries[: len(cut.boundaries)] == cut.boundaries
    assert "boundaries" not in json.loads((folder / "session.json").read_text())


class KeptModel(KnowingModel):
    """Keeps what ran the rounds, which knows the options of the last one."""

    executor: Any = None

    def session(self, *arguments: Any, **settings: Any) -> Session:
        made = super().session(*arguments, **settings)
        self.executor = made.executor
        return made


def test_a_replay_skips_what_was_refused_and_is_of_the_same_quality(tmp_path: Path) -> None:
    """The load lowered it meanwhile, and what a client asks for changes what is asked for, not what was left of it."""

    async def run() -> list[Event]:
        async with served(replace(limited(), record=tmp_path)) as (server, hub), client(server) as one:
            await one.send({"type": "start"}, SILENCE, {"type": "flush"})
            await one.until("flushed")  # no step is under way, which would take what follows at the level it began with
            hub.load.enabled, hub.load.level = False, 2  # and it stays there, however fast the machine is
            await one.send({"type": "configure", "changes": {"beam": 99}})
            await one.send({"type": "configure", "changes": {"temperatures": [0.0, 0.5], "beam": 3}})
            await one.send({"type": "configure", "changes": {"framing": "buckets"}})
            await say_everything(one, seconds=10)
            assert await one.rest() == 1000
            assert len(one.said("error")) == 2
            return one.events

    events = asyncio.run(run())
    recording = read_recording(find_recordings([tmp_path])[0])
    assert recording.recipe.search == get_recipe("whisper-streaming").search, "as it was opened"
    model = KeptModel()
    said = replay_recording(recording, model, gate=make_gate(WORDS))  # type: ignore[arg-type]
    assert words(said.events) == words(events)
    assert [event.message for event in said.events if isinstance(event, Error)] == [
        event.message for event in events if isinstance(event, Error)
    ]
    options = model.executor.options
    assert (options.beam, list(options.temperatures)) == (1, [0.0])
