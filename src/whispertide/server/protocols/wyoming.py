"""Speech to text over Wyoming, the protocol of Home Assistant's voice services (rhasspy/wyoming; port 10300).

A frame is one event: a JSON line with `type` and perhaps `data`, `data_length` and `payload_length`; then that many
bytes of JSON, merged into `data`, and that many bytes of payload (README and event.py there).

In: `describe`, `transcribe`, `audio-start`, `audio-chunk` and `audio-stop`. Out: `info`, and for every stretch between
start and stop `transcript-start`, a `transcript-chunk` whenever words are confirmed, `transcript` and
`transcript-stop`. A connection may carry any number of stretches; the utterances in one are one transcript.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from whispertide.errors import AudioError, OptionError
from whispertide.events import Confirmed, End, Error, Event, Language
from whispertide.server.protocols import base, messages
from whispertide.server.protocols.encodings import PIECE, AudioInput
from whispertide.server.protocols.messages import abbreviate, is_whole, parse_json
from whispertide.server.protocols.server_info import ServerInfo

MAX_LINE = 64 * 1024  # what asyncio's streams, hence the reference implementation, take for a line
_MAX_DATA = 1 << 20
_MAX_PAYLOAD = 4 << 20  # clients send some kilobytes
AUDIO = "audio-chunk"
VERSION = "1.10.2"  # of the protocol's reference implementation, whose events are spoken here


@dataclass(frozen=True, slots=True)
class Frame:
    """One event: its type, its data and its payload in bytes (audio)."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""


def encode(frame: Frame) -> bytes:
    """Encode a frame, as the reference implementation does."""
    header: dict[str, Any] = {"type": frame.type, "version": VERSION}
    data = json.dumps(frame.data, ensure_ascii=False).encode() if frame.data else b""
    if data:
        header["data_length"] = len(data)
    if frame.payload:
        header["payload_length"] = len(frame.payload)
    return json.dumps(header).encode() + b"\n" + data + frame.payload


@dataclass(frozen=True, slots=True)
class _Header:
    """The line that a frame begins with, and the positions where it, the data and the payload end in the buffer."""

    type: str
    data: dict[str, Any]
    line: int
    start: int
    stop: int


