"""The seam between a wire protocol and the server: messages and events in, actions out.

A protocol object lives as long as one connection. It does no I/O, has no clock and no thread, and never sees a model;
the server performs its actions in order and calls it back, always from one thread at a time:

    opened()        the connection stands (it is authorized already)     -> a greeting, often `Start`
    receive(m)      a message came: str or bytes; raw bytes over TCP, cut anywhere, so framing is the protocol's affair
    started(s)      the session that `Start` (or `Resume`) asked for is there
    events(e)       what the session said, in order
    flushed()       all events that belong to the oldest unanswered `Flush` have been given
    cleared()       the oldest unanswered `Clear` has been carried out, and its events have been given
    accepted(n)     n samples (16 kHz) of this session's audio are safe: called before events and once a second
    processed(n)    n samples (16 kHz) were looked at, and all that is to be said of them so far has been given
    problem(p)      something is wrong; a fatal problem closes the connection after what this returns
    idle()          nothing came for as long as the other side may say nothing, and a session is open
    closed()        the other side will send nothing more

At most one session is open at a time. It ends with its `End` event (after `Finish`), with a fatal `Error` event or
with `Abandon`; afterwards another `Start` is fine. Nothing waits for `started`: audio and flushes may follow `Start`
at once, the server keeps their order.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

from whispertide.events import Event
from whispertide.options import DecodeOptions, Task, checked_terms, listed_texts
from whispertide.server.protocols.server_info import ServerInfo
from whispertide.types import FloatArray

KEYS = ("api_key", "token", "key")  # parameters in which a client may give its key
_NOTHING: Mapping[str, Any] = MappingProxyType({})

# --- what a protocol is told -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opening:
    """The request that opened a connection. `query` holds the last value of each parameter, `lists` all of them in
    order; `headers` have lower-case names. All are empty over TCP.

    `connection` is a name for this connection, unique and hard to guess, for protocols that need ids; `at` is when it
    was opened, in seconds since 1970, for those that name dates. Of a client whose channels are apart this is the one
    of `channel`, from 0; None: they are mixed.
    """

    server: ServerInfo
    connection: str
    query: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    lists: Mapping[str, Sequence[str]] = field(default_factory=lambda: _NOTHING)
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    subprotocols: tuple[str, ...] = ()
    at: float = 0.0
    channel: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """A session that has begun or goes on: `received` samples and events up to `seq` (exclusive) are already there if
    it was resumed, else 0.
    """

    session: str
    model: str
    recipe: str
    language: str | None
    received: int = 0
    seq: int = 0
    resumed: bool = False


ProblemKind = Literal[
    "bad_request",  # the message is not what it should be
    "bad_setting",  # an unknown model, recipe, language or value
    "unknown_session",  # nothing to resume: unknown, or ended
    "ahead",  # the client has events that the session lacks: they are void, and it goes on after an earlier one
    "behind",  # events that the client lacks are gone: it can go on after a later one
    "overloaded",  # no room for another session
    "too_large",  # a message over the limit
    "too_fast",  # more than the allowed rate
    "too_long",  # the session reached its longest length; everything said so far is confirmed first
    "too_slow",  # the client does not read what it is sent
    "idle",  # nothing came for `idle_s`
    "shutdown",  # the server is stopping; everything said so far is confirmed first
    "internal",  # the server failed
    "taken_over",  # another server goes on with the session
    "not_durable",  # the journal cannot be written: what is said meanwhile may be lost, or captions wait
    "not_shared",  # the address where others read the captions is closed
]


@dataclass(frozen=True, slots=True)
class Problem:
    """An error for the client: `message` says what was expected, what came, and what to do.

    `last_seq` is what the session can be resumed with, where it was resumed with another ("ahead", "behind"). `told`:
    another channel of this client has told the client already.
    """

    kind: ProblemKind
    message: str
    fatal: bool
    last_seq: int | None = None
    told: bool = False


class ProtocolError(ValueError):
    """The client's message cannot be used.

    The server turns it into a `Problem("bad_request", ...)`; `fatal` ends the connection, otherwise the message is
    as if it had not come.
    """

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


# --- what a protocol asks for ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a session. None, or nothing, means the server's default (`defaults`); `languages.DETECT` as the
    language means none. `languages` are those that may be detected, `keyterms` what is to be found where it is said,
    `speakers` how many voices are told apart (0: none). `changes` are fields of the recipe by name; with `intents`
    intents are recognized too. Sentences are translated into the language `translate_to`, and corrected with `correct`,
    where the server offers that.

    An unknown `model` is as none, unless `strict_model`: clients of other services name models that only exist there.
    """

    model: str | None = None
    strict_model: bool = False
    recipe: str | None = None
    language: str | None = None
    task: Task | None = None
    prompt: str = ""
    vad: bool | None = None
    intents: bool = False
    changes: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    languages: tuple[str, ...] = ()
    keyterms: tuple[str, ...] = ()
    translate_to: str | None = None
    correct: bool = False
    speakers: int | None = None

    def __post_init__(self) -> None:
        """Lists, as JSON has them, are as good. Raises `OptionError` for what are none."""
        object.__setattr__(self, "languages", listed_texts("languages", self.languages))
        object.__setattr__(self, "keyterms", checked_terms(self.keyterms))

    @property
    def options(self) -> DecodeOptions:
        """The decode options of settings that leave nothing open."""
        return DecodeOptions(
            language=self.language,
            languages=self.languages,
            task=self.task or "transcribe",
            prompt=self.prompt,
            keyterms=self.keyterms,
            speakers=self.speakers or 0,
        )


