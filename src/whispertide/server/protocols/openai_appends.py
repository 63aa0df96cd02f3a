"""The audio in OpenAI Realtime's `input_audio_buffer.append`, of which their clients may send 15 MiB at once."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from whispertide.server.protocols import messages
from whispertide.server.protocols.base import ProtocolError
from whispertide.server.protocols.encodings import PIECE

APPEND = "input_audio_buffer.append"
_LONG = 4 * (PIECE // 3)  # characters of base64, which are four for three bytes


class Part(bytes):
    """A part of the audio of a long append, decoded."""


def audio_of(append: Mapping[str, Any]) -> bytes:
    """Decode the audio. Raises `ProtocolError`."""
    audio = append.get("audio")
    if not isinstance(audio, str):
        raise ProtocolError(f"expected audio as base64 text; got {messages.abbreviate(audio)}")
    try:
        # Strictly: characters that are not base64 would otherwise be skipped in silence.
        return base64.b64decode(audio, validate=True)
    except ValueError as error:
        raise ProtocolError(f"expected audio as base64 text; got something else ({error})") from error


def in_parts(message: str | bytes) -> Iterator[str | bytes]:
    """Split the audio of a long append; any other message, also one that cannot be used, stays whole."""
    audio = _audio_of_long(message) if len(message) > _LONG else b""
    if audio:
        yield from (Part(audio[at : at + PIECE]) for at in range(0, len(audio), PIECE))
    else:
        yield message


def _audio_of_long(message: str | bytes) -> bytes:
    try:
        data = messages.json_object(message)
        return audio_of(data) if data.get("type") == APPEND else b""
    except ProtocolError:  # whoever takes the message says what is wrong with it
        return b""
