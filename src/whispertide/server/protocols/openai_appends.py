"""The audio in OpenAI Realtime's `input_audio_buffer.append`, of which their clients may send 15 MiB at once."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from whispertide.server.protocols import messages
from whispertide.server.protocols.base import ProtocolError
from whispertide.server.protocols.encodings import PIECE

APPEND = "input_audio_buffer.append"
_PART = 4 * (PIECE // 3)  # characters of base64, which are four for three bytes


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
    """Split a long append into shorter ones; any other message, also one that cannot be used, stays whole."""
    if len(message) > _PART:
        try:
            data = messages.json_object(message)
            if data.get("type") == APPEND and audio_of(data):
                yield from (json.dumps({**data, "audio": part}) for part in _cut(data["audio"]))
                return
        except ProtocolError:
            pass  # whoever takes the message says what is wrong with it
    yield message


def _cut(audio: str) -> Iterator[str]:
    return (audio[at : at + _PART] for at in range(0, len(audio), _PART))