def as_plain(settings: Settings) -> dict[str, Any]:
    """The settings as JSON wants them: `Settings(**as_plain(settings)) == settings`."""
    values = {item.name: getattr(settings, item.name) for item in fields(settings)}
    return {**values, "changes": dict(settings.changes)}


@dataclass(frozen=True, slots=True)
class Start:
    """Open a session."""

    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with a session that lost its connection; events after `last_seq` (-1: all) come again."""

    session: str
    last_seq: int = -1


@dataclass(frozen=True, slots=True)
class Configure:
    """Change fields of the recipe or of the decode options in the running session (`Session.configure`)."""

    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Audio:
    """Samples [n] at 16 kHz, mono. `encodings.AudioInput` makes them of bytes in any encoding."""

    samples: FloatArray


@dataclass(frozen=True, slots=True)
class Flush:
    """Confirm all audio so far; the session goes on. Answered by `flushed`, unless nobody has `asked` for it."""

    asked: bool = True


@dataclass(frozen=True, slots=True)
class Clear:
    """Drop the audio that is not confirmed yet. Answered by `cleared`."""


@dataclass(frozen=True, slots=True)
class Finish:
    """End the audio: all of it is confirmed; the last event is `End`."""


@dataclass(frozen=True, slots=True)
class Abandon:
    """Drop the session with all that is not confirmed."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Acknowledge the events up to and including `seq`; they need not be kept for the client."""

    seq: int


