"""The interface of a journal of live sessions, and the code that all journals share.

`journal` keeps them in one SQLite file of one server, `nats_journal` in NATS JetStream for any number of servers.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from whispertide.audio.buffer import AudioBuffer
from whispertide.errors import OptionError
from whispertide.events import Event, from_dict, to_dict
from whispertide.options import DecodeOptions
from whispertide.recipes.recipe import Recipe
from whispertide.server.journal_values import AUDIO, dump_state, load_state, pack, samples_of, unpack
from whispertide.server.live import LiveSession
from whispertide.server.observers import Command, Observer
from whispertide.server.outbox import Entry, Mark
from whispertide.server.protocols.base import Audio, Settings
from whispertide.session_state import SessionState
from whispertide.translation.translating import TranslationState
from whispertide.types import SAMPLE_RATE

_STATE_EVERY = 5 * SAMPLE_RATE  # of audio without an event


class UnreachableError(Exception):
    """The journal's server gave no answer, or one that says that it cannot."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """The fixed properties of a session."""

    owner: str
    model: str
    protocol: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as the journal has it: to be opened like any other, then restored.

    `later` are the commands that the state does not include yet, `samples` all audio that was ever accepted.
    """

    id: str
    about: SessionInfo
    taken: int
    next_seq: int
    samples: int
    entries: tuple[Entry, ...]
    later: tuple[Command, ...]
    state: SessionState | None
    recipe: Recipe | None
    options: DecodeOptions | None
    translation: TranslationState | None = None


class Row(NamedTuple):
    """A command as it is stored: its number, its kind, the samples before and after it, and its data."""

    n: int
    kind: str
    start: int
    stop: int
    data: bytes


@dataclass(slots=True)
class JournalProgress:
    """The journal's count of an open session: commands and samples written so far, and the samples taken since its
    state was written.
    """

    commands: int = 0
    samples: int = 0
    since_state: int = 0

    def row(self, command: Command) -> Row:
        """Number a command that comes in, for storing."""
        kind, data = pack(command)
        n, start = self.commands, self.samples
        self.commands, self.samples = n + 1, start + samples_in(command)
        return Row(n, kind, start, self.samples, data)

    def is_due(self, taken: Sequence[Command], entries: Sequence[Entry]) -> bool:
        """True if a state is to be written after these commands and their entries, and now and then without any."""
        self.since_state += sum(map(samples_in, taken))
        if not entries and self.since_state < _STATE_EVERY:
            return False
        self.since_state = 0
        return True


class SessionJournal(Observer[LiveSession]):
    """Stores sessions, so that they survive the death of their server. `live.safe` follows once a command is written.

    failing  while nothing can be written
    shared   whether other servers have the same journal; then it is asked for a session when its client comes back, not
             when the server starts
    """

    failing: bool
    shared: bool

    @abstractmethod
    def opened(self, live: LiveSession, settings: Settings) -> "SessionJournal":
        """Begin the record of a session."""

    @abstractmethod
    def is_ahead(self, live: LiveSession) -> bool:
        """True if the client may have received events that are not written yet."""

    @abstractmethod
    def discard(self, session: str) -> None:
        """Drop a session that cannot go on."""


def samples_in(command: Command) -> int:
    """The number of samples that a command brings."""
    return len(command.samples) if isinstance(command, Audio) else 0


def mark_safe(live: LiveSession, command: Command) -> Callable[[], None]:
    """Make the callback that tells a session, in its event loop, that a command is written."""
    accepted = live.accepted + samples_in(command)

    def safe() -> None:
        live.safe = max(live.safe, accepted)
        if live.wake is not None:
            live.wake()

    return safe


def snapshot_of(live: LiveSession) -> tuple[bytes, int]:
    """Pickle the state of a session, without its audio, and return it with the first sample that it needs.

    Raises `PicklingError`, `TypeError` or `AttributeError` for a state that cannot be kept.
    """
    state = live.session.snapshot()
    needed = state.buffer.start
    translation = None if live.translation is None else live.translation.snapshot()
    data = (state, len(state.buffer), live.asked_recipe, live.asked_options, translation)
    state.buffer = AudioBuffer(start=needed)  # the audio is among the commands
    state.forget()  # the rest is with the client
    if state.speakers is not None:
        state.speakers = state.speakers.without_voices()  # nobody asked that they be kept
    if state.turns.utterance is not None:
        state.turns.utterance.encoder = None  # large, and computed anew from the audio
        state.turns.utterance.ahead = None
    return dump_state(data), needed


def plain_entries(live: LiveSession, entries: Sequence[Entry]) -> list[tuple[int, Any]]:
    """Convert entries to JSON values, each with the number of its event, or for a mark of the event before it."""
    last = live.outbox.next_seq - 1
    return [(entry.seq, to_dict(entry)) if isinstance(entry, Event) else (last, entry) for entry in entries]


def load_session(
    identity: str,
    about: SessionInfo,
    rows: Sequence[Row],
    stored: tuple[int, int, bytes] | None,
    entries: Sequence[Any],
) -> tuple[StoredSession, JournalProgress]:
    """Build a session from its stored parts; `stored` is (commands taken, number of the next event, its state).

    Raises what reading damaged values raises.
    """
    taken, next_seq, state, recipe, options, translation, received = 0, 0, None, None, None, None, 0
    if stored is not None:
        taken, next_seq, data = stored
        state, length, recipe, options, translation = load_state(data)
        received = state.buffer.start + length
        state.buffer = _buffer(rows, state.buffer.start, length)
    # Without a command left, all audio is in the state.
    samples = max((row.stop for row in rows), default=received)
    kept = StoredSession(
        identity,
        about,
        taken,
        next_seq,
        samples,
        entries=tuple(map(_entry, entries)),
        later=tuple(unpack(row.kind, row.data) for row in rows if row.n >= taken),
        state=state,
        recipe=recipe,
        options=options,
        translation=translation,
    )
    return kept, JournalProgress(max((row.n + 1 for row in rows), default=taken), samples)


def _entry(data: Any) -> Entry:
    if isinstance(data, dict):
        return from_dict(data)
    mark: Mark = "flushed" if data == "flushed" else "cleared"
    return mark


def _buffer(rows: Sequence[Row], start: int, length: int) -> AudioBuffer:
    """Collect the audio that the engine still needs from the commands: samples `start` to `start + length`."""
    buffer = AudioBuffer()
    buffer.clear(start)
    for row in rows:
        if row.kind in AUDIO and row.start < start + length and row.stop > start:
            # A gap: the check after the loop says so.
            if row.start > buffer.end:
                break
            samples = samples_of(row.kind, row.data)
            buffer.append(samples[buffer.end - row.start : start + length - row.start])
    if buffer.end != start + length:
        raise OptionError(f"expected audio up to sample {start + length}; the journal has it up to {buffer.end}")
    return buffer
