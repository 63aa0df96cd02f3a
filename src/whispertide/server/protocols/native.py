"""The project's own WebSocket protocol (docs/reference/server.md): events as JSON, audio as binary frames, resumable.

    client: {"type": "start", ...}, PCM frames, {"type": "flush" | "clear" | "configure" | "ack" | "finish"}
    server: {"type": "hello"}, {"type": "session"}, the events of `events.to_dict`, {"type": "received"}, ...

Knows nothing of sessions beyond their ids; what it is asked for becomes actions. Of a client whose channels are apart
there is a conversation for each; what the client says with a `channel` is for that one alone.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, ClassVar, Self
from weakref import ref

from whispertide.audio.pcm import SAMPLE_FORMATS
from whispertide.errors import OptionError
from whispertide.events import End, Error, Event, of_channel, to_dict
from whispertide.options import MOST_CHANNELS, MOST_SPEAKERS, parse_switch
from whispertide.server.protocols import base, messages
from whispertide.server.protocols.encodings import AudioInput
from whispertide.types import SAMPLE_RATE, FloatArray

VERSION = 1
_SUBPROTOCOL = "whispertide"
RATES = (8_000, 192_000)  # what microphones and sound files have

_SETTINGS = {item.name for item in fields(base.Settings)} - {"strict_model"}
_FORMAT = {"rate", "channels", "format"}
_IN_QUERY = _SETTINGS - {"changes"} | _FORMAT
_PARAMETERS = _IN_QUERY | {"multichannel", "session", "last_seq"}
_LISTS = frozenset({"languages", "keyterms"})  # in the address between commas, or repeated
_WHOLE = re.compile(r"-?[0-9]{1,18}")


class NativeProtocol(base.WireProtocol):
    """One connection of the native protocol."""

    name: ClassVar[str] = "native"
    single: ClassVar[frozenset[str]] = frozenset(_PARAMETERS) - _LISTS
    resumable: ClassVar[bool] = True

    def __init__(self, opening: base.Opening) -> None:
        super().__init__(opening)
        # A page that offers its key as a subprotocol insists on an answer.
        self.subprotocol = _SUBPROTOCOL if _SUBPROTOCOL in opening.subprotocols else None
        self._format: dict[str, Any] = {"rate": SAMPLE_RATE, "channels": 1, "format": "s16le"}
        query = opening.query
        self._apart = 0 if opening.channel is None else self.channels_of(opening)
        if self._apart:
            self._format["channels"] = self._apart
        self._pcm = self._input()
        self._state: str = "idle"  # idle, resuming, open, finishing
        self._together: Sequence[ref[NativeProtocol]] = ()  # those of all channels, which have this one
        self._started: base.Started | None = None
        self._skip = 0  # samples at 16 kHz that the client sends again for other channels
        self._query = self._from_query(query)
        self._resume = self._resume_from(self._own(query)) if "session" in query else None

    @classmethod
    def channels_of(cls, opening: base.Opening) -> int:
        """As many as the address says, with `multichannel`."""
        if not messages.switch(opening.query, "multichannel"):
            return 0
        channels = messages.whole(opening.query, "channels", 1)
        if not 2 <= channels <= MOST_CHANNELS:
            raise base.ProtocolError(
                f"expected channels from 2 to {MOST_CHANNELS} in the address, to keep them apart; got {channels}"
            )
        return channels

    @classmethod
    def conversations(cls, opening: base.Opening) -> "list[Self]":
        """The conversations of one client, which begin together."""
        found = super().conversations(opening)
        for one in found:
            one._together = [ref(other) for other in found]
        return found

    @property
    def piece(self) -> int:
        """Audio may be cut anywhere."""
        return self._pcm.piece

    def opened(self) -> base.Actions:
        """Describe the server; go on with a session that the address names."""
        server = self.opening.server
        hello = {
            "type": "hello",
            "protocol": VERSION,
            "version": server.version,
            "models": [asdict(model) for model in server.models],
            "recipes": [asdict(recipe) for recipe in server.recipes],
            "recipe": server.recipe,
            "limit_s": server.limit_s,
            "intents": list(server.intents),
            "language": server.language,
            "task": server.task,
            "hears_turns": server.hears_turns,
            "translations": list(server.translations),
            "corrects": server.corrects,
            "hears_speakers": server.hears_speakers,
        }
        greeting = () if self.opening.channel else (_reply(hello),)  # the first channel says it for all
        if self._resume is None:
            return greeting
        self._state = "resuming"
        return (*greeting, self._resume)

    def receive(self, message: str | bytes) -> base.Actions:
        """Take audio, or one JSON object."""
        if isinstance(message, bytes):
            return self._audio(message)
        data = messages.json_object(message)
        if self._apart and not self._concerns(data):
            return ()
        match data.get("type"):
            case "start":
                return self._start(data)
            case "resume":
                self._expect("idle", "resume")
                resume = self._resume_from(data)
                self._configure_format(data)
                self._state = "resuming"
                return (resume,)
            case "ack":
                return (base.Ack(_whole(data, "seq")),)
            case "keepalive":
                return ()
            case "configure" | "flush" | "clear" | "finish" | "abandon" as kind:
                self._expect("open", kind)
                return self._control(kind, data)
            case kind:
                known = "start, resume, configure, flush, clear, finish, abandon, ack, keepalive"
                raise base.ProtocolError(f'expected a "type" among {known}; got {kind!r}')

    def started(self, started: base.Started) -> base.Actions:
        """Send the session's id, with which to come back, and `received`, the position to send from.

        Where channels are apart the last one to start says so for all: they go on from where the first of them is.
        """
        self._started = started
        everyone = [one for other in self._together if (one := other()) is not None] or [self]
        all_started = [one._started for one in everyone if one._started is not None]
        if len(all_started) < len(everyone):
            return ()
        position = min(one.received for one in all_started)
        return [one._begin(each, position) for one, each in zip(everyone, all_started, strict=True)]

    def _begin(self, started: base.Started, position: int) -> base.Reply:
        self._skip = started.received - position
        if self._state == "resuming":
            self._state = "open"
        values = {**asdict(started), "received": self._position(position)}
        return self._say({"type": "session", **values, **self._format})

    def events(self, events: Sequence[Event]) -> base.Actions:
        """Send every event as it is, or as one of its channel."""
        actions: list[base.Action] = []
        for event in events:
            actions.append(_reply(to_dict(of_channel(event, self._number) if self._apart else event)))
            if isinstance(event, End):
                actions.append(base.Close(1000, "the session is over"))
            elif isinstance(event, Error) and event.fatal:
                actions.append(base.Close(1011, "the session failed"))
        return actions

    def flushed(self) -> base.Actions:
        return (self._say({"type": "flushed"}),)

    def cleared(self) -> base.Actions:
        return (self._say({"type": "cleared"}),)

    def accepted(self, samples: int) -> base.Actions:
        """Tell the client that it need not keep the audio before this."""
        return (self._say({"type": "received", "received": self._position(samples)}),)

    def idle(self) -> base.Actions:
        """Confirm what was heard, and keep the session: the network of the client may be away."""
        return (*self._new(self._pcm.drain()), base.Flush(asked=False))

    def problem(self, problem: base.Problem) -> base.Actions:
        """Send a problem with its kind; the server closes after fatal ones."""
        if problem.told:
            return ()
        known = {name: value for name, value in asdict(problem).items() if name != "told" and value is not None}
        return (self._say({"type": "problem", **known}),)

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    def _number(self) -> int:
        """The number of this channel, from 1."""
        return (self.opening.channel or 0) + 1

    def _say(self, data: Mapping[str, Any]) -> base.Reply:
        return _reply({**data, "channel": self._number} if self._apart else data)

    def _concerns(self, data: dict[str, Any]) -> bool:
        """True for a message to this channel, or to all; its `channel` is taken out."""
        number, kind = data.pop("channel", None), data.get("type")
        if number is None and kind in ("ack", "resume"):
            raise base.ProtocolError(f'expected "channel" in {kind}, as each has a session of its own; got none')
        if number is not None and not (messages.is_whole(number) and 1 <= number <= self._apart):
            raise base.ProtocolError(f'expected "channel" to be a whole number from 1 to {self._apart}; got {number!r}')
        return number in (None, self._number)

    def _own(self, query: Mapping[str, str]) -> Mapping[str, str]:
        """The address for this channel: of its session and the last event, which are one after the other for all."""
        if not self._apart:
            return query
        parts = {key: query[key].split(",") for key in query.keys() & {"session", "last_seq"}}
        for key, values in parts.items():
            if len(values) != self._apart:
                raise base.ProtocolError(f"expected {key} of {self._apart} channels between commas; got {len(values)}")
        return {key: values[self._number - 1] for key, values in parts.items()}

    def _new(self, samples: FloatArray) -> base.Actions:
        """The actions for samples, but for those that this channel has already."""
        skipped = min(self._skip, len(samples))
        self._skip -= skipped
        return messages.audio_actions(samples[skipped:])

    def _start(self, data: Mapping[str, Any]) -> base.Actions:
        self._expect("idle", "start")
        if "multichannel" in data:
            raise base.ProtocolError('expected "multichannel" in the address: /ws?multichannel=true&channels=2')
        if unknown := data.keys() - _SETTINGS - _FORMAT - {"type"}:
            known = ", ".join(sorted(_SETTINGS | _FORMAT))
            raise base.ProtocolError(f"expected fields among {known}; got {', '.join(sorted(unknown))}")
        settings = self._settings({**self._query, **{key: data[key] for key in data.keys() & _SETTINGS}})
        self._configure_format(data)
        self._state = "open"
        return (base.Start(settings),)

    def _audio(self, data: bytes) -> base.Actions:
        actions: list[base.Action] = []
        if self._state == "idle":
            actions += self._start({})
        self._expect("open", "audio")
        return [*actions, *self._new(self._pcm.feed(data))]

    def _control(self, kind: str, data: Mapping[str, Any]) -> base.Actions:
        match kind:
            case "flush":
                return (*self._new(self._pcm.drain()), base.Flush())
            case "clear":
                return (base.Clear(),)
            case "abandon":
                self._state = "idle"
                return (base.Abandon(), base.Close(1000, "abandoned"))
            case "finish":
                self._state = "finishing"
                return (*self._new(self._pcm.drain()), base.Finish())
        changes = data.get("changes")
        if not isinstance(changes, dict):
            raise base.ProtocolError(f'expected "changes": {{field: value, ...}}; got {changes!r}')
        return (base.Configure(changes),)

    def _expect(self, state: str, what: str) -> None:
        if self._state != state:
            raise base.ProtocolError(f"expected {what} in a session that is {state}; this one is {self._state}")

    def _position(self, samples: int) -> int:
        """Convert samples at 16 kHz to samples of each channel at the client's rate."""
        return samples * int(self._format["rate"]) // SAMPLE_RATE

    def _configure_format(self, data: Mapping[str, Any]) -> None:
        # Where the new format cannot be, the client goes on in the old one.
        before = dict(self._format)
        self._format.update({key: data[key] for key in data.keys() & _FORMAT})
        try:
            self._pcm = self._input()
        except base.ProtocolError:
            self._format = before
            raise

    def _input(self) -> AudioInput:
        rate, channels, name = (self._format[key] for key in ("rate", "channels", "format"))
        if not messages.is_whole(rate) or not RATES[0] <= rate <= RATES[1]:
            raise base.ProtocolError(f"expected a rate from {RATES[0]} to {RATES[1]} Hz; got {rate!r}")
        if not messages.is_whole(channels) or not 1 <= channels <= MOST_CHANNELS:
            raise base.ProtocolError(f"expected 1 to {MOST_CHANNELS} channels; got {channels!r}")
        if self._apart and channels != self._apart:
            raise base.ProtocolError(
                f"expected {self._apart} channels, as in the address, which keeps them apart; got {channels}"
            )
        if name not in SAMPLE_FORMATS:
            raise base.ProtocolError(f"expected a format among {', '.join(SAMPLE_FORMATS)}; got {name!r}")
        return AudioInput(name, rate=rate, channels=channels, channel=self.opening.channel)

    def _from_query(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Read settings from the address, which may have an API key, too."""
        if unknown := query.keys() - _PARAMETERS - {*base.KEYS}:
            names = ", ".join(messages.abbreviate(name) for name in sorted(unknown))
            raise base.ProtocolError(f"expected parameters among {', '.join(sorted(_PARAMETERS))}; got {names}")
        values: dict[str, Any] = {key: query[key] for key in query.keys() & _IN_QUERY}
        for key in values.keys() & {"rate", "channels", "speakers"}:
            values[key] = _number_in(values[key])
        for key in values.keys() & {"vad", "intents", "correct"}:
            switch = parse_switch(values[key])
            values[key] = values[key] if switch is None else switch
        for key in values.keys() & _LISTS:
            values[key] = [part for value in self.opening.lists[key] for part in value.split(",")]
        self._configure_format(values)
        settings = {key: value for key, value in values.items() if key in _SETTINGS}
        self._settings(settings)
        return settings

    def _settings(self, values: Mapping[str, Any]) -> base.Settings:
        """The settings of the session. Where channels are apart each is a speaker, and no voices are told apart."""
        settings = _settings(values)
        if self._apart and settings.speakers:
            raise base.ProtocolError("expected separate channels, one speaker each, or speakers; got both")
        return replace(settings, speakers=0) if self._apart else settings

    def _resume_from(self, data: Mapping[str, Any]) -> base.Resume:
        session = data.get("session")
        if not isinstance(session, str) or not session:
            raise base.ProtocolError(f'expected "session": the id of a session; got {session!r}')
        last = data.get("last_seq", -1)
        if isinstance(last, str):
            last = _number_in(last)
        return base.Resume(session, _whole({"last_seq": last}, "last_seq", least=-1))


def _reply(data: Mapping[str, Any]) -> base.Reply:
    return base.Reply(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def _number_in(text: str) -> int | str:
    """Parse a parameter of the address as a whole number; any other text is returned as it is."""
    return int(text) if _WHOLE.fullmatch(text) else text


def _whole(data: Mapping[str, Any], key: str, *, least: int = 0) -> int:
    value = data.get(key)
    # Up to what the numbers of JavaScript hold exactly.
    if not messages.is_whole(value) or not least <= value < 2**53:
        raise base.ProtocolError(f'expected "{key}" to be a whole number of at least {least}; got {value!r}')
    return value


def _settings(values: Mapping[str, Any]) -> base.Settings:
    """Check the types here; the server checks the values."""
    for key in ("model", "recipe", "language", "prompt", "task", "translate_to"):
        value = values.get(key)
        if not isinstance(value, str) and (value is not None or (key in ("prompt", "task") and key in values)):
            raise base.ProtocolError(f'expected "{key}" to be a string; got {value!r}')
    if not isinstance(values.get("vad"), bool | None):
        raise base.ProtocolError(f'expected "vad" to be true or false; got {values["vad"]!r}')
    for key in ("intents", "correct"):
        if not isinstance(values.get(key, False), bool):
            raise base.ProtocolError(f'expected "{key}" to be true or false; got {values[key]!r}')
    speakers = values.get("speakers")
    if speakers is not None and not (messages.is_whole(speakers) and 0 <= speakers <= MOST_SPEAKERS):
        raise base.ProtocolError(
            f'expected "speakers" to be a whole number from 0 to {MOST_SPEAKERS}; got {speakers!r}'
        )
    if not isinstance(values.get("changes", {}), dict):
        raise base.ProtocolError(f'expected "changes": {{field: value, ...}}; got {values["changes"]!r}')
    try:
        # Clients of this protocol mean our models, so an unknown name is a mistake.
        return base.Settings(strict_model=True, **{**values, "translate_to": values.get("translate_to") or None})
    except OptionError as error:
        raise base.ProtocolError(str(error)) from error
