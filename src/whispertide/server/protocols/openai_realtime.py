"""OpenAI's Realtime API, for transcription (`/v1/realtime?intent=transcription`; client.realtime in their SDK).

In: `session.update` (or the older `transcription_session.update`), `input_audio_buffer.append`, `.commit`, `.clear`.
Out: what their service sends for these, and `conversation.item.input_audio_transcription.delta` while the speaker is
still talking. Clients append deltas, so a delta has confirmed words only, and an item's deltas joined are its
transcript.

An item is an utterance if the server detects turns, otherwise what lies between two commits. The session starts with
the first audio, so that the settings which a client sends first can still shape it.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from whispertide.errors import OptionError
from whispertide.events import Confirmed, End, Error, Event, SpeechStart, SpeechStop, TurnEnd
from whispertide.server.protocols import base, messages
from whispertide.server.protocols.encodings import AudioInput
from whispertide.server.protocols.openai_appends import APPEND, Part, audio_of, in_parts
from whispertide.server.protocols.openai_session import RealtimeSession, default_session, describe_session
from whispertide.types import Word, seconds

_CHANGEABLE = ("language", "languages", "prompt", "keyterms")  # in a session that has begun
_TRANSCRIPTION = "conversation.item.input_audio_transcription"
# Client events of the conversational API that mean nothing here. They are refused by name, not as unknown.
_CONVERSATION = ("response.", "conversation.item.", "output_audio_buffer.")
DEFAULT_LIMIT_S = 60 * 60.0


@dataclass(slots=True)
class _Item:
    """One piece of the conversation: an utterance or what a client committed.

    announced  the client knows that it is committed
    awaited    whether the client committed it, so that it ends with the flush and not with an utterance
    logprobs   of the words, where the client asked for them
    """

    id: str
    previous: str | None
    start: int
    end: int = 0
    text: str = ""
    announced: bool = False
    awaited: bool = False
    logprobs: list[dict[str, Any]] = field(default_factory=list)


class OpenAIRealtimeProtocol(base.WireProtocol):
    """One transcription session."""

    name: ClassVar[str] = "openai-realtime"
    single: ClassVar[frozenset[str]] = frozenset({"model", "intent"})
    times: ClassVar[int] = 21

    def __init__(self, opening: base.Opening) -> None:
        super().__init__(opening)
        self.subprotocol = "realtime" if "realtime" in opening.subprotocols else None
        self._session = default_session(opening.query.get("model"))
        self._audio = _audio_input(self._session)
        self._items: deque[_Item] = deque()  # those whose transcript is not complete, oldest first
        self._count = self._sent = 0  # items and events so far
        self._last_id: str | None = None
        self._has_session = False
        self._received = 0
        self._uncommitted = 0  # samples since the last commit or clear
        self._overtime = ""  # what there is to say of it, once the session reached its longest length
        self._older = "realtime=v1" in opening.headers.get("openai-beta", "") or any(
            offered.startswith("openai-beta.realtime") for offered in opening.subprotocols
        )

    def opened(self) -> base.Actions:
        """Send the session with its defaults as the first event."""
        kind = "session.created"
        if self._older and self.opening.query.get("intent") == "transcription":
            kind = "transcription_session.created"
        return (self._say(kind, session=self._describe()),)

    # --- in ----------------------------------------------------------------------------------------------------------

    def pieces(self, message: str | bytes) -> Iterator[str | bytes]:
        return in_parts(message)

    def receive(self, message: str | bytes) -> base.Actions:
        """Take one client event. One that cannot be used is answered by an `error` event that names it."""
        if isinstance(message, Part):
            return self._hear(message)
        try:
            data = messages.json_object(message)
        except base.ProtocolError as error:
            return (self._error(str(error), code="invalid_json"),)
        try:
            return self._handle(data)
        except (base.ProtocolError, OptionError) as error:
            event_id = data.get("event_id")
            return (self._error(str(error), event_id=event_id if isinstance(event_id, str) else None),)

    def _handle(self, data: Mapping[str, Any]) -> base.Actions:
        handlers: dict[str, Callable[[Mapping[str, Any]], base.Actions]] = {
            "session.update": self._update,
            "transcription_session.update": self._update,
            APPEND: self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
        }
        kind = data.get("type")
        if isinstance(kind, str) and kind in handlers:
            return handlers[kind](data)
        if isinstance(kind, str) and kind.startswith(_CONVERSATION):
            raise base.ProtocolError(f"expected events of a transcription session; got {messages.abbreviate(kind)}")
        raise base.ProtocolError(f"expected type to be one of {', '.join(handlers)}; got {messages.abbreviate(kind)}")

    def _update(self, data: Mapping[str, Any]) -> base.Actions:
        """Change languages, prompt and keywords at once, the silence that ends a turn only before the first audio."""
        before = self._session
        session = before.updated(messages.mapping(data, "session"), self.opening.server)
        actions: list[base.Action] = []
        # What the old resampler holds belongs before the new audio.
        if (session.encoding, session.rate) != (before.encoding, before.rate):
            actions += self._rest()
            self._audio = _audio_input(session)
        settings, old = session.settings(self.opening.server), before.settings(self.opening.server)
        self._session = session
        changes = {name: getattr(settings, name) for name in _CHANGEABLE}
        if self._has_session and any(value != getattr(old, name) for name, value in changes.items()):
            actions.append(base.Configure(changes))
        if self._has_session and settings.changes != old.changes:
            actions.append(base.Configure({**settings.changes}))
        older = data.get("type") == "transcription_session.update"
        self._older = self._older or older
        kind = "transcription_session.updated" if older else "session.updated"
        return (*actions, self._say(kind, session=self._describe()))

    def _append(self, data: Mapping[str, Any]) -> base.Actions:
        return self._hear(audio_of(data))

    def _hear(self, raw: bytes) -> base.Actions:
        actions: list[base.Action] = self._start()
        samples = self._audio.feed(raw)
        self._uncommitted += len(samples)
        # Without detection of turns an item begins with its first audio.
        if self._session.detection is None and (not self._items or self._items[-1].announced):
            self._new_item(self._received)
        self._received += len(samples)
        # Also where the resampler keeps all of it for now: it is audio, and does not count as a message.
        return [*actions, base.Audio(samples)] if raw else actions

    def _start(self) -> list[base.Action]:
        if self._has_session:
            return []
        start = base.Start(self._session.settings(self.opening.server))
        self._has_session, self._session = True, self._session.begun()
        return [start]

    def _commit(self, data: Mapping[str, Any]) -> base.Actions:
        """End the item here, whatever the voice gate says. An open item is the one that is meant."""
        rest = self._rest()
        if not self._uncommitted:
            event_id = data.get("event_id")
            return (
                self._error(
                    "expected audio before input_audio_buffer.commit; the buffer is empty",
                    code="input_audio_buffer_commit_empty",
                    event_id=event_id if isinstance(event_id, str) else None,
                ),
            )
        self._uncommitted = 0
        item = self._items[-1] if self._items and not self._items[-1].announced else self._new_item(self._received)
        item.awaited = True
        item.end = self._received
        return (*rest, *self._announce(item), base.Flush())

    def _clear(self, data: Mapping[str, Any]) -> base.Actions:
        """Forget unconfirmed audio, also half a sample."""
        self._uncommitted = 0
        self._audio = _audio_input(self._session)
        if self._items and not self._items[-1].announced and not self._items[-1].text:
            self._items[-1].start = self._received  # what was forgotten is no part of it
        return (base.Clear(),) if self._has_session else (self._say("input_audio_buffer.cleared"),)

    def idle(self) -> base.Actions:
        """End the audio: their clients have no message for it."""
        return (*self._rest(), base.Finish())

    def _rest(self) -> base.Actions:
        """Flush the resampler, if a session is there to take the samples."""
        if not self._has_session:
            return ()
        samples = self._audio.drain()
        self._received += len(samples)
        self._uncommitted += len(samples)
        return messages.audio_actions(samples)

    # --- out ---------------------------------------------------------------------------------------------------------

    def events(self, events: Sequence[Event]) -> base.Actions:
        """Send deltas, and the beginnings and ends of items."""
        actions: list[base.Action] = []
        for event in events:
            match event:
                case SpeechStart(start=start):
                    actions += self._speech_started(start)
                case SpeechStop(end=end):
                    actions += self._speech_stopped(end)
                case Confirmed(words=words):
                    actions += self._delta(words)
                case TurnEnd(end=end, eager=False):
                    actions += self._turn_ended(end)
                case Error(message=message, fatal=fatal):
                    actions += self.problem(base.Problem("internal", message, fatal))
                    actions += [base.Close(1011)] if fatal else []
                case End():
                    actions += [*self._complete_all(), *self._end()]
        return actions

    def _end(self) -> base.Actions:
        """End the session. Their service has an error of its own for one that gets too long; no other end is one."""
        if not self._overtime:
            return (base.Close(),)
        return self._error(self._overtime, code="session_expired"), base.Close(1001, self._overtime)

    def _speech_started(self, start: int) -> list[base.Action]:
        goes_on = self._session.is_semantic and self._items and not self._items[0].awaited
        if self._session.detection is None or goes_on:
            return []  # the client commits, or the turn goes on after a pause
        item = self._items[0] if self._items else self._new_item(start)
        item.start = start if not item.text else item.start
        return [
            self._say("input_audio_buffer.speech_started", audio_start_ms=messages.milliseconds(start), item_id=item.id)
        ]

    def _speech_stopped(self, end: int) -> list[base.Action]:
        if self._session.detection is None or not self._items:
            return []
        item = self._items[0]
        item.end = max(end, item.end)
        return [] if self._session.is_semantic else self._stop(item, end)

    def _stop(self, item: _Item, end: int) -> list[base.Action]:
        """Send that nobody speaks any more, and that the item is committed."""
        stopped = self._say(
            "input_audio_buffer.speech_stopped", audio_end_ms=messages.milliseconds(end), item_id=item.id
        )
        return [stopped, *self._announce(item)]

    def _delta(self, words: Sequence[Word]) -> list[base.Action]:
        item = self._items[0] if self._items else self._new_item(words[0].start)
        text = "".join(word.text for word in words)
        # Clients join the deltas as they are, so only the first loses its leading space.
        text = text if item.text else text.lstrip()
        item.text += text
        item.end = max(item.end, words[-1].end)
        new = [_logprob(word) for word in words] if self._session.logprobs else []
        item.logprobs += new
        return [self._about(item, "delta", new, delta=text)]

    def _turn_ended(self, end: int) -> list[base.Action]:
        """End the item with its utterance, unless the client has ended it or has to."""
        if not self._items or self._items[0].awaited:
            return []
        if self._session.detection is None and not self._items[0].announced:
            return []
        item = self._items[0]
        item.end = max(item.end, end)
        stopped = self._stop(item, end) if self._session.is_semantic and not item.announced else []
        return [*stopped, *self._complete()]

    def flushed(self) -> base.Actions:
        """Report that the committed audio is transcribed."""
        actions: list[base.Action] = []
        if not any(item.awaited for item in self._items):
            return actions
        while not self._items[0].awaited:  # its utterance ended exactly where the client committed
            actions += self._complete()
        return [*actions, *self._complete()]

    def cleared(self) -> base.Actions:
        """Forget an utterance without confirmed words; one that was announced is closed, empty."""
        actions: list[base.Action] = []
        if self._session.detection is not None and self._items and not self._items[0].awaited:
            if self._items[0].announced or self._items[0].text:
                actions += self._complete()
            else:
                self._items.popleft()
        return (*actions, self._say("input_audio_buffer.cleared"))

    def problem(self, problem: base.Problem) -> base.Actions:
        """Send an `error` event; the transcript so far is completed before the session ends."""
        ours = problem.kind in ("internal", "overloaded", "shutdown")
        error = self._error(
            problem.message, code=problem.kind, kind="server_error" if ours else "invalid_request_error"
        )
        if not problem.fatal:
            self._overtime = problem.message if problem.kind == "too_long" else self._overtime
            return (error,)
        return (*(self._complete_all() if problem.kind != "internal" else self._fail(problem.message)), error)

    # --- items -------------------------------------------------------------------------------------------------------

    def _new_item(self, start: int) -> _Item:
        self._count += 1
        item = _Item(f"item_{self.opening.connection}_{self._count}", self._last_id, start)
        self._last_id = item.id
        self._items.append(item)
        return item

    def _announce(self, item: _Item) -> list[base.Action]:
        """Send once that the item is committed."""
        if item.announced:
            return []
        item.announced = True
        committed = self._say("input_audio_buffer.committed", item_id=item.id, previous_item_id=item.previous)
        content = {
            "id": item.id,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": None}],
        }
        kinds = ["created"] if self._older else ["added", "done"]
        updates = [
            self._say(f"conversation.item.{kind}", previous_item_id=item.previous, item=content) for kind in kinds
        ]
        return [committed, *updates]

    def _complete(self) -> list[base.Action]:
        """Complete the oldest item's transcript."""
        item = self._items[0]
        actions = self._announce(item)
        self._items.popleft()
        usage = {"type": "duration", "seconds": round(seconds(max(item.end - item.start, 0)), 3)}
        return [*actions, self._about(item, "completed", item.logprobs, transcript=item.text, usage=usage)]

    def _complete_all(self) -> list[base.Action]:
        """Complete all items at the end of a session."""
        actions: list[base.Action] = []
        while self._items:
            if self._items[0].text or self._items[0].announced:
                actions += self._complete()
            else:
                self._items.popleft()
        return actions

    def _fail(self, message: str) -> list[base.Action]:
        if not self._items:
            return []
        item = self._items.popleft()
        error = {"type": "transcription_error", "code": "internal", "message": message}
        return [
            *self._announce(item),
            self._say(f"{_TRANSCRIPTION}.failed", item_id=item.id, content_index=0, error=error),
        ]

    # --- events ------------------------------------------------------------------------------------------------------

    def _describe(self) -> dict[str, Any]:
        return describe_session(
            self._session,
            f"sess_{self.opening.connection}",
            self.opening.at + (self.opening.server.limit_s or DEFAULT_LIMIT_S),
            older=self._older,
        )

    def _about(self, item: _Item, what: str, logprobs: Sequence[dict[str, Any]], **values: Any) -> base.Reply:
        """Build an event of an item's transcript, with log probabilities if the client asked for them."""
        more: dict[str, Any] = {"logprobs": logprobs} if self._session.logprobs else {}
        return self._say(f"{_TRANSCRIPTION}.{what}", item_id=item.id, content_index=0, **values, **more)

    def _say(self, kind: str, **values: Any) -> base.Reply:
        self._sent += 1
        return messages.reply(type=kind, event_id=f"event_{self.opening.connection}_{self._sent}", **values)

    def _error(
        self,
        message: str,
        *,
        code: str = "invalid_value",
        kind: str = "invalid_request_error",
        event_id: str | None = None,
    ) -> base.Reply:
        error = {"type": kind, "code": code, "message": message, "param": None, "event_id": event_id}
        return self._say("error", error=error)


def _audio_input(session: RealtimeSession) -> AudioInput:
    return AudioInput(session.encoding, rate=session.rate)


def _logprob(word: Word) -> dict[str, Any]:
    return {
        "token": word.text,
        # A probability may be so small that it is rounded to 0, which has no logarithm.
        "logprob": round(math.log(max(word.probability, 1e-9)), 4),
        "bytes": list(word.text.encode()),
    }
