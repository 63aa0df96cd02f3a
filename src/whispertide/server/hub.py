"""All live sessions of a server: opens, resumes, parks and ends them, and routes their events to clients.

Lives in the event loop. Knows models and sessions; knows no sockets and no protocol by name.
"""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

from whispertide.api import Transcriber
from whispertide.errors import GraphError, OptionError, WhispertideError
from whispertide.model.runtime import give_back_spare, spare_graphs
from whispertide.recipes.recipe import Recipe
from whispertide.server.bounds import check_executor
from whispertide.server.broadcasts import Broadcasts
from whispertide.server.client import STOPPING, Client
from whispertide.server.defaults import check_usual, choose_model, fill_changes
from whispertide.server.floods import Floods
from whispertide.server.live import LiveSession
from whispertide.server.load import Load
from whispertide.server.logs import SaidInLog
from whispertide.server.metrics import Metrics
from whispertide.server.observers import Command, Observer, Step
from whispertide.server.opening import Builder, server_info, started_message
from whispertide.server.options import ServerOptions
from whispertide.server.outbox import EventsGoneError
from whispertide.server.places import Places
from whispertide.server.protocols import base
from whispertide.server.scheduler import Scheduler
from whispertide.server.session_journal import SessionJournal
from whispertide.server.translations import Translations
from whispertide.server.watch import Waiting, Watch
from whispertide.types import seconds, to_samples
from whispertide.understand.model import LateModel

log = logging.getLogger("whispertide.server")

_SWEEP_S = 0.5
# So many times its limit of sessions an owner may have waiting for clients; then the one with least audio gives way.
_PARKED = 4
_PATIENCE = 20  # so many times the usual audio of a session may wait for a shared journal
_INBOX = 2_000  # commands of one session that wait; audio in tiny pieces would fill the memory with their heads


