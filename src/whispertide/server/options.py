"""The options of a server, fixed at its start. Values only: nothing here does I/O."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from whispertide.errors import OptionError
from whispertide.options import DecodeOptions

if TYPE_CHECKING:
    from whispertide.translation.translator import Translator


def _at_least(least: float, **values: float) -> None:
    for name, value in values.items():
        # Written with `not`, so that nan is refused as well.
        if not value >= least:
            raise OptionError(f"expected {name} of at least {least:g}; got {value:g}")


def _finite(**values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(value):
            raise OptionError(f"expected {name} as a number of seconds; got {value:g}: choose one that is large enough")


@dataclass(frozen=True, slots=True)
class Address:
    """The address to listen on. `certificate` and `key` are files in PEM format; without them there is no TLS."""

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on clients. Times in seconds, sizes in bytes.

    sessions        live sessions at once; four times as many may wait for their clients to come back
    per_owner       of these, for one API key; 0 = an equal share
    session_s       audio of one session; then it is finished as if the client had asked for it
    message         one WebSocket message
    upload          one uploaded file
    upload_s        audio in an uploaded file: a small file can hold days
    requests        requests and connections per minute and address; 0 = any number
    messages        messages other than audio per second and connection, on average
    connections     connections at once, each with or without a session
    per_address     connections from one address at once, before TLS and a request as well; 0 = any number
    viewers         of one session's captions at once, of all together four times as many; 0 = nobody can watch
    inbox_s         audio of one session that waits; a client that sends faster is read more slowly, nothing is dropped
    idle_s          how long a client may say nothing
    stall_s         how long a client may take to send a request, or a piece of an upload, or to read what it is sent
    resume_s        how long a session waits for its client to come back
    unacked         events kept for a client to acknowledge
    offline         uploads that are transcribed or wait for it, for each of `Work.uploads`
    """

    sessions: int = 64
    per_owner: int = 0
    session_s: float = 4 * 3600.0
    message: int = 2**20
    upload: int = 200 * 2**20
    upload_s: float = 2 * 3600.0
    requests: int = 0
    messages: int = 50
    connections: int = 512
    per_address: int = 256
    viewers: int = 256
    inbox_s: float = 30.0
    idle_s: float = 120.0
    stall_s: float = 20.0
    resume_s: float = 60.0
    unacked: int = 20_000
    offline: int = 8

    def __post_init__(self) -> None:
        _at_least(1, sessions=self.sessions, message=self.message, upload=self.upload, messages=self.messages)
        _at_least(1, connections=self.connections, unacked=self.unacked, offline=self.offline, session_s=self.session_s)
        _at_least(1, upload_s=self.upload_s, inbox_s=self.inbox_s)
        _finite(session_s=self.session_s, upload_s=self.upload_s, inbox_s=self.inbox_s)  # they become samples
        _at_least(0, requests=self.requests, resume_s=self.resume_s, per_owner=self.per_owner)
        _at_least(0, per_address=self.per_address, viewers=self.viewers)
        _at_least(0.1, idle_s=self.idle_s, stall_s=self.stall_s)


@dataclass(frozen=True, slots=True)
class Work:
    """Limits on the work that is done at once.

    workers   rounds that are computed at once
    uploads   files that are transcribed at once
    degrade   whether quality is lowered in steps when rounds start late (`load`)
    """

    workers: int = 2
    degrade: bool = True
    uploads: int = 1

    def __post_init__(self) -> None:
        _at_least(1, workers=self.workers, uploads=self.uploads)


@dataclass(frozen=True, slots=True)
class Access:
    """Access rules. `keys` empty: everybody. `origins`: web pages of other hosts that may connect; "*" = any."""

    keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TranslationAccess:
    """Who translates for clients that ask for it, into which languages they may have it, and whether they may have
    corrections. The server closes the translator at its end.
    """

    translator: "Translator"
    languages: tuple[str, ...] = ()
    corrects: bool = False


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """All options of a server. `text` has the default language, task and prompt (`defaults`); `transcripts_in_log` puts
    confirmed text into the log, for debugging one's own server.
    """

    limits: Limits = field(default_factory=Limits)
    work: Work = field(default_factory=Work)
    access: Access = field(default_factory=Access)
    text: DecodeOptions = field(default_factory=DecodeOptions)
    journal: str | None = None  # a folder, or the address of NATS (nats://host:port)
    record: Path | None = None
    understands: Path | None = None  # the folder of a network that tells intents
    translation: TranslationAccess | None = None
    drain_s: float = 30.0
    transcripts_in_log: bool = False

    @property
    def connections_of_one(self) -> int:
        """The most connections of one API key, with or without a session: an equal share."""
        return max(self.limits.connections // max(1, len(self.access.keys)), self.sessions_of_one)

    @property
    def viewers_in_all(self) -> int:
        """The most viewers of all sessions."""
        return 4 * self.limits.viewers

    @property
    def viewers_of_one(self) -> int:
        """The most viewers of the sessions of one API key: an equal share."""
        return self.viewers_in_all // max(1, len(self.access.keys))

    @property
    def sessions_of_one(self) -> int:
        """The most live sessions of one API key. Without keys all clients share one."""
        share = self.limits.sessions // max(1, len(self.access.keys))
        return self.limits.per_owner or max(1, share)