@dataclass(slots=True)
class FrameReader:
    """Parses bytes to frames. After an `OptionError` the stream is out of step and has to be closed.

    A long audio chunk is given as several, as its payload comes: nobody has to decode all of it at once.
    """

    _waiting: bytearray = field(default_factory=bytearray)
    _header: _Header | None = None  # of the frame that is not whole

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take the next bytes; yields the frames that are complete.

        Raises `OptionError` for what cannot be a frame, and for lengths that no client needs.
        """
        self._waiting += data
        while (frame := self._next()) is not None:
            yield frame

    @property
    def is_amid(self) -> bool:
        """True if a frame has begun and is not complete."""
        return bool(self._waiting) or self._header is not None

    def _next(self) -> Frame | None:
        # Kept while the rest is missing, so that it is not parsed again with every piece of a long payload.
        self._header = header = self._header or self._read_header()
        if header is None:
            return None
        stop = header.stop if header.type != AUDIO else min(header.stop, header.start + PIECE)
        if len(self._waiting) < stop:
            return None
        data = header.data
        if header.start > header.line:
            rest = bytes(self._waiting[header.line : header.start])
            data = {**data, **_mapping(rest, "a JSON object as data")}
        frame = Frame(header.type, data, bytes(self._waiting[header.start : stop]))
        del self._waiting[:stop]
        self._header = _Header(header.type, data, 0, 0, header.stop - stop) if stop < header.stop else None
        return frame

    def _read_header(self) -> _Header | None:
        end = self._waiting.find(b"\n", 0, MAX_LINE)
        if end < 0:
            if len(self._waiting) >= MAX_LINE:
                raise OptionError(f"expected a JSON line of at most {MAX_LINE} bytes; got no line end")
            return None
        values = _mapping(bytes(self._waiting[:end]), "a JSON object")
        data_length = _length(values, "data_length", _MAX_DATA)
        payload_length = _length(values, "payload_length", _MAX_PAYLOAD)
        kind, data = values.get("type"), values.get("data") or {}
        if not isinstance(kind, str) or not isinstance(data, dict):
            raise OptionError(f"expected an event with a type and an object as data; got {abbreviate(values)}")
        start = end + 1 + data_length
        return _Header(kind, data, end + 1, start, start + payload_length)


def _mapping(raw: bytes, what: str) -> dict[str, Any]:
    try:
        value = parse_json(raw)
    except ValueError:
        value = raw.decode("utf-8", "replace")
    if not isinstance(value, dict):
        raise OptionError(f"expected {what}; got {abbreviate(value)}")
    return value


def _length(header: dict[str, Any], name: str, limit: int) -> int:
    value = header.get(name)
    if value is None:
        return 0
    if not is_whole(value) or not 0 <= value <= limit:
        raise OptionError(f"expected {name} between 0 and {limit}; got {abbreviate(value)}")
    return value


_PIECE = 2048  # bytes: 64 ms of audio at 16 kHz, or a hundred of the shortest events
_WIDTHS = {1: "u8", 2: "s16le", 4: "s32le"}
_OTHER_SERVICES = ("tts", "handle", "intent", "wake", "mic", "snd")
_ABOUT = {"name": "OpenAI Whisper", "url": "https://github.com/openai/whisper"}


class WyomingProtocol(base.WireProtocol):
    """One connection of a Wyoming client."""

    name: ClassVar[str] = "wyoming"

    def __init__(self, opening: base.Opening) -> None:
        super().__init__(opening)
        self._frames = FrameReader()
        self._completed = False  # a frame, by what came last
        self._settings = base.Settings()
        self._audio: AudioInput | None = None  # while a stretch is open
        self._format: tuple[int, int, int] | None = None
        self._has_session = False
        self._language: str | None = None
        self._text: list[str] | None = None  # the chunks of the transcript that is being written

    @property
    def piece(self) -> int:
        """Small, so that a flood of events is noticed before many are answered."""
        return _PIECE

    def receive(self, message: str | bytes) -> base.Actions:
        """Take bytes, cut anywhere. A stream that is out of step ends."""
        actions: list[base.Action] = []
        self._completed, self.fruitless = False, 0
        try:
            for frame in self._frames.feed(message.encode() if isinstance(message, str) else message):
                self._completed = True
                new = self._handle(frame)
                # Audio may stay in the resampler for now.
                self.fruitless += not new and not (frame.type == AUDIO and frame.payload)
                actions += new
        except OptionError as error:
            actions += [_error("bad_request", str(error)), base.Close()]
        return actions

    @property
    def is_amid(self) -> bool:
        """True if a frame has begun and is not complete, and the newest bytes completed none before it."""
        return self._frames.is_amid and not self._completed

    def _handle(self, frame: Frame) -> base.Actions:
        try:
            match frame.type:
                case "describe":
                    return (_info(self.opening.server),)
                case "ping":
                    return (_say("pong", {"text": messages.text(frame.data, "text")}),)
                case "transcribe":
                    return self._transcribe(frame.data)
                case "audio-start":
                    return self._listen(frame.data)
                case "audio-chunk":
                    return self._hear(frame)
                case "audio-stop":
                    return self._stop()
        except (base.ProtocolError, AudioError, OptionError) as error:
            return (_error("bad_request", str(error)),)
        return ()  # the reference implementation's servers drop what they do not know

    def _transcribe(self, data: Mapping[str, Any]) -> base.Actions:
        """Take the settings of the next stretches. The model is that of the first one."""
        language = messages.language(messages.text(data, "language"), self.opening.server)
        names = messages.texts(data.get("transcript_names"), "transcript_names")
        terms = messages.texts(data.get("transcript_terms"), "transcript_terms")
        keyterms = messages.keyterms([*names, *terms])
        before, self._settings = (
            self._settings,
            base.Settings(model=messages.text(data, "name"), language=language, keyterms=keyterms),
        )
        if not self._has_session or (before.language, before.keyterms) == (language, keyterms):
            return ()
        return (base.Configure({"language": language, "keyterms": keyterms}),)

    def _listen(self, data: Mapping[str, Any]) -> base.Actions:
        """Begin a stretch; an open one goes on, perhaps in another format."""
        form = (messages.whole(data, "rate", 0), messages.whole(data, "width", 0), messages.whole(data, "channels", 0))
        if form == self._format and self._audio is not None:
            return ()
        if form[1] not in _WIDTHS:
            raise base.ProtocolError(f"expected audio with a width of 1, 2 or 4 bytes; got {form[1]}")
        audio = AudioInput(_WIDTHS[form[1]], rate=form[0], channels=form[2])
        # What the old resampler holds belongs before the new audio.
        rest = self._rest()
        self._format, self._audio = form, audio
        if self._has_session:
            return rest
        self._has_session = True
        return (base.Start(self._settings),)

    def _hear(self, frame: Frame) -> base.Actions:
        """Take audio; a chunk has its format as well, so a client may do without `audio-start`."""
        actions = self._listen(frame.data)
        assert self._audio is not None
        return (*actions, *messages.audio_actions(self._audio.feed(frame.payload)))

    def _stop(self) -> base.Actions:
        """End the stretch; every stop is answered by a transcript, be it empty."""
        actions: list[base.Action] = [] if self._has_session else [base.Start(self._settings)]
        self._has_session = True
        actions += self._rest()
        self._audio = None
        return (*actions, base.Flush())

    def _rest(self) -> base.Actions:
        """Flush the resampler of the open stretch."""
        return () if self._audio is None else messages.audio_actions(self._audio.drain())

    def started(self, started: base.Started) -> base.Actions:
        """Keep the language, which goes into the transcripts."""
        self._language = started.language
        return ()

    def events(self, events: Sequence[Event]) -> base.Actions:
        """Send confirmed words as chunks; joined, they are the transcript."""
        actions: list[base.Action] = []
        for event in events:
            if isinstance(event, Confirmed):
                text = "".join(word.text for word in event.words)
                if self._text is None:
                    self._text, text = [], text.lstrip()
                    actions.append(_say("transcript-start", self._with_language()))
                self._text.append(text)
                actions.append(_say("transcript-chunk", {"text": text}))
            elif isinstance(event, Language):
                self._language = event.language
            elif isinstance(event, Error):
                actions += self.problem(base.Problem("internal", event.message, event.fatal))
                actions += [base.Close()] if event.fatal else []
            elif isinstance(event, End):
                actions += [*(self._transcript() if self._text else ()), base.Close()]
        return actions

    def flushed(self) -> base.Actions:
        """Send the transcript of the stretch."""
        return self._transcript()

    def problem(self, problem: base.Problem) -> base.Actions:
        """Send an error event, after the transcript so far."""
        rest = self._transcript() if problem.fatal and self._text else ()
        return (*rest, _error(problem.kind, problem.message))

    def idle(self) -> base.Actions:
        """Transcribe an open stretch to its end."""
        return (*self._rest(), base.Finish())

    def closed(self) -> base.Actions:
        """The same: the client may still read."""
        return self.idle() if self._has_session else (base.Close(),)

    def _transcript(self) -> base.Actions:
        start = [] if self._text is not None else [_say("transcript-start", self._with_language())]
        text, self._text = "".join(self._text or ()), None
        return (*start, _say("transcript", {"text": text, **self._with_language()}), _say("transcript-stop"))

    def _with_language(self) -> dict[str, Any]:
        return {} if self._language is None else {"language": self._language}


def describe(server: ServerInfo) -> dict[str, Any]:
    """Describe one speech-to-text service with the models that are served: the data of the `info` event."""
    return {
        "asr": [
            {
                "name": "whispertide",
                "description": "Live speech to text with Whisper models",
                "attribution": _ABOUT,
                "installed": True,
                "version": server.version,
                "supports_transcript_streaming": True,
                "models": [
                    {
                        "name": model.name,
                        "description": model.name,
                        "attribution": _ABOUT,
                        "installed": True,
                        "version": None,
                        "languages": list(model.languages),
                    }
                    for model in server.models
                ],
            }
        ],
        **{service: [] for service in _OTHER_SERVICES},
    }


@lru_cache(maxsize=4)
def _info(server: ServerInfo) -> base.Reply:
    """Build the `info` event once: it takes longer to write than the question to read."""
    return _say("info", describe(server))


def _say(kind: str, data: Mapping[str, Any] | None = None) -> base.Reply:
    return base.Reply(encode(Frame(kind, dict(data or {}))))


def _error(code: str, text: str) -> base.Reply:
    return _say("error", {"text": text, "code": code})
