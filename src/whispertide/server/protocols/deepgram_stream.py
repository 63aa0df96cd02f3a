"""The common part of Deepgram's two versions: a stream's audio, its messages, and its end.

The audio is in the encoding of the address, or in a container without one.
"""

import uuid
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

from whispertide.server.protocols import base, messages
from whispertide.server.protocols.encodings import CONTAINED_PIECE, MARK_BYTES, AudioInput, container_of
from whispertide.types import seconds

# Their names -> ours and the rate if none is given. Without an encoding the stream is a container.
_ENCODINGS = {
    "linear16": ("s16le", 16_000),
    "linear32": ("s32le", 16_000),
    "mulaw": ("mulaw", 8_000),
    "alaw": ("alaw", 8_000),
    "opus": ("opus", 48_000),
    "ogg-opus": ("ogg-opus", 48_000),
}
BAD_AUDIO = base.Close(1008, "DATA-0000: the data cannot be decoded as audio")
FAILED = base.Close(1011, "NET-0000: the session failed")


class DeepgramStream(base.WireProtocol):
    """One live stream, whose messages have these `types`; that of the type `flush` asks for all that was said so far.

    Subclasses set `_settings` when they are made.
    """

    types: ClassVar[tuple[str, ...]]
    flush: ClassVar[str]
    _settings: base.Settings

    def __init__(self, opening: base.Opening) -> None:
        super().__init__(opening)
        # A browser's key comes as the second of two offered subprotocols; the first names its kind.
        self.subprotocol = next((name for name in opening.subprotocols if name in ("token", "bearer")), None)
        self._audio = DeepgramAudio(opening.query, opening.channel)
        # Of the connection's name, since a protocol has no dice of its own.
        self._request = str(uuid.uuid5(uuid.NAMESPACE_OID, opening.connection))
        self._flushing: deque[int] = deque()  # samples that had arrived with each `flush` that is not answered
        self._ending = False

    def opened(self) -> base.Actions:
        """Begin the session with the connection."""
        return (base.Start(self._settings),)

    @property
    def piece(self) -> int:
        """Audio may be cut anywhere, but for packets of Opus."""
        return self._audio.piece

    def receive(self, message: str | bytes) -> base.Actions:
        """Take audio, or one message. An empty binary message ends the stream, as it does there."""
        if self._ending:
            return ()
        if isinstance(message, bytes):
            return self._hear(message) if message else self._finish()
        data = messages.json_object(message)
        match data.get("type"):
            case "KeepAlive":  # of version 1; some clients send it in the other, too
                return ()
            case "CloseStream":
                return self._finish()
            case "Configure":
                return self._configure(data)
            case self.flush:
                rest = self._audio.rest()
                self._flushing.append(self._audio.given)
                return (*rest, base.Flush())
            case kind:
                raise base.ProtocolError(
                    f"expected a type among {', '.join(self.types)}; got {messages.abbreviate(kind)}"
                )

    def _hear(self, data: bytes) -> base.Actions:
        return self._audio.hear(data)

    def idle(self) -> base.Actions:
        """End as after a `CloseStream`."""
        return self._finish()

    def _finish(self) -> base.Actions:
        self._ending = True
        return (*self._audio.rest(), base.Finish())

    @abstractmethod
    def _configure(self, data: Mapping[str, Any]) -> base.Actions:
        """Change settings from now on."""


class DeepgramAudio:
    """The audio of one stream, whose address has this query; of several channels all, or one. Raises `ProtocolError`
    for an unknown encoding.
    """

    def __init__(self, query: Mapping[str, str], channel: int | None = None) -> None:
        self._input = _declared(query, channel)
        self._head = b""  # of a stream without a declared encoding, before it is known what it is

    @property
    def piece(self) -> int:
        """Bytes to be decoded at once (`WireProtocol.piece`): any, but for packets of Opus."""
        return CONTAINED_PIECE if self._input is None else self._input.piece

    @property
    def given(self) -> int:
        """Samples so far."""
        return 0 if self._input is None else self._input.given

    def hear(self, data: bytes) -> base.Actions:
        """Decode the next bytes."""
        if self._input is None:
            self._head += data
            if len(self._head) < MARK_BYTES:  # browsers send the first byte of a recording alone
                return ()
            self._input, data = _contained(self._head), self._head
        return messages.decode_audio(self._input, data)

    def rest(self) -> base.Actions:
        """What the resampler still holds."""
        return () if self._input is None else messages.audio_actions(self._input.drain())


def _declared(query: Mapping[str, str], channel: int | None) -> AudioInput | None:
    """The decoder of the audio, or None if the first bytes have to tell."""
    encoding, stated = query.get("encoding"), query.get("sample_rate")
    channels = messages.whole(query, "channels", 1)
    if not encoding and not stated:
        return None
    name, usual = _ENCODINGS[messages.one_of(encoding or "linear16", _ENCODINGS, "encoding")]
    rate = messages.whole(query, "sample_rate", usual)
    return messages.audio_input(name, rate=rate, channels=channels, channel=channel)


def _contained(data: bytes) -> AudioInput:
    """Make the input for a stream without a declared encoding: a container of Opus."""
    if encoding := container_of(data):
        return AudioInput(encoding)
    raise base.ProtocolError(
        "expected Opus in WebM or Ogg, or encoding=linear16 (or mulaw, alaw, opus) and sample_rate in the address; "
        f"got {len(data)} bytes of something else",
        fatal=True,
    )


def rounded(samples: int) -> float:
    """The seconds of so many samples, to the millisecond."""
    return round(seconds(samples), 3)
