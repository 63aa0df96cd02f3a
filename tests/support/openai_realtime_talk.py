"""Conversations in OpenAI's Realtime protocol, for the tests."""

import base64
from dataclasses import replace
from typing import Any

from whispertide.server.protocols.openai_realtime import OpenAIRealtimeProtocol
from whispertide.types import Word
from wire_conversation import Conversation, opening

DELTA = "conversation.item.input_audio_transcription.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"


COMMIT, CLEAR = {"type": "input_audio_buffer.commit"}, {"type": "input_audio_buffer.clear"}
MANUAL = {"type": "session.update", "session": {"type": "transcription", "audio": {"input": {"turn_detection": None}}}}


def connect(words: tuple[Word, ...] = (), seed: int = 0, *, older: bool = False, **query: Any) -> Conversation:
    start = opening(**{"intent": "transcription", **query})
    if older:
        start = replace(start, headers={"openai-beta": "realtime=v1"})
    return Conversation(OpenAIRealtimeProtocol(start), words, seed)


def append(duration_s: float, rate: int = 24_000, width: int = 2) -> dict[str, Any]:
    raw = bytes(round(duration_s * rate) * width)
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(raw).decode()}


def update(**session: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": {"type": "transcription", **session}}


def current(**values: Any) -> dict[str, Any]:
    return update(audio={"input": values})


def errors(talk: Conversation) -> list[dict[str, Any]]:
    return [reply["error"] for reply in talk.json("error")]


def completed(talk: Conversation) -> list[str]:
    return [reply["transcript"] for reply in talk.json(COMPLETED)]


def deltas(talk: Conversation) -> dict[str, str]:
    """What a client has that appends the deltas of each item."""
    texts: dict[str, str] = {}
    for reply in talk.json(DELTA):
        texts[reply["item_id"]] = texts.get(reply["item_id"], "") + reply["delta"]
    return texts
