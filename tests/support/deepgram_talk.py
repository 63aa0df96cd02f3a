"""Conversations in Deepgram's protocol, for the tests."""

from typing import Any

from whispertide.server.protocols.deepgram import DeepgramProtocol
from whispertide.types import Word
from wire_conversation import Conversation, opening

RAW = {"encoding": "linear16", "sample_rate": "16000"}


def listen(words: tuple[Word, ...] = (), seed: int = 0, **query: Any) -> Conversation:
    return Conversation(DeepgramProtocol(opening(**{**RAW, **query})), words, seed)


def results(talk: Conversation, **wanted: bool) -> list[dict[str, Any]]:
    return [result for result in talk.json("Results") if all(result[name] == value for name, value in wanted.items())]


def transcript(result: dict[str, Any]) -> str:
    text = result["channel"]["alternatives"][0]["transcript"]
    assert isinstance(text, str)
    return text


def final_text(talk: Conversation) -> str:
    return " ".join(filter(None, map(transcript, results(talk, is_final=True))))
