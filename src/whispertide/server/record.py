"""Recording sessions for later: what came in, what was said, and where the rounds ended, one folder a session.

    audio.wav       the audio as the engine got it: 16 kHz, mono, 16 bit
    events.jsonl    the events as they were sent
    session.json    settings, model, and in order the commands and round boundaries that `replay` needs

Recordings contain what people said. They are made only if the server was told to, in a folder of its own.
"""

import json
import logging
import time
import wave
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from whispertide.atomic import write_text
from whispertide.audio.pcm import to_int16
from whispertide.errors import OptionError
from whispertide.events import Event, to_dict
from whispertide.server.live import Command, LiveSession, is_last
from whispertide.server.outbox import Entry
from whispertide.server.protocols.base import Audio, Configure, Settings, as_plain
from whispertide.types import SAMPLE_RATE

log = logging.getLogger("whispertide.server")


class Recorder:
    """Makes a folder for every session. Raises `OptionError` if the folder of folders cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"expected a folder for recordings; cannot use {folder}: {error}") from error

    def opened(self, live: LiveSession, settings: Settings) -> "SessionRecording":
        """Record this session."""
        name = time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + live.id[:8]
        about = {"session": live.id, "protocol": live.protocol, "model": live.model, "settings": as_plain(settings)}
        return SessionRecording(self.folder / name, about)


@dataclass(slots=True)
class SessionRecording:
    """One session being recorded; called from one worker thread at a time. A full disk ends it, not the session."""

    folder: Path
    about: dict[str, Any]
    commands: list[dict[str, Any]] = field(default_factory=list)
    boundaries: list[int] = field(default_factory=list)  # with `loads`: of all rounds; the session forgets them
    loads: list[int] = field(default_factory=list)
    samples: int = 0
    level: int = 0
    _audio: wave.Wave_write | None = None
    _events: TextIO | None = None
    _failed: bool = False

    def step(self, live: LiveSession, taken: Sequence[Command], entries: Sequence[Entry]) -> None:
        """Write what the session took and said."""
        if self._failed:
            return
        self.boundaries += live.session.boundaries
        self.loads += live.session.loads
        try:
            self._write(live, taken, entries)
        except OSError as error:
            self._failed = True
            log.error("recording failed", extra={"session": live.id, "problem": str(error)})

    def closed(self, live: LiveSession) -> None:
        """The session is over; without its `End` if its client left it."""
        if self._audio is not None or self._events is not None:
            try:
                self._describe(live)
                self._close()
            except OSError as error:
                log.error("recording failed", extra={"session": live.id, "problem": str(error)})

    def _write(self, live: LiveSession, taken: Sequence[Command], entries: Sequence[Entry]) -> None:
        if live.level != self.level:
            self.level = live.level
            self.commands.append({"command": "level", "at": self.samples, "value": live.level})
        for command in taken:
            if isinstance(command, Audio):
                self._append(command)
            else:
                self.commands.append(_described(command, self.samples))
        for entry in entries:
            if isinstance(entry, Event):
                self._line(entry)
        if any(is_last(entry) for entry in entries) or (entries and self.folder.exists()):
            self._describe(live)
        if any(is_last(entry) for entry in entries):
            self._close()

    def _append(self, command: Audio) -> None:
        if self._audio is None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._audio = wave.open(str(self.folder / "audio.wav"), "wb")  # noqa: SIM115
            self._audio.setnchannels(1)
            self._audio.setsampwidth(2)
            self._audio.setframerate(SAMPLE_RATE)
        scaled = to_int16(command.samples).astype("<i2")
        self._audio.writeframes(scaled.tobytes())  # the header is brought up to date with every call
        self.samples += len(scaled)

    def _line(self, event: Event) -> None:
        if self._events is None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._events = (self.folder / "events.jsonl").open("w", encoding="utf-8")
        self._events.write(json.dumps(to_dict(event), ensure_ascii=False) + "\n")
        self._events.flush()

    def _describe(self, live: LiveSession) -> None:
        about = {
            **self.about,
            "recipe": {"name": live.asked_recipe.name, **live.asked_recipe.settings()},
            "boundaries": self.boundaries,
            "loads": self.loads,
            "commands": self.commands,
            "samples": self.samples,
        }
        write_text(self.folder / "session.json", json.dumps(about, indent=1, default=dict))

    def _close(self) -> None:
        for file in (self._audio, self._events):
            if file is not None:
                file.close()
        self._audio = self._events = None


def _described(command: Command, at: int) -> dict[str, Any]:
    changes = {"value": dict(command.changes)} if isinstance(command, Configure) else {}
    return {"command": type(command).__name__.lower(), "at": at, **changes}