class Hub:
    """The sessions. `recipe` is the default."""

    def __init__(
        self,
        models: Mapping[str, Transcriber],
        recipe: Recipe,
        options: ServerOptions,
        *,
        version: str = "",
        journal: SessionJournal | None = None,
        record: Callable[[LiveSession, base.Settings], Observer[LiveSession]] | None = None,
        understands: LateModel | None = None,
        translations: Translations | None = None,
    ) -> None:
        """`understands` is the model of intents, and `translations` what can be translated, for clients that ask for
        them.
        """
        if not models:
            raise OptionError("expected at least one model to serve; got none")
        check_executor(recipe)
        self.models = dict(models)
        self.recipe = recipe
        self.options = options
        self.metrics = Metrics()
        self.sessions: dict[str, LiveSession] = {}
        self.connections: set[Client] = set()
        self.draining = False
        self.files = 0  # on their way to text, by HTTP: the end waits for them as it does for sessions
        self.over = asyncio.Event()  # it waits no longer
        self.journal = journal
        self.record = record
        self.understands = understands
        self.translations = translations or Translations()
        self.places = Places(self.sessions, options, self.metrics)
        self.traces: Observer[LiveSession] | None = None
        self.floods = Floods(by_address=bool(options.limits.per_address))
        self.broadcasts = Broadcasts(options)
        self.watch = Watch()
        self.load = Load(enabled=options.work.degrade)
        self.scheduler = Scheduler(options.work.workers, self.load, self._done)
        wake = self.scheduler.wake_soon
        self.builder = Builder(self.models, recipe, options, understands, self.translations, wake)
        self.info = server_info(
            self.models,
            recipe,
            options,
            version=version,
            intents=() if understands is None else understands.checkpoint.vocabulary.intents,
            translations=self.translations,
        )
        check_usual(self.info.models, options.text)
        self.look_up: Callable[[str, str], Awaitable[None]] | None = None  # of an owner's session, in a shared journal
        self.at_start: Callable[[], object] = lambda: None  # once sessions can run
        self._sweeper: asyncio.Task[None] | None = None
        self._failing = False  # the journal, as far as clients were told

    async def start(self) -> None:
        """Start; needs a running event loop."""
        self.scheduler.start()
        self._sweeper = asyncio.create_task(self._sweep(), name="sweep")
        self.at_start()

    async def stop(self) -> None:
        """Stop at once: see `drain` for the orderly way."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self.scheduler.stop()
        for live in self.sessions.values():
            live.close_translation()
            live.observers.remove("journal")  # its sessions may go on after a restart
            live.observers.closed(live)

    # --- for connections ---------------------------------------------------------------------------------------------

    def open(
        self, settings: base.Settings, owner: str, protocol: str, *, resumable: bool = False, limit_s: float = math.inf
    ) -> tuple[LiveSession, base.Started]:
        """Open a session, with an entry in the journal if its client may come back. Raises `RefusedError`.

        `limit_s` is how long this client's may get, if that is less than any may.
        """
        self._admit(owner)
        if self.overloaded:
            raise self.places.refusal("overloaded", "the open sessions use all computing time; try later")
        if settings.strict_model and settings.model is not None and settings.model not in self.models:
            known = ", ".join(self.models)
            raise self.places.refusal("bad_setting", f"expected a model among {known}; got {settings.model!r}")
        if settings.intents and self.understands is None:
            raise self.places.refusal("bad_setting", "expected a server with a network for intents; this one has none")
        # Hard to guess: without API keys the id alone lets a client come back to its session.
        identity = secrets.token_urlsafe(16)
        try:
            self.translations.check(settings)
            model, settings = choose_model(self.info.models, settings, self.options.text)
            live = self.builder.build(identity, owner, model.name, settings, protocol)
        except (WhispertideError, TypeError) as error:
            raise self.places.refusal("bad_setting", str(error)) from error
        live.limit_s = min(live.limit_s, limit_s)
        if self.record is not None:
            live.observers.add(live, "recording", partial(self.record, live, settings))
        if resumable and self.journal is not None:
            live.observers.add(live, "journal", partial(self.journal.opened, live, settings))
        self._follow(live)
        self.metrics.opened.labels(protocol).inc()
        self.places.count()
        log.info("session opened", extra={"session": identity, "model": live.model, "recipe": live.asked_recipe.name})
        return live, started_message(live, resumed=False)

    def resume(self, wanted: base.Resume, owner: str, party: str = "") -> tuple[LiveSession, base.Started]:
        """Give a parked session back to its client. Raises `RefusedError` (`places.Places.find`).

        It needs a place like a new one; while there is none, it goes on waiting for its client.
        """
        live = self.places.find(wanted.session, owner, party)
        if live.parked_at is not None:
            # Its time begins anew: a client that is refused a place may try again, and the session must be there then.
            live.parked_at = asyncio.get_running_loop().time()
            self._admit(owner)
        try:
            live.outbox.resume(wanted.last_seq)
        except EventsGoneError as error:
            raise self.places.refusal("ahead" if error.ahead else "behind", str(error), error.last_seq) from error
        if live.outbox.ended and not live.outbox.entries:  # nothing would ever be said to this client
            self.drop(live)
            raise self.places.refusal("unknown_session", "expected a session that is still open; this one has ended")
        live.parked_at = None
        self.metrics.resumed.inc()
        self.places.count()
        log.info("session resumed", extra={"session": live.id, "last_seq": wanted.last_seq})
        return live, started_message(live, resumed=True)

    def put(self, live: LiveSession, command: Command) -> base.Problem | None:
        """Give a client's command to its session; returns the problem, if there is one.

        A language or a prompt that it leaves open is the usual one. Audio beyond the session's longest length is cut
        off, and the session finished.
        """
        if live.finishing or live.ended:
            if isinstance(command, base.Finish) or self.draining:
                return None
            return base.Problem("bad_request", "expected nothing more for this session; it is finishing", fatal=False)
        if isinstance(command, base.Configure):
            command = base.Configure(fill_changes(command.changes, self.options.text, live.languages))
        if isinstance(command, base.Audio):
            # A session of an earlier life of the server may have more than is allowed now.
            room = max(0, to_samples(live.limit_s) - live.accepted)
            # Only what is taken: the rest is cut off below.
            taken_s = seconds(min(len(command.samples), room))
            self.metrics.audio.inc(taken_s)
            live.pace.take(taken_s, time.monotonic())
            if len(command.samples) > room:
                self._put(live, base.Audio(command.samples[:room]))
                self._put(live, base.Finish())
                return base.Problem(
                    "too_long", f"expected at most {live.limit_s:g} s of audio in a session; got more", fatal=False
                )
        self._put(live, command)
        return None

    def acknowledge(self, live: LiveSession, seq: int) -> None:
        """Drop the events up to `seq`, which the client has."""
        live.outbox.acknowledge(seq)
        live.observers.acknowledged(live, seq)

    def park(self, live: LiveSession) -> None:
        """Let a session wait for its client, which is gone."""
        live.wake = None
        if not live.outbox.entries and (live.ended or not live.accepted):
            self.drop(live)  # nothing to come back for
            return
        live.parked_at = asyncio.get_running_loop().time()
        parked = [other for other in self.places.of(live.owner) if other.parked_at is not None]
        if len(parked) > _PARKED * self.options.sessions_of_one and not self.draining:
            # Those that have ended first: whose client lives may have more to say.
            self.drop(min(parked, key=lambda other: (not other.ended, other.accepted, other.parked_at)))
        self.places.count()
        log.info("session parked", extra={"session": live.id})

    def detach(self, live: LiveSession) -> None:
        """Take a session away from the connection that has it."""
        # A copy: a connection that ends takes itself out of the set.
        for connection in list(self.connections):
            connection.detach(live)

    def drop(self, live: LiveSession) -> None:
        """Forget a session."""
        if self.sessions.pop(live.id, None) is None:
            return
        live.wake = None
        live.ended = True
        live.close_translation()
        # The inbox stays as it is: a step that runs may be taking from it.
        self.scheduler.suspend(live)
        if not live.running:  # else when the step is done
            live.observers.closed(live)
        self.places.count()
        log.info("session closed", extra={"session": live.id, "audio_s": seconds(live.accepted)})

    def lose(self, identity: str) -> None:
        """Forget a session that another server has."""
        live = self.sessions.get(identity)
        if live is None:
            return
        # A copy: a connection that ends takes itself out of the set.
        for connection in list(self.connections):
            connection.taken_over(live)
        self.drop(live)

    def outage(self, live: LiveSession) -> str:
        """Say for a client what happens to its captions while the journal cannot be written; "" while it can."""
        journal, lost = self.journal, "this may be lost with the server"
        if "journal" in live.observers.dropped:
            return lost
        if journal is None or "journal" not in live.observers or not (journal.failing or journal.is_ahead(live)):
            return ""
        return lost if journal.shared else "captions wait until it can"

    def losses(self, live: LiveSession) -> dict[base.ProblemKind, str]:
        """Say for a client, by kind, what its captions lack for the moment."""
        found: dict[base.ProblemKind, str] = {}
        if outage := self.outage(live):
            found["not_durable"] = f"the journal cannot be written; {outage}"
        if "broadcast" in live.observers.dropped:
            found["not_shared"] = "viewers can no longer read these captions; share them again"
        return found

    def has_room(self, live: LiveSession) -> bool:
        """True if more audio of this session can be accepted now."""
        if len(live.inbox) >= _INBOX:
            return False
        most = to_samples(self.options.limits.inbox_s)
        unsafe = live.accepted - live.safe
        if self.journal is not None and self.journal.shared and self.outage(live):
            unsafe //= _PATIENCE  # it does not wait for its journal, within bounds
        return max(live.unheard, unsafe) < most and live.outbox.waiting < live.outbox.limit // 2

    def restore(self, live: LiveSession) -> None:
        """Take up a session of the journal, which waits for its client."""
        self._follow(live)
        self.park(live)
        self.scheduler.wake(live)

    @property
    def overloaded(self) -> bool:
        """True if there is no room for another session: rounds are late, and it would keep workers from sessions that
        somebody speaks.
        """
        return self.load.overloaded and any(not live.is_parked for live in self.sessions.values())

    # --- the end -----------------------------------------------------------------------------------------------------

    def begin_drain(self) -> None:
        """Refuse new sessions. Those in the journal are left as they are and go on after the restart, in mid-word if
        need be. All others end here with their words confirmed.
        """
        self.draining = True
        for live in self.sessions.values():
            if "journal" in live.observers:
                self.scheduler.suspend(live)
            elif not live.finishing:
                live.cut_off = True
                self._put(live, base.Finish())

    @property
    def busy(self) -> bool:
        """True if any session has work to do, a journal entry to write or an event to send to a connected client."""
        return any(live.busy for live in self.sessions.values())

    # --- inside ------------------------------------------------------------------------------------------------------

    def _put(self, live: LiveSession, command: Command) -> None:
        for portion in live.portions(command):
            live.observers.put(live, portion)  # first: a step in progress may take it at once and write its state
            live.put(portion)
        self._keep_in_memory(live)
        self.scheduler.wake(live)

    def _follow(self, live: LiveSession) -> None:
        """Take a session among those of this server, whose figures are counted."""
        self.sessions[live.id] = live
        live.observers.add(live, "metrics", lambda: self.metrics)
        if (traces := self.traces) is not None:
            live.observers.add(live, "traces", lambda: traces)
        if self.options.transcripts_in_log:
            live.observers.add(live, "text in the log", SaidInLog)

    def _keep_in_memory(self, live: LiveSession) -> None:
        """Take audio that no journal writes for safe."""
        if "journal" not in live.observers:
            live.safe = live.accepted

    def _admit(self, owner: str) -> None:
        """Raises `RefusedError` if there is no place for another session of this owner."""
        if self.draining:
            raise self.places.refusal("shutdown", STOPPING)
        self.places.admit(owner)

    def _done(self, live: LiveSession, step: Step) -> None:
        """Take in the result of a step: its events go to the outbox, then to whoever follows the session."""
        if live.id not in self.sessions:  # dropped in the meantime
            live.observers.closed(live)
            return
        live.outbox.add(step.entries)
        if not step.rounds and not step.more:  # nothing was left to look at
            live.processed = live.taken
        if step.rounds:
            self.watch.note_round()
        self._keep_in_memory(live)
        live.observers.told(live, step)
        if live.wake is not None:
            live.wake()

    def measure_waiting(self) -> Waiting:
        """Measure the audio that waits, and show it in the metrics."""
        waiting = self.watch.measure(self.sessions.values())
        self.metrics.show_waiting(waiting.unheard_s, waiting.oldest_s)
        return waiting

    @property
    def stalled(self) -> bool:
        """True if audio waits and no round is done (`watch`)."""
        return self.watch.is_stalled(self.measure_waiting())

    def _tell_whether_durable(self) -> None:
        """Wake the clients that have to know that the journal cannot be written, or can again."""
        failing = self.journal is not None and self.journal.failing
        if failing == self._failing:
            return
        self._failing = failing
        for live in self.sessions.values():
            if live.wake is not None:
                live.wake()

    async def _sweep(self) -> None:
        """Drop sessions whose client did not come back in time, and show the load, also in silence."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            self._tell_whether_durable()
            self.broadcasts.sweep()
            now = asyncio.get_running_loop().time()
            if (late := self.measure_waiting().late) is not None:
                self.load.note_waiting(*late, now)
            self.metrics.show_load(self.load.level, self.load.pressure, silent=not self.sessions)
            if spare_graphs():
                with suppress(GraphError):  # whoever uses that graph next is told
                    await asyncio.to_thread(give_back_spare)
            # A copy: `drop` takes sessions out.
            for live in list(self.sessions.values()):
                if live.parked_at is not None and now - live.parked_at > self.options.limits.resume_s:
                    self.drop(live)