@dataclass(frozen=True, slots=True)
class Reply:
    """Send this: str as a text frame, bytes as a binary one (TCP: str as UTF-8)."""

    message: str | bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection, after the replies before it. Over TCP the code does not matter."""

    code: int = 1000
    reason: str = ""


Action = Start | Resume | Configure | Audio | Flush | Clear | Finish | Abandon | Ack | Reply | Close
Actions = Sequence[Action]

# Close codes of RFC 6455, section 7.4.1, and of its registry, and 4000-4999 for what they have no code for
CLOSE_CODES: Mapping[ProblemKind, int] = MappingProxyType(
    {
        "bad_request": 1007,
        "bad_setting": 1008,
        "unknown_session": 4004,
        "ahead": 4005,
        "behind": 4006,
        "overloaded": 1013,
        "too_large": 1009,
        "too_fast": 4029,
        "too_long": 4008,
        "too_slow": 4009,
        "idle": 4000,
        "shutdown": 1012,  # not 1001, which some libraries take for a normal end: their clients would not come back
        "internal": 1011,
        "taken_over": 4001,
        "not_durable": 1011,  # never fatal
        "not_shared": 1011,  # nor this
    }
)


class WireProtocol(ABC):
    """One conversation with one client. Subclasses override what they need; see the module for the calls and their
    order.

    name        in metrics and logs
    single      parameters of the address that have one value, next to those for a key: a client that gives several is
                refused
    idle_s      how long the other side may say nothing, if that is less than the server's own limit (see `idle`)
    resumable   whether a session whose connection is lost is kept for `Resume`; otherwise it is abandoned
    subprotocol the WebSocket subprotocol to accept, of those that were offered
    times       how many times the usual limit a message may have: 15 MiB of audio at once, in base64, are 20 MiB
    piece       bytes of a binary message that it takes at once, where that may be cut anywhere; 0: it takes the whole
    fruitless   how many events of the last message led to no action and were no audio, where a message can hold
                several: they count against the rate
    """

    name: ClassVar[str]
    single: ClassVar[frozenset[str]] = frozenset()
    idle_s: float | None = None
    resumable: ClassVar[bool] = False
    times: ClassVar[int] = 1
    subprotocol: str | None = None
    fruitless: int = 0

    @property
    def piece(self) -> int:
        """The size of a piece (see above). It may change with the next message."""
        return 0

    def pieces(self, message: str | bytes) -> Iterator[str | bytes]:
        """Split a message into what is taken at once: the next piece is taken when there is room for it."""
        size = self.piece
        if not size or isinstance(message, str) or len(message) <= size:
            yield message
            return
        for at in range(0, len(message), size):
            yield message[at : at + size]

    def __init__(self, opening: Opening) -> None:
        """Raises `ProtocolError` for an opening that cannot be served: the connection is refused with its message."""
        for name in sorted(self.single.union(KEYS)):
            if (count := len(set(opening.lists.get(name, ())))) > 1:
                raise ProtocolError(f"expected one value of {name} in the address; got {count}")
        self.opening = opening

    @classmethod
    def channels_of(cls, opening: Opening) -> int:
        """How many channels the client wants apart (`server.channels`); 0: none. Raises `ProtocolError`."""
        return 0

    @classmethod
    def conversations(cls, opening: Opening) -> "list[Self]":
        """The conversations of one client: one, or one for each channel. Raises what they and `channels_of` raise."""
        channels = cls.channels_of(opening)
        return [cls(replace(opening, channel=number)) for number in range(channels)] if channels else [cls(opening)]

    def is_last(self, message: str | bytes) -> bool:
        """True for the message that ends the whole conversation; asked only where channels are apart."""
        return False

    def opened(self) -> Actions:
        """Called when the connection stands."""
        return ()

    @property
    def is_amid(self) -> bool:
        """True if a message has begun and is not complete; it has to be within the time that a client may be silent,
        which begins anew with what completes one. Only protocols that do their own framing, over TCP, can know.
        """
        return False

    @abstractmethod
    def receive(self, message: str | bytes) -> Actions:
        """Take a message. Raises `ProtocolError` for one that cannot be used; other errors are a defect."""

    def started(self, started: Started) -> Actions:
        """Called when the session is there."""
        return ()

    @abstractmethod
    def events(self, events: Sequence[Event]) -> Actions:
        """Send events of the session."""

    def flushed(self) -> Actions:
        """Called when a `Flush` is done."""
        return ()

    def cleared(self) -> Actions:
        """Called when a `Clear` is done."""
        return ()

    def accepted(self, samples: int) -> Actions:
        """Called when the server has this much of the session's audio for good."""
        return ()

    def processed(self, samples: int) -> Actions:
        """Called when this much of the audio is processed: all events about it were given, until more comes."""
        return ()

    def problem(self, problem: Problem) -> Actions:
        """Tell the client. After a fatal problem the server closes with `CLOSE_CODES` unless this returns `Close`."""
        return ()

    def idle(self) -> Actions:
        """Called when nothing came for too long: end the audio, with what is held of it, or only flush it where the
        client may come back.

        When its words are told, a session that has ended in that way is over as any other where the client has set
        `idle_s`. Else an "idle" problem takes the place of its `End`.
        """
        return (Finish(),)

    def closed(self) -> Actions:
        """Called when nothing more will come: the end of input over TCP, or the WebSocket's close frame.

        Replies to a WebSocket that closed go nowhere. Over TCP the other side may still read, and `Finish` lets it.
        """
        return ()
