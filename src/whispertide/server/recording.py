"""Recorded sessions: audio, commands, events and round boundaries, one folder a session; and their replay.

    audio.wav       the audio as the engine got it: 16 kHz, mono, 16 bit
    events.jsonl    the events as they were sent
    session.json    settings, recipe and model, as it began
    steps.jsonl     the commands, and where rounds ended, as they came: what a replay needs besides

Recordings contain what people said. They are made only on request, in a folder of their own. With the
boundaries of the recording a replay gives the same transcript, as far as the same model at the same precision gives the
same numbers; another recipe may run on the same audio.
"""

import json
import logging
import time
import wave
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from whispertide.api import Transcriber
from whispertide.atomic import write_text
from whispertide.audio.file import load_audio
from whispertide.audio.vad import Gate
from whispertide.audio.wav import wav_writer, write_samples
from whispertide.errors import AudioError, OptionError, TranscriptError, WhispertideError
from whispertide.events import Confirmed, Event, from_dict, to_dict
from whispertide.recipes.recipe import Recipe
from whispertide.server.live import LiveSession, is_last, reconfigure
from whispertide.server.load import settings_at
from whispertide.server.observers import Command, Observer
from whispertide.server.outbox import Entry
from whispertide.server.protocols.base import Audio, Configure, Settings, as_plain
from whispertide.session import Session
from whispertide.streaming.schedule import Recorded
from whispertide.types import SAMPLE_RATE, FloatArray, join_words

log = logging.getLogger("whispertide.server")


class Recorder:
    """Makes a folder for every session of these models.

    Raises `OptionError` if the folder of folders cannot be used.
    """

    def __init__(self, folder: Path, models: Mapping[str, Transcriber]) -> None:
        self.folder, self.models = folder, models
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"expected a folder for recordings; cannot use {folder}: {error}") from error

    def opened(self, live: LiveSession, settings: Settings) -> "_SessionRecording":
        """Record this session."""
        name = time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + live.id[:8]
        model = self.models[live.model]
        about = {
            "session": live.id,
            "protocol": live.protocol,
            "model": model.source,
            "content_hash": model.content_hash,
            "settings": as_plain(settings),
            "recipe": {"name": live.asked_recipe.name, **live.asked_recipe.settings()},  # as it began
        }
        return _SessionRecording(self.folder / name, about)


@dataclass(slots=True)
class _SessionRecording(Observer[LiveSession]):
    """A session that is being recorded; called from one worker thread at a time. A full disk ends the recording, not
    the session.
    """

    folder: Path
    about: dict[str, Any]
    samples: int = 0
    level: int = 0
    _audio: wave.Wave_write | None = None
    _events: TextIO | None = None
    _steps: TextIO | None = None
    _waiting: list[dict[str, Any]] = field(default_factory=list)  # steps before there is a folder
    _failed: bool = False

    def step(self, live: LiveSession, taken: Sequence[Command], entries: Sequence[Entry]) -> None:
        """Write the commands and events of a step."""
        if self._failed:
            return
        try:
            self._write(live, taken, entries)
        except OSError as error:
            self._failed = True
            log.error("recording failed", extra={"session": live.id, "problem": str(error)})

    def closed(self, live: LiveSession) -> None:
        """End the recording, without an `End` if the client left the session."""
        if self._steps is not None:
            try:
                self._close()
            except OSError as error:
                log.error("recording failed", extra={"session": live.id, "problem": str(error)})

    def _write(self, live: LiveSession, taken: Sequence[Command], entries: Sequence[Entry]) -> None:
        if live.level != self.level:
            self.level = live.level
            self._waiting.append({"command": "level", "at": self.samples, "value": live.level})
        for command in taken:
            if isinstance(command, Audio):
                self._append(command)
            else:
                self._waiting.append(_describe(command, self.samples))
        if live.session.boundaries:  # the session forgets them
            self._waiting.append({"boundaries": live.session.boundaries, "loads": live.session.loads})
        for entry in entries:
            if isinstance(entry, Event):
                self._line(entry)
        if self._steps is not None:
            self._steps.writelines(json.dumps(step, default=dict) + "\n" for step in self._waiting)
            self._steps.flush()  # a server that is killed leaves what was said until then
            self._waiting.clear()
        if any(is_last(entry) for entry in entries):
            self._close()

    def _begin(self) -> None:
        """Make the folder, with the fixed facts. A session without audio and events gets none."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(self.folder / "session.json", json.dumps(self.about, indent=1, default=dict))
        self._steps = (self.folder / "steps.jsonl").open("w", encoding="utf-8")

    def _append(self, command: Audio) -> None:
        if self._steps is None:
            self._begin()
        if self._audio is None:
            self._audio = wav_writer(str(self.folder / "audio.wav"))
        write_samples(self._audio, command.samples)
        self.samples += len(command.samples)

    def _line(self, event: Event) -> None:
        if self._steps is None:
            self._begin()
        if self._events is None:
            self._events = (self.folder / "events.jsonl").open("w", encoding="utf-8")
        self._events.write(json.dumps(to_dict(event), ensure_ascii=False) + "\n")
        self._events.flush()

    def _close(self) -> None:
        for file in (self._audio, self._events, self._steps):
            if file is not None:
                file.close()
        self._audio = self._events = self._steps = None


def _describe(command: Command, at: int) -> dict[str, Any]:
    changes = {"value": dict(command.changes)} if isinstance(command, Configure) else {}
    return {"command": type(command).__name__.lower(), "at": at, **changes}


_BLOCK = SAMPLE_RATE // 10


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded session.

    model         what loads it; `content_hash` is what it was then
    commands      name, sample at which it came, what it said
    text          what was confirmed then
    """

    model: str
    content_hash: str
    settings: Settings
    recipe: Recipe
    boundaries: tuple[int, ...]
    loads: tuple[int, ...]
    commands: tuple[tuple[str, int, Any], ...]
    samples: FloatArray
    text: str


