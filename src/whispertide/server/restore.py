"""After a restart the sessions of a journal go on. `journal` keeps values; `hub` runs them."""

import logging

from whispertide.errors import WhispertideError
from whispertide.server.hub import Hub
from whispertide.server.journal import Journal, Kept
from whispertide.server.live import LiveSession
from whispertide.server.protocols.base import Audio
from whispertide.types import seconds

log = logging.getLogger("whispertide.server")


def resume_journal(hub: Hub, journal: Journal) -> int:
    """Let every session of the journal go on; returns how many. Those that cannot are forgotten, and logged."""
    count = 0
    for kept in list(journal.kept()):
        try:
            live = _rebuilt(hub, journal, kept)
        except (WhispertideError, KeyError, TypeError, ValueError) as error:
            log.warning("session cannot be resumed", extra={"session": kept.id, "problem": str(error)})
            journal.discard(kept.id)
            continue
        hub.restore(live)
        log.info("session restored", extra={"session": kept.id, "audio_s": seconds(kept.samples)})
        count += 1
    return count


def _rebuilt(hub: Hub, journal: Journal, kept: Kept) -> LiveSession:
    if kept.model not in hub.models:
        raise ValueError(f"expected the model {kept.model} to be served again; it is not")
    # A framing that was measured then might be another now.
    live = hub.build(kept.id, kept.owner, kept.model, kept.settings, kept.protocol, kept.recipe)
    if kept.state is not None and kept.recipe is not None and kept.options is not None:
        live.go_on(kept.state, kept.recipe, kept.options)
    live.outbox.next_seq = kept.next_seq
    live.outbox.add(kept.entries)
    live.commands = kept.taken
    live.observers = (journal,)
    later = sum(len(command.samples) for command in kept.later if isinstance(command, Audio))
    live.accepted = live.taken = kept.samples - later
    for command in kept.later:
        live.put(command)
    live.safe = live.accepted
    return live
