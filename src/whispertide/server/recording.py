"""Recorded sessions run again: the same audio, commands and round boundaries, or another recipe over the same audio.

Reads what `record` wrote. With the boundaries of the recording the result is what was said then, as far as the same
model at the same precision gives the same numbers.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.errors import AudioError, OptionError, TranscriptError
from whispertide.events import Confirmed, Event, from_dict
from whispertide.options import DecodeOptions
from whispertide.server.load import settings_at
from whispertide.server.protocols.base import Settings
from whispertide.session import Gate, Session
from whispertide.streaming.recipe import Recipe, divided
from whispertide.streaming.recipes import make_gate
from whispertide.streaming.schedule import Recorded
from whispertide.types import SAMPLE_RATE, FloatArray, join_words

_BLOCK = SAMPLE_RATE // 10


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded session. `commands` are (name, sample at which it came, what it said); `text` was confirmed then."""

    model: str
    settings: Settings
    recipe: Recipe
    boundaries: tuple[int, ...]
    loads: tuple[int, ...]
    commands: tuple[tuple[str, int, Any], ...]
    samples: FloatArray
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """What a replay said."""

    events: tuple[Event, ...]
    samples: int
    rounds: int

    @property
    def text(self) -> str:
        """The confirmed text."""
        return _text(self.events)


def find_recordings(folders: Iterable[Path]) -> list[Path]:
    """The recordings among `folders` and directly in them. Raises `OptionError` where there is none."""
    found: list[Path] = []
    for folder in folders:
        here = [folder] if (folder / "session.json").is_file() else sorted(folder.glob("*/session.json"))
        if not here:
            raise OptionError(f"expected a recording (a folder with session.json), or a folder of them; got {folder}")
        found += [path.parent if path.name == "session.json" else path for path in here]
    return found


def read_recording(folder: Path) -> Recording:
    """Raises `TranscriptError` for a recording that is damaged, `AudioError` if its audio is."""
    try:
        audio, about = folder / "audio.wav", json.loads((folder / "session.json").read_text("utf-8"))
        events = [from_dict(json.loads(line)) for line in _lines(folder / "events.jsonl")]
        return Recording(
            model=str(about["model"]),
            settings=Settings(**about["settings"]),
            recipe=Recipe("").replace(**about["recipe"]),
            boundaries=tuple(about["boundaries"]),
            loads=tuple(about.get("loads", ())),  # older recordings have none
            commands=tuple((item["command"], item["at"], item.get("value")) for item in about["commands"]),
            samples=load_audio(audio) if audio.is_file() else np.zeros(0, np.float32),
            text=_text(events),
        )
    except AudioError:
        raise
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise TranscriptError(f"expected a recording of `whispertide serve --record`; {folder}: {error}") from error


def replay_recording(
    recording: Recording, transcriber: Transcriber, recipe: Recipe | None = None, *, gate: Gate | None = None
) -> Said:
    """Run it again: as it was, or with another `recipe`, whose rounds are its own. `gate` replaces the recipe's.

    Raises what a session raises.
    """
    session = _session(recording, transcriber, recipe, gate)
    return _Replay(recording, session, faithful=recipe is None).run()


class _Replay:
    def __init__(self, recording: Recording, session: Session, *, faithful: bool) -> None:
        self.recording = recording
        self.session = session
        self.faithful = faithful
        self.recipe = session.recipe
        self.options = _options(recording.settings)
        self.events: list[Event] = []

    def run(self) -> Said:
        at = 0
        for name, where, value in self.recording.commands:
            self._push(at, where)
            at = where
            if not self.session.ended:
                self._carry_out(name, value)
        self._push(at, len(self.recording.samples))
        if not self.session.ended:
            self.events += self.session.finish()
        rounds = {event.stats.round_id for event in self.events if isinstance(event, Confirmed)}
        return Said(tuple(self.events), len(self.recording.samples), max(rounds, default=-1) + 1)

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
                self.session.configure(**value)
                of_recipe, of_options = divided(self.recipe, value)
                self.recipe = self.recipe.replace(**of_recipe)
                self.options = replace(self.options, **of_options)
            case "level" if self.faithful:
                self.session.configure(**settings_at(int(value), self.recipe, self.options))


def _session(recording: Recording, transcriber: Transcriber, recipe: Recipe | None, gate: Gate | None) -> Session:
    settings = recording.settings
    like = transcriber.session(recipe or recording.recipe, options=_options(settings), vad=settings.vad)
    schedule = Recorded(recording.boundaries, recording.loads) if recipe is None else None
    options = _options(settings)
    if options.language is not None:
        options = replace(options, language=like.options.language)  # as a code
    return Session(like.recipe, like.executor, gate or make_gate(like.recipe), options=options, schedule=schedule)


def _options(settings: Settings) -> DecodeOptions:
    return DecodeOptions(language=settings.language, task=settings.task, prompt=settings.prompt)


def _lines(path: Path) -> Sequence[str]:
    return path.read_text("utf-8").removesuffix("\n").split("\n") if path.is_file() else ()


def _text(events: Iterable[Event]) -> str:
    return join_words([word for event in events if isinstance(event, Confirmed) for word in event.words])
