"""AssemblyAI's streaming API, version 3 (`/v3/ws`; assemblyai.streaming.v3 in their Python SDK).

In: binary audio in the encoding of the address, and JSON: `UpdateConfiguration`, `ForceEndpoint`, `KeepAlive`,
`Terminate`. Out: `Begin`, `Turn` whenever words are confirmed or guessed anew, `Termination`. A turn's `transcript` has
the confirmed words only, `words` also the guessed ones with `word_is_final` false; times are milliseconds.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from whispertide.checkpoint.languages import DETECT
from whispertide.events import Confirmed, End, Error, Event, Hypothesis, SpeechStart, TurnEnd
from whispertide.server.protocols import base, messages
from whispertide.types import SAMPLE_RATE, Word, join_words, seconds

_ENCODINGS = {"pcm_s16le": "s16le", "pcm_mulaw": "mulaw", "opus": "opus", "ogg_opus": "ogg-opus"}
# Their error codes (RealTimeErrorCodes in the SDK)
_CODES: Mapping[base.ProblemKind, int] = {"too_fast": 3007, "too_long": 3008, "overloaded": 3009, "internal": 3005}
_INVALID = 3006
# The parameters that have an effect. Turns are formatted, and come in part, without being asked for.
_DONE = frozenset(
    {"encoding", "sample_rate", "speech_model", "prompt", "keyterms_prompt", "language_code", "language_codes"}
    | {"min_turn_silence", "min_end_of_turn_silence_when_confident", "format_turns"}
    | {"continuous_partials", "include_partial_turns", "inactivity_timeout"}
)
_VOICES = frozenset({"speaker_labels", "max_speakers"})  # where there is a network for them
_LISTS = frozenset({"keyterms_prompt", "language_codes"})
_DONE_LATER = frozenset({"type", "prompt", "keyterms_prompt", "language_code", "language_codes", "format_turns"})
DEFAULT_LIMIT_S = 3 * 60 * 60.0
_IDLE_S = (5, 3600)
_TELLING = ("u3", "universal-3")  # what the names of the models begin with that send `SpeechStarted`


class AssemblyAIProtocol(base.WireProtocol):
    """One streaming session."""

    name: ClassVar[str] = "assemblyai"
    single: ClassVar[frozenset[str]] = (_DONE | _VOICES) - _LISTS

    def __init__(self, opening: base.Opening) -> None:
        super().__init__(opening)
        query = opening.query
        encoding = messages.one_of(query.get("encoding") or "pcm_s16le", _ENCODINGS, "encoding")
        if "opus" not in encoding and not query.get("sample_rate"):
            raise base.ProtocolError(f"expected a sample_rate for {encoding}; got none")
        rate = messages.whole(query, "sample_rate", SAMPLE_RATE)
        self._audio = messages.audio_input(_ENCODINGS[encoding], rate=rate)
        self._settings = self._read_settings(query)
        self.idle_s = _idle_s(query)
        self._tells_speech = query.get("speech_model", "").startswith(_TELLING)
        self._speaks = False  # somebody, in the open turn, and the client knows
        self._turn = 0
        self._words: list[Word] = []
        self._guess: tuple[Word, ...] = ()
        self._ending = False
        self._limit: base.Problem | None = None  # the session's, which it reached

    def opened(self) -> base.Actions:
        """Begin the session with the connection."""
        return (base.Start(self._settings),)

    def started(self, started: base.Started) -> base.Actions:
        """Greet the client, with the time until which the session may last."""
        expires = self.opening.at + (self.opening.server.limit_s or DEFAULT_LIMIT_S)
        model = {"model": started.model, "api_version": "v3"}
        begin = messages.reply(type="Begin", id=self.opening.connection, expires_at=int(expires), configuration=model)
        done = _DONE | _VOICES if self.opening.server.hears_speakers else _DONE
        return (begin, *_warning(self.opening.query, done))

    @property
    def piece(self) -> int:
        """Audio may be cut anywhere, but for packets of Opus."""
        return self._audio.piece

    def receive(self, message: str | bytes) -> base.Actions:
        """Audio, or one message."""
        if self._ending:
            return ()
        if isinstance(message, bytes):
            return messages.decode_audio(self._audio, message)
        data = messages.json_object(message)
        match data.get("type"):
            case "KeepAlive":
                return ()
            case "ForceEndpoint":
                return (*self._rest(), base.Flush())
            case "UpdateConfiguration":
                changes = self._changes(data)
                return (*([base.Configure(changes)] if changes else ()), *_warning(data, _DONE_LATER))
            case "Terminate":
                return self._finish()
            case kind:
                raise base.ProtocolError(
                    "expected a type among KeepAlive, ForceEndpoint, UpdateConfiguration, Terminate; "
                    f"got {messages.abbreviate(kind)}"
                )

    def idle(self) -> base.Actions:
        """End as after a `Terminate`."""
        return self._finish()

    def _finish(self) -> base.Actions:
        self._ending = True
        return (*self._rest(), base.Finish())

    def _rest(self) -> base.Actions:
        return messages.audio_actions(self._audio.drain())

    def events(self, events: Sequence[Event]) -> base.Actions:
        """Send one `Turn` for all that changed, and one for every turn that ended."""
        actions: list[base.Action] = []
        changed = False
        for event in events:
            if isinstance(event, Confirmed):
                self._words += event.words
                is_long = messages.is_long_turn(self._words)
                actions += self._end_turn() if is_long else ()
                changed = not is_long
            elif isinstance(event, Hypothesis):
                self._guess, changed = event.words, True
            elif isinstance(event, SpeechStart):
                actions += self._speech(event.start)
            elif isinstance(event, TurnEnd) and not event.eager:
                actions += self._end_turn()
                changed = False
            elif isinstance(event, Error):
                actions += self.problem(base.Problem("internal", event.message, event.fatal))
                changed = changed and not event.fatal
            elif isinstance(event, End):
                actions += self._end_turn()
                actions += [self._termination(), base.Close()] if self._limit is None else self._failure(self._limit)
                changed = False
        if changed and (self._words or self._guess):
            actions.append(self._say_turn(end_of_turn=False))
        return actions

    def problem(self, problem: base.Problem) -> base.Actions:
        """Send a `Warning` for problems that are not fatal: their clients end on an `Error`."""
        if not problem.fatal:
            self._limit = problem if problem.kind == "too_long" else self._limit
            return (messages.reply(type="Warning", warning_code=_INVALID, warning=problem.message),)
        last = self._end_turn()
        if problem.kind == "shutdown":
            return (*last, self._termination())
        return (*last, *self._failure(problem))

    def _speech(self, start: int) -> list[base.Action]:
        """Send once in a turn that somebody speaks: it may go on after a pause."""
        if self._speaks or not self._tells_speech:
            return []
        self._speaks = True
        return [messages.reply(type="SpeechStarted", timestamp=messages.milliseconds(start))]

    def _end_turn(self) -> list[base.Action]:
        """End the turn; one without words, such as a cough, is left out."""
        self._guess, self._speaks = (), False
        if not self._words:
            return []
        turn = self._say_turn(end_of_turn=True)
        self._turn, self._words = self._turn + 1, []
        return [turn]

    def _say_turn(self, *, end_of_turn: bool) -> base.Reply:
        text = join_words(self._words)
        words = [*(_word(word, True) for word in self._words), *(_word(word, False) for word in self._guess)]
        return messages.reply(
            type="Turn",
            turn_order=self._turn,
            turn_is_formatted=end_of_turn,
            end_of_turn=end_of_turn,
            transcript=text,
            utterance=text if end_of_turn else "",
            end_of_turn_confidence=1.0 if end_of_turn else 0.0,
            words=words,
            **_label("speaker_label", _most_of([*self._words, *self._guess])),
        )

    def _failure(self, problem: base.Problem) -> base.Actions:
        """The last messages of a session that failed."""
        code = _CODES.get(problem.kind, _INVALID)
        return messages.reply(type="Error", error_code=code, error=problem.message), base.Close(code, problem.kind)

    def _termination(self) -> base.Reply:
        """Report the audio's duration as the session's: there is no clock here, and live audio comes in real time."""
        duration = round(seconds(self._audio.given))
        return messages.reply(type="Termination", audio_duration_seconds=duration, session_duration_seconds=duration)

    def _read_settings(self, query: Mapping[str, str]) -> base.Settings:
        values: dict[str, Any] = dict(query)
        for name in values.keys() & _LISTS:
            values[name] = [text for value in self.opening.lists[name] for text in _list_in_query(value)]
        changes = self._changes(values)
        silence = messages.number(values, "min_turn_silence")
        if silence is None:
            silence = messages.number(values, "min_end_of_turn_silence_when_confident")
        return base.Settings(
            model=values.get("speech_model"),
            **changes,
            changes=messages.pause(silence),
            speakers=messages.speakers(query, "speaker_labels", self.opening.server, "max_speakers"),
        )

    def _changes(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that can change while a session runs: the prompt, the key terms and the languages."""
        changes: dict[str, Any] = {}
        if values.get("prompt") is not None:
            changes["prompt"] = messages.prompt(messages.text(values, "prompt"))
        if values.get("keyterms_prompt") is not None:
            changes["keyterms"] = messages.keyterms(messages.texts(values["keyterms_prompt"], "keyterms_prompt"))
        codes = messages.texts(values.get("language_codes"), "language_codes")
        tag = codes[0] if len(codes) == 1 else messages.text(values, "language_code")
        if tag is not None or len(codes) > 1:
            changes["language"] = messages.language(tag, self.opening.server) if tag else DETECT
        if len(codes) > 1:
            changes["languages"] = messages.languages(codes, self.opening.server)
        return changes


