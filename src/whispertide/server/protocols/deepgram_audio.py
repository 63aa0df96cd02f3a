"""The audio of Deepgram's streams, in both versions: in the encoding of the address, or in a container without one."""

from collections.abc import Mapping

from whispertide.server.protocols import base, messages
from whispertide.server.protocols.encodings import CONTAINED_PIECE, MARK_BYTES, AudioInput, container_of

# Their names -> ours and the rate if none is given. Without an encoding the stream is a container.
_ENCODINGS = {
    "linear16": ("s16le", 16_000),
    "linear32": ("s32le", 16_000),
    "mulaw": ("mulaw", 8_000),
    "alaw": ("alaw", 8_000),
    "opus": ("opus", 48_000),
    "ogg-opus": ("ogg-opus", 48_000),
}


class DeepgramAudio:
    """The audio of one stream, whose address has this query. Raises `ProtocolError` for an unknown encoding."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self._input = _declared(query)
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


def _declared(query: Mapping[str, str]) -> AudioInput | None:
    """The decoder of the audio, or None if the first bytes have to tell."""
    encoding, rate = query.get("encoding"), query.get("sample_rate")
    channels = messages.whole(query, "channels", 1)
    if not encoding and not rate:
        return None
    if (encoding or "linear16") not in _ENCODINGS:
        raise base.ProtocolError(
            f"expected encoding to be one of {', '.join(_ENCODINGS)}; got {messages.abbreviate(encoding)}"
        )
    name, usual = _ENCODINGS[encoding or "linear16"]
    return messages.audio_input(name, rate=messages.whole(query, "sample_rate", usual), channels=channels)


def _contained(data: bytes) -> AudioInput:
    """Make the input for a stream without a declared encoding: a container of Opus."""
    if encoding := container_of(data):
        return AudioInput(encoding)
    raise base.ProtocolError(
        "expected Opus in WebM or Ogg, or encoding=linear16 (or mulaw, alaw, opus) and sample_rate in the address; "
        f"got {len(data)} bytes of something else",
        fatal=True,
    )
