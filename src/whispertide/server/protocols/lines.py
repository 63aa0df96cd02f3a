"""Raw TCP as the servers of whisper_streaming and SimulStreaming speak it (their port: 43007).

In: 16-bit little-endian mono samples at 16 kHz, nothing else. Out: a line whenever words are confirmed: `beg end text`
in milliseconds (whisper_streaming, whisper_online_server.py), or a JSON object with times in seconds (SimulStreaming,
whisper_server.py). The end of the input ends the session; unlike the originals, the words that were not confirmed yet
are sent before the connection is closed.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from whispertide.events import Confirmed, End, Error, Event, TurnEnd
from whispertide.server.protocols import base, messages
from whispertide.server.protocols.encodings import AudioInput
from whispertide.types import SAMPLE_RATE, Word, seconds

_HTTP = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT|PRI) ")
_HEAD = 8  # bytes that tell


class TextLinesProtocol(base.WireProtocol):
    """`beg end text`, times in milliseconds; the texts of all lines joined are the transcript."""

    name: ClassVar[str] = "lines"

    def __init__(self, opening: base.Opening) -> None:
        super().__init__(opening)
        self._audio = AudioInput("s16le", rate=SAMPLE_RATE)
        self._ended = False
        self._head = b""

    def opened(self) -> base.Actions:
        """Begin the session with the connection, with the server's defaults."""
        return (base.Start(),)

    def receive(self, message: str | bytes) -> base.Actions:
        """Take samples; the two bytes of one may come apart. Raises `ProtocolError` for an HTTP request: any page in a
        browser can send one to this port.
        """
        data = message.encode() if isinstance(message, str) else message
        if len(self._head) < _HEAD:
            self._head += data[:_HEAD]
            if _HTTP.match(self._head):
                raise base.ProtocolError("expected samples; got an HTTP request", fatal=True)
        return messages.audio_actions(self._audio.feed(data))

    def closed(self) -> base.Actions:
        """End the audio: the rest of the words is still wanted."""
        return () if self._ended else (base.Finish(),)

    def events(self, events: Sequence[Event]) -> base.Actions:
        """Send one line for the confirmed words of each utterance."""
        actions: list[base.Action] = []
        words: list[Word] = []
        for event in events:
            if isinstance(event, Confirmed):
                words += event.words
            elif isinstance(event, TurnEnd) and not event.eager:
                actions += self._say(words, True, event.at)
                words = []
        actions += self._say(words, False, events[-1].at) if events else ()
        if any(isinstance(event, End) or (isinstance(event, Error) and event.fatal) for event in events):
            self._ended = True
            actions.append(base.Close())
        return actions

    def problem(self, problem: base.Problem) -> base.Actions:
        """Close the connection: the formats have no words for a problem."""
        return (base.Close(),) if problem.fatal else ()

    def _say(self, words: Sequence[Word], turn_ended: bool, at: int) -> base.Actions:
        line = self._line(words, turn_ended, seconds(at))
        return (base.Reply(line + "\n"),) if line else ()

    def _line(self, words: Sequence[Word], turn_ended: bool, at: float) -> str:
        """The line to send, or an empty one. The text keeps its leading space, as in the original."""
        if not words:
            return ""
        text = _one_line("".join(word.text for word in words))
        return f"{messages.milliseconds(words[0].start)} {messages.milliseconds(words[-1].end)} {text}"


class JsonLinesProtocol(TextLinesProtocol):
    """JSON objects with `start`, `end`, `text`, `words`, `is_final` (an utterance ended) and `emission_time`.

    The emission time is the audio that was processed by then, in seconds: the original's time without computation.
    """

    name: ClassVar[str] = "json-lines"

    def _line(self, words: Sequence[Word], turn_ended: bool, at: float) -> str:
        if not words and not turn_ended:
            return ""
        line: dict[str, Any] = {
            "start": seconds(words[0].start) if words else at,
            "end": seconds(words[-1].end) if words else at,
            "text": "".join(word.text for word in words),
            "words": [_json_word(word) for word in words],
            "is_final": turn_ended,
            "emission_time": at,
        }
        return json.dumps(line, ensure_ascii=False)


def _json_word(word: Word) -> dict[str, Any]:
    return {"start": seconds(word.start), "end": seconds(word.end), "text": word.text}


def _one_line(text: str) -> str:
    """`text` without line ends: the receiver's `str.splitlines` knows more of them than the line feed."""
    return " ".join(text.splitlines()) if text else ""