def _idle_s(query: Mapping[str, str]) -> float | None:
    value = messages.number(query, "inactivity_timeout")
    least, most = _IDLE_S
    if value is not None and not (least <= value <= most and value == int(value)):
        raise base.ProtocolError(f"expected inactivity_timeout as whole seconds from {least} to {most}; got {value:g}")
    return value


def _warning(values: Mapping[str, Any], done: Collection[str]) -> base.Actions:
    """Warn of what is asked for and not done."""
    text = messages.warning(messages.without_effect(values, done))
    return (messages.reply(type="Warning", warning_code=_INVALID, warning=text),) if text else ()


def _list_in_query(value: str) -> list[Any]:
    """Parse a list as their SDK writes it (JSON); any other text is one of its values."""
    try:
        items = messages.parse_json(value)
    except ValueError:
        items = None
    return items if isinstance(items, list) else [value]


def _most_of(words: Sequence[Word]) -> int | None:
    """The voice of most words; None: no word has one."""
    counted = Counter(word.speaker for word in words if word.speaker is not None)
    return counted.most_common(1)[0][0] if counted else None


def _label(name: str, speaker: int | None) -> dict[str, str]:
    return {} if speaker is None else {name: messages.letter(speaker)}


def _word(word: Word, is_final: bool) -> dict[str, Any]:
    return {
        "text": word.text.strip(),
        "start": messages.milliseconds(word.start),
        "end": messages.milliseconds(word.end),
        "confidence": round(word.probability, 4),
        "word_is_final": is_final,
        **_label("speaker", word.speaker),
    }
