"""One live session on the server: commands in, numbered events out, one step of work at a time.

The event loop puts commands into the inbox and hands over what the outbox has; a worker thread takes a `step`. Both
never touch the engine's session at once: the `scheduler` runs one step of a session at a time. Knows
no sockets and no protocols.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whispertide.errors import OptionError, WhispertideError
from whispertide.events import End, Error, Event, Intent
from whispertide.options import DecodeOptions
from whispertide.recipes.recipe import Recipe, divided
from whispertide.server.bounds import check_changes
from whispertide.server.bucket import Bucket
from whispertide.server.intents import Intents
from whispertide.server.load import settings_at
from whispertide.server.observers import Command, Observers, Step
from whispertide.server.outbox import Entry, Outbox
from whispertide.server.protocols.base import Audio, Clear, Configure, Finish, Flush
from whispertide.server.translations import LiveTranslation
from whispertide.session import Session
from whispertide.session_state import SessionState
from whispertide.streaming.round import RoundPlan
from whispertide.translation.translating import TranslationState
from whispertide.types import to_samples

log = logging.getLogger("whispertide.server")

_SPOKEN, _AT_ONCE_S = 1.25, 10.0  # seconds of audio a second, and at once, that may be speech as it is spoken
# Of audio: more of it makes a round longer, for which others wait, and two seconds cost hardly more rounds.
_MOST_TAKEN = to_samples(2)  # in a step
_MOST_UNHEARD = to_samples(5)  # before a round looks at it
_PORTION = to_samples(1.0)  # of audio that a session takes at once
_MISTAKE = "the server made a mistake. Confirmed text stays. Start another session"
_PILOTED = to_samples(0.5)  # where intents are told: seldom has it more than one pilot


# Compared by identity: the scheduler looks for this very session in its queue.
@dataclass(slots=True, eq=False)
class LiveSession:
    """The session of one client.

    owner     whose API key opened it; only they may come back to it
    safe      samples that will not be lost even if the process dies (without a journal: those in its memory)
    accepted  samples that came in; `taken` those that the engine has
    looked_at samples up to the end of the newest round, or all that are taken where no round is due
    processed samples about which all is in the outbox that can be said before more audio comes
    wake      called, in the event loop, when there is something in the outbox
    """

    id: str
    owner: str
    model: str
    session: Session
    asked_options: DecodeOptions = field(default_factory=DecodeOptions)
    protocol: str = ""
    outbox: Outbox = field(default_factory=Outbox)
    languages: tuple[str, ...] = ()  # that the model writes
    limit_s: float = math.inf  # of audio
    intents: Intents | None = None  # where the client asked for them
    translation: LiveTranslation | None = None  # the same
    wake: Callable[[], None] | None = None
    inbox: deque[Command] = field(default_factory=deque)
    accepted: int = 0
    taken: int = 0
    looked_at: int = 0
    processed: int = 0
    safe: int = 0
    commands: int = 0  # taken from the inbox so far
    finishing: bool = False  # `Finish` is in the inbox, or was
    cut_off: bool = False  # it is from the server, which stops
    ended: bool = False
    queued_at: float | None = None  # when it got into the scheduler's queue
    running: bool = False
    suspended: bool = False  # the server stops, and the session goes on in its next life
    parked_at: float | None = None  # since when it has no client
    worked: float = 0.0  # its tag (`fair_queue`)
    pace: Bucket = field(default_factory=lambda: Bucket(_SPOKEN, _AT_ONCE_S))  # of its audio, in seconds
    level: int = 0
    observers: "Observers[LiveSession]" = field(init=False)
    asked_recipe: Recipe = field(init=False)  # what the client asked for, before quality was lowered
    _pending: Flush | Finish | None = None

    def __post_init__(self) -> None:
        self.observers = Observers(self.id)
        self.asked_recipe = self.session.recipe
        self.session.tells_lag = False  # it knows only the audio that it was given; `_round` knows what else came in

    @property
    def unheard(self) -> int:
        """Samples that came in, queued or taken already, and that no round has looked at though one is due."""
        return self.accepted - self.looked_at

    @property
    def is_parked(self) -> bool:
        """True while it waits for its client to come back."""
        return self.parked_at is not None

    def is_unhurried(self, now: float) -> bool:
        """True if its lateness is no sign of load: audio comes faster than it is spoken, or the client is gone."""
        return self.is_parked or self.pace.debt_s(now) > 0

    def portions(self, command: Command) -> list[Command]:
        """Split a long stretch of audio as this session takes it."""
        if not isinstance(command, Audio):
            return [command]
        size = _PORTION if self.intents is None else _PILOTED
        return [Audio(command.samples[at : at + size]) for at in range(0, len(command.samples), size)]

    @property
    def busy(self) -> bool:
        """True if there is work to do, a journal entry to write or an event to send to a connected client."""
        left = self.safe < self.accepted if self.suspended else bool(self.inbox) and not self.ended
        unsaid = self.wake is not None and bool(self.outbox.waiting)
        unfinished = self.waits_for_translations and not self.suspended
        return left or unsaid or unfinished or self.running or self.queued_at is not None

    @property
    def has_translations(self) -> bool:
        """True if a step would have translations for the client."""
        return self.translation is not None and self.translation.has_news

    @property
    def waits_for_translations(self) -> bool:
        """True if all is said but the translation of it; then the `End` follows."""
        return self.translation is not None and self.translation.end is not None

    @property
    def settled(self) -> bool:
        """True if a suspended session has nothing left to write or to send: another server can go on with it."""
        return self.suspended and not self.running and self.safe >= self.accepted and not self.outbox.waiting

    def put(self, command: Command) -> None:
        """Queue a command from the client; called in the event loop."""
        if isinstance(command, Audio):
            self.accepted += len(command.samples)
        self.finishing = self.finishing or isinstance(command, Finish)
        self.inbox.append(command)

    def close_translation(self) -> None:
        """Give up the translation: the session is over for good."""
        if self.translation is not None:
            self.translation.close()

    def restore(
        self,
        state: SessionState,
        recipe: Recipe,
        options: DecodeOptions,
        translation: TranslationState | None = None,
    ) -> None:
        """Restore the session of an earlier server process, and repeat its last command."""
        self.session.restore(state)
        if self.intents is not None:
            self.intents.restore(state.buffer)
        self.asked_recipe, self.asked_options = recipe, options
        if self.translation is not None and translation is not None:
            self.translation.restore(translation)
        self.ended = self.session.ended and not self.waits_for_translations
        for request in state.turns.requests:  # one at most
            self._pending = Finish() if request.kind == "finish" else Flush()
            self.finishing = request.kind == "finish"
        self.level = -1  # whatever quality the state was saved with is set anew

    # --- in a worker thread ------------------------------------------------------------------------------------------

    def step(self, level: int) -> Step:
        """Take what is in the inbox, up to a command that needs an answer or tells an intent, and run at most one
        round: none where an intent took as long as one, and audio waits that a later round covers, too.

        However fast audio comes in meanwhile, no more is taken than two seconds, and five that no round has looked at.
        """
        entries: list[Entry] = []
        taken: list[Command] = []
        result = Step()
        try:
            if not self.waits_for_translations:
                result = self._advance(level, taken, entries)
        except WhispertideError as error:
            log.warning("session failed", extra={"session": self.id, "problem": str(error)})
            entries += self._fail(str(error))
        except Exception:
            log.exception("session failed", extra={"session": self.id})
            entries += self._fail(_MISTAKE)
        self.commands += len(taken)
        if self.translation is not None:
            entries = self.translation.add(entries)
        numbered = self._number(entries)
        kept = self.observers.step(self, taken, numbered)
        self.session.forget()  # from here on it is with the client
        waits = self.waits_for_translations
        self.ended = self.ended or (self.session.ended and not waits)
        more = not self.ended and not waits and (result.more or bool(self.inbox))
        return replace(result, entries=numbered, more=more, kept=kept)

    def break_off(self) -> Step:
        """End after a step that failed outside of the session, whose state nobody knows: the client is told."""
        self.inbox.clear()
        self.ended = True
        self.close_translation()
        return Step(self._number([Error(0, self.taken, _MISTAKE, fatal=True)]))

    def _advance(self, level: int, taken: list[Command], entries: list[Entry]) -> Step:
        """Take commands, and run a round."""
        self._set_level(level)
        tells_intent = False
        before = self.taken
        while self._pending is None and self.inbox and not tells_intent and self._takes_more(before):
            taken.append(self.inbox.popleft())
            self._carry_out(taken[-1], entries)
            tells_intent = any(isinstance(entry, Intent) for entry in entries)
        return Step() if tells_intent and self._can_wait else self._round(entries)

    @property
    def _can_wait(self) -> bool:
        """True if more audio is queued already, so that one round can cover all of it."""
        return self._pending is None and bool(self.inbox) and self.taken - self.looked_at < _MOST_UNHEARD

    def _takes_more(self, before: int) -> bool:
        """True if a step that began at `before` taken samples has room for more audio."""
        return self.taken - before < _MOST_TAKEN and self.taken - self.looked_at < _MOST_UNHEARD

    def _carry_out(self, command: Command, entries: list[Entry]) -> None:
        match command:
            case Audio(samples):
                self.session.ingest(samples)
                self.taken += len(samples)
                entries += self._intents(command)
            case Configure(changes):
                entries += self._configure(changes)
            case Clear():
                entries += [*self._intents(command), *self.session.clear(), "cleared"]
            case Flush():
                self.session.request("flush")
                entries += self._intents(command)
                self._pending = command
            case Finish():
                self.session.request("finish")
                entries += self._intents(command)
                self._pending = command

    def _intents(self, command: Command) -> list[Event]:
        """The events of intents that follow from a command, after the session's own."""
        if self.intents is None:
            return []
        match command:
            case Audio(samples):
                events = self.intents.hear(samples)
            case Flush() | Finish():
                events = self.intents.end()
            case _:
                self.intents.clear()
                return []
        return [*self.session.drain(), *events]

    def _configure(self, changes: Any) -> list[Event]:
        """Change the settings; one that cannot be set becomes an error that is not fatal."""
        try:
            self.asked_recipe, self.asked_options = reconfigure(
                self.session, self.asked_recipe, self.asked_options, changes, self.languages
            )
            if self.translation is not None:
                self.translation.set_language(self.asked_options, self.languages)
        except (WhispertideError, TypeError) as error:
            return self.session.fail(str(error), fatal=False)
        finally:
            # At full quality now, whatever came of it: lowered again as far as the load wants it.
            level, self.level = self.level, 0
            self._set_level(level)
        return []

    def _set_level(self, level: int) -> None:
        if level == self.level or self.session.ended:
            return
        try:
            self.session.configure(**settings_at(level, self.asked_recipe, self.asked_options))
        except OptionError:  # this recipe cannot do with less
            return
        self.level = level

    def _round(self, entries: list[Entry]) -> Step:
        began, behind = time.perf_counter(), 0
        try:
            plan = self._step_of_session()
            if plan is not None:
                behind = 0 if plan.is_last else self.accepted - plan.window.end
                self.session.note_lag(plan.window.end, behind, self.level)
            self.looked_at = self.taken if plan is None else max(self.looked_at, plan.window.end)
        finally:
            # Also where the round has failed: what was said before that is told first.
            entries += self.session.drain()
        if plan is None:
            if isinstance(self._pending, Flush) and self._pending.asked:
                entries.append("flushed")
            self._pending = None
            return Step(more=bool(self.inbox))
        return Step(more=True, rounds=1, round_s=time.perf_counter() - began, behind=behind)

    def _step_of_session(self) -> RoundPlan | None:
        try:
            return self.session.step()
        except WhispertideError:  # a graph may have been short of memory for a moment
            return self.session.step()

    def _fail(self, message: str) -> list[Event]:
        if self.session.ended:
            return []
        self.inbox.clear()
        return self.session.fail(message)

    def _number(self, entries: list[Entry]) -> list[Entry]:
        numbers = iter(self.outbox.number([entry for entry in entries if isinstance(entry, Event)]))
        return [next(numbers) if isinstance(entry, Event) else entry for entry in entries]


def reconfigure(
    session: Session, recipe: Recipe, options: DecodeOptions, changes: Mapping[str, Any], languages: Sequence[str] = ()
) -> tuple[Recipe, DecodeOptions]:
    """Apply a client's changes to `recipe` and `options`; returns the settings that it asks for now, in full quality.

    Raises `WhispertideError` or `TypeError` for changes that cannot be; then the session is as it was asked for before.
    """
    check_changes(changes, recipe, languages)
    # From full quality on: what a client asks for must not be mixed with what the load has lowered. In two steps,
    # because a choice that is exchanged may not know the settings of the one before it.
    session.configure(**settings_at(0, recipe, options))
    session.configure(**changes)
    return session.recipe, replace(options, **divided(recipe, changes)[1])


def is_last(entry: Entry) -> bool:
    """True if no entry follows this one."""
    return isinstance(entry, End) or (isinstance(entry, Error) and entry.fatal)