@dataclass(frozen=True, slots=True)
class Replay:
    """The events of a replay."""

    events: tuple[Event, ...]
    samples: int
    rounds: int

    @property
    def text(self) -> str:
        return _text(self.events)


def find_recordings(folders: Iterable[Path]) -> list[Path]:
    """Find the recordings among `folders` and directly in them. Raises `OptionError` if there is none."""
    found: list[Path] = []
    for folder in folders:
        here = [folder] if (folder / "session.json").is_file() else sorted(folder.glob("*/session.json"))
        if not here:
            raise OptionError(f"expected a recording (a folder with session.json), or a folder of them; got {folder}")
        found += [path.parent if path.name == "session.json" else path for path in here]
    return found


def read_recording(folder: Path) -> Recording:
    """Read a recording. Raises `TranscriptError` if it is damaged, `AudioError` if its audio is."""
    try:
        audio, about = folder / "audio.wav", json.loads((folder / "session.json").read_text("utf-8"))
        if "content_hash" not in about:
            raise TranscriptError(f"expected a recording of this version; {folder} was made by an earlier one")
        events = [from_dict(line) for line in _lines(folder / "events.jsonl")]
        steps = _lines(folder / "steps.jsonl")
        rounds = [step for step in steps if "boundaries" in step]
        return Recording(
            model=str(about["model"]),
            content_hash=str(about["content_hash"]),
            settings=Settings(**about["settings"]),
            recipe=Recipe("").replace(**about["recipe"]),
            boundaries=tuple(end for step in rounds for end in step["boundaries"]),
            loads=tuple(load for step in rounds for load in step["loads"]),
            commands=tuple((step["command"], step["at"], step.get("value")) for step in steps if "command" in step),
            samples=load_audio(audio) if audio.is_file() else np.zeros(0, np.float32),
            text=_text(events),
        )
    except (AudioError, TranscriptError):
        # They are ValueErrors, too, and say more than what follows would.
        raise
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise TranscriptError(f"expected a recording of `whispertide serve --record`; {folder}: {error}") from error


def replay_recording(
    recording: Recording, transcriber: Transcriber, recipe: Recipe | None = None, *, gate: Gate | None = None
) -> Replay:
    """Run it again: as it was, or with another `recipe`, whose rounds are its own. `gate` replaces the recipe's.

    Raises what a session raises.
    """
    session = _session(recording, transcriber, recipe, gate)
    return _Replay(recording, session, transcriber.tokenizer.languages, faithful=recipe is None).run()


class _Replay:
    def __init__(self, recording: Recording, session: Session, languages: Sequence[str], *, faithful: bool) -> None:
        self.recording = recording
        self.session = session
        self.languages = languages
        self.faithful = faithful
        self.level = 0
        self.recipe = session.recipe
        self.options = recording.settings.options
        self.events: list[Event] = []

    def run(self) -> Replay:
        at = 0
        for name, where, value in self.recording.commands:
            self._push(at, where)
            at = where
            if not self.session.ended:
                self._carry_out(name, value)
        self._push(at, len(self.recording.samples))
        # A recorded session that its client left has no end, which would confirm more.
        if not self.faithful and not self.session.ended:
            self.events += self.session.finish()
        rounds = {event.stats.round_id for event in self.events if isinstance(event, Confirmed)}
        return Replay(tuple(self.events), len(self.recording.samples), max(rounds, default=-1) + 1)

    def _push(self, start: int, stop: int) -> None:
        if self.session.ended:
            return
        for at in range(start, stop, _BLOCK):
            self.events += self.session.push(self.recording.samples[at : min(at + _BLOCK, stop)])

    def _carry_out(self, name: str, value: Any) -> None:
        match name:
            case "flush":
                self.events += self.session.flush()
            case "clear":
                self.events += self.session.clear()
            case "finish":
                self.events += self.session.finish()
            case "configure" if self.faithful:
                self._configure(value)
            case "level" if self.faithful:
                self.level = int(value)
                self._lower()

    def _configure(self, changes: Any) -> None:
        """Apply a client's changes. A recording also has the refused ones, which are refused again."""
        try:
            self.recipe, self.options = reconfigure(self.session, self.recipe, self.options, changes, self.languages)
        except (WhispertideError, TypeError) as error:
            self.events += self.session.fail(str(error), fatal=False)
        self._lower()

    def _lower(self) -> None:
        """Lower the quality as the load did, as far as the recipe can."""
        with suppress(OptionError):
            self.session.configure(**settings_at(self.level, self.recipe, self.options))


def _session(recording: Recording, transcriber: Transcriber, recipe: Recipe | None, gate: Gate | None) -> Session:
    settings = recording.settings
    like = transcriber.session(recipe or recording.recipe, options=settings.options, vad=settings.vad)
    schedule = Recorded(recording.boundaries, recording.loads) if recipe is None else None
    options = settings.options
    if options.language is not None:
        options = replace(options, language=like.options.language)  # as a code
    gate = gate or like.recipe.schedule.gate()
    return Session(like.recipe, like.executor, gate, options=options, schedule=schedule, speakers=like.speakers)


def _lines(path: Path) -> list[Any]:
    """Read the values of a file of JSON lines; of a missing file none. A last line that is cut off is left out."""
    if not path.is_file():
        return []
    # Not `splitlines`: the text may hold separators that end no line here.
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def _text(events: Iterable[Event]) -> str:
    return join_words([word for event in events if isinstance(event, Confirmed) for word in event.words])
