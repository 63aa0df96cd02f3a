"""Restore the sessions of a journal after a restart. `journal` keeps values; `hub` runs them."""

import asyncio
import logging
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from whispertide.errors import WhispertideError
from whispertide.server.client import STOPPING, RefusedError
from whispertide.server.hub import Hub
from whispertide.server.journal import Journal
from whispertide.server.live import LiveSession
from whispertide.server.protocols.base import Audio
from whispertide.server.session_journal import SessionJournal, StoredSession, UnreachableError
from whispertide.types import seconds

if TYPE_CHECKING:  # an extra
    from whispertide.server.nats_journal import NatsJournal

_LOOKING: "WeakValueDictionary[str, asyncio.Lock]" = WeakValueDictionary()  # one at a time for each session
log = logging.getLogger("whispertide.server")


def resume_journal(hub: Hub, journal: Journal) -> int:
    """Restore every session of the journal; returns their number. Those that cannot go on are forgotten, and logged."""
    count = 0
    for kept in list(journal.kept()):
        try:
            live = _rebuild(hub, journal, kept)
        except (WhispertideError, KeyError, TypeError, ValueError) as error:
            log.warning("session cannot be resumed", extra={"session": kept.id, "problem": str(error)})
            journal.discard(kept.id)
            continue
        hub.restore(live)
        log.info("session restored", extra={"session": kept.id, "audio_s": seconds(kept.samples)})
        count += 1
    return count


def _rebuild(hub: Hub, journal: SessionJournal, kept: StoredSession) -> LiveSession:
    """Rebuild a session from the journal. Raises `WhispertideError`, `ValueError` and others if it cannot."""
    about = kept.about
    if about.model not in hub.models:
        raise ValueError(f"expected the model {about.model} to be served again; it is not")
    # A framing that was measured then might be another now.
    live = hub.builder.build(kept.id, about.owner, about.model, about.settings, about.protocol, kept.recipe)
    if kept.state is not None and kept.recipe is not None and kept.options is not None:
        live.restore(kept.state, kept.recipe, kept.options, kept.translation)
    live.outbox.restore(kept.next_seq, kept.entries)
    live.commands = kept.taken
    live.observers.add(live, "journal", lambda: journal)
    later = sum(len(command.samples) for command in kept.later if isinstance(command, Audio))
    live.accepted = live.taken = live.looked_at = kept.samples - later
    for command in kept.later:
        live.put(command)
    live.safe = live.accepted
    return live


async def look_up(hub: Hub, journal: "NatsJournal", session: str, owner: str) -> None:
    """Fetch a session from the shared journal before its client comes back, whichever server had it.

    One of another owner stays where it is. Raises `RefusedError` where the journal cannot be asked, or this server is
    stopping.
    """
    if hub.draining:  # it may have gone on elsewhere by now, and is not to be taken from there
        raise RefusedError("shutdown", STOPPING)
    # The dictionary is weak: a lock goes by itself when nobody holds it or waits for it.
    async with _LOOKING.setdefault(session, asyncio.Lock()):
        await _have(hub, journal, session, owner)


async def _have(hub: Hub, journal: "NatsJournal", session: str, owner: str) -> None:
    live = hub.sessions.get(session)
    if live is not None and live.owner != owner:
        return
    try:
        if live is not None and ("journal" not in live.observers or await journal.owns(session)):
            return
        hub.lose(session)  # of another connection here, too, which does not know that its client is elsewhere
        kept = await journal.claim(session, owner)
        if kept is None or session in hub.sessions:
            return
        hub.restore(_rebuild(hub, journal, kept))
    except UnreachableError as error:
        raise RefusedError("overloaded", f"the journal cannot be reached; come back in a moment ({error})") from error
    except Exception as error:  # a session that is damaged costs nobody else anything
        log.warning("session cannot be resumed", extra={"session": session, "problem": str(error)})
        journal.discard(session)
        return
    log.info("session taken over", extra={"session": session, "audio_s": seconds(kept.samples)})
