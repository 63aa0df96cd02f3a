"""WhisperLive's WebSocket protocol (collabora/WhisperLive, client.py and server.py; its port: 9090).

In: one JSON text frame with the client's `uid` and options, then binary float32 samples at 16 kHz (`audio_format` says
"int16" or "uint8" otherwise) and at last the bytes `END_OF_AUDIO`. Out: `SERVER_READY`, then lists of the newest
segments, of which all but the last are completed. A segment ends with its utterance, its sentence or after 10 s; words
that are only guessed are shown in the last one until then.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from whispertide.events import Confirmed, End, Error, Event, Hypothesis, Language, TurnEnd
from whispertide.options import TASKS, Task
from whispertide.punctuation import ends_sentence
from whispertide.server.protocols import base, messages
from whispertide.server.protocols.encodings import AudioInput
from whispertide.types import SAMPLE_RATE, Word, seconds, to_samples

END_OF_AUDIO = b"END_OF_AUDIO"
# The client saves segments only if the backend has this name.
_BACKEND = "faster_whisper"
_LONGEST_SEGMENT = to_samples(10)
_MOST_SEGMENTS = 100
_WAIT_MINUTES = 1.0  # what a client is told that finds no room

# The options that have an effect, or only with another one, or that older clients send and no server reads.
_DONE = frozenset(
    {"uid", "language", "task", "model", "use_vad", "initial_prompt", "hotwords", "send_last_n_segments"}
    | {"word_timestamps", "audio_format", "vad_parameters"}
    | {"target_language", "max_speakers", "max_clients", "max_connection_time"}
)
# What the client sends where its user asks for nothing.
_UNASKED = {"no_speech_thresh": 0.45, "same_output_threshold": 10}

_FORMATS = {"float32": ("f32le", 4), "int16": ("s16le", 2), "uint8": ("u8", 1)}  # our name, and bytes a sample


class WhisperLiveProtocol(base.WireProtocol):
    """One client of WhisperLive."""

    name: ClassVar[str] = "whisperlive"

    def __init__(self, opening: base.Opening) -> None:
        super().__init__(opening)
        self._uid: str | None = None
        self._format = "float32"
        self._audio = AudioInput("f32le", rate=SAMPLE_RATE)
        self._last_n = 10
        self._with_words = False
        self._finishing = False
        self._completed: list[dict[str, Any]] = []
        self._open: list[Word] = []
        self._guess: tuple[Word, ...] = ()
        self._shown: dict[str, Any] | None = None  # the uncompleted segment that the client has, with words of its own

    def receive(self, message: str | bytes) -> base.Actions:
        """Take the options first, then audio."""
        if self._uid is None:
            if isinstance(message, bytes):
                raise base.ProtocolError("expected the client's options as JSON text first; got audio", fatal=True)
            return self._options(messages.json_object(message))
        if message in (END_OF_AUDIO, END_OF_AUDIO.decode()):
            actions: base.Actions = () if self._finishing else (base.Finish(),)
            self._finishing = True
            return actions
        if self._finishing:
            return ()
        return messages.audio_actions(self._audio.feed(self._whole(message)))

    def _whole(self, message: str | bytes) -> bytes:
        """Check that a message is audio as their server takes it. One byte too many would spoil every later sample."""
        width = _FORMATS[self._format][1]
        if isinstance(message, str):
            raise base.ProtocolError(
                f"expected binary audio or {END_OF_AUDIO.decode()}; got the text {messages.abbreviate(message)!r}"
            )
        if len(message) % width:
            raise base.ProtocolError(
                f"expected whole samples of {width} bytes ({self._format}) in a message; got {len(message)} bytes"
            )
        return message

    def _options(self, options: dict[str, Any]) -> base.Actions:
        """Read the session's settings. Any error here is fatal: the client will not send them again."""
        try:
            self._uid = messages.text(options, "uid")
            if self._uid is None:
                raise base.ProtocolError("expected the client's uid in its options; got none")
            self._last_n = min(max(1, messages.whole(options, "send_last_n_segments", 10)), _MOST_SEGMENTS)
            self._with_words = messages.switch(options, "word_timestamps")
            wanted = messages.text(options, "audio_format") or "float32"
            self._format = messages.one_of(wanted, _FORMATS, "audio_format")
            self._audio = AudioInput(_FORMATS[self._format][0], rate=SAMPLE_RATE)
            settings = self._settings(options)
        except base.ProtocolError as error:
            raise base.ProtocolError(str(error), fatal=True) from error
        text = messages.warning(_without_effect(options))
        return (*([self._say(status="WARNING", message=text)] if text else ()), base.Start(settings))

    def _settings(self, options: Mapping[str, Any]) -> base.Settings:
        pause = messages.number(messages.mapping(options, "vad_parameters"), "min_silence_duration_ms")
        task = messages.text(options, "task")
        if task is not None:
            messages.one_of(task, TASKS, "task")
        terms = (messages.text(options, "hotwords") or "").split(",")
        return base.Settings(
            model=messages.text(options, "model"),
            language=messages.language(messages.text(options, "language"), self.opening.server),
            task=cast("Task | None", task),
            prompt=messages.prompt(messages.text(options, "initial_prompt")),
            keyterms=messages.keyterms(terms),
            vad=messages.switch(options, "use_vad", default=True),
            changes=messages.pause(pause),
        )

    def started(self, started: base.Started) -> base.Actions:
        """Send the ready message, for which the client waits before it sends audio."""
        return (self._say(message="SERVER_READY", backend=_BACKEND),)

    def events(self, events: Sequence[Event]) -> base.Actions:
        """Send segments, as often as they change."""
        actions: list[base.Action] = []
        changed = False
        for event in events:
            if isinstance(event, Confirmed):
                for word in event.words:
                    self._open.append(word)
                    if _ends_segment(self._open):
                        actions += self._complete()
                changed = True
            elif isinstance(event, Hypothesis):
                self._guess, changed = event.words, True
            elif isinstance(event, TurnEnd) and not event.eager:
                self._guess = ()
                actions += self._complete()
                changed = False
            elif isinstance(event, Language):
                actions.append(self._say(language=event.language, language_prob=event.probability))
            elif isinstance(event, Error):
                actions += self.problem(base.Problem("internal", event.message, event.fatal))
                actions += [base.Close(1011)] if event.fatal else []
                changed = changed and not event.fatal
            elif isinstance(event, End):
                actions += self._complete()
                # Unless the client asked for the end: the session is too long, or the server stops.
                actions += [*(() if self._finishing else [self._say(message="DISCONNECT")]), base.Close()]
                changed = False
        if changed:
            words = [*self._open, *self._guess]
            actions += [self._show(words)] if words else self._withdraw()
        return actions

    def problem(self, problem: base.Problem) -> base.Actions:
        """Send a problem as the client knows it: a full server, an error, a warning, or the end of its time."""
        if not problem.fatal:
            return (self._say(status="WARNING", message=problem.message),)
        if problem.kind == "overloaded":
            return (self._say(status="WAIT", message=_WAIT_MINUTES),)
        if problem.kind == "shutdown":
            return (*self._complete(), self._say(message="DISCONNECT"))
        return (*self._complete(), self._say(status="ERROR", message=problem.message))

    def _complete(self) -> list[base.Action]:
        """End the open segment, or withdraw a guess that got no words.

        The segment is shown once more as the last, uncompleted one, because the client appends that one to what it
        saves unless it has the same text as the last completed one.
        """
        if not self._open:
            return self._withdraw()
        shown = self._show(self._open)
        self._completed.append(_segment(self._open, True, self._with_words))
        del self._completed[: -self._last_n]
        self._open, self._shown = [], None
        return [shown, self._segments([])]

    def _show(self, words: Sequence[Word]) -> base.Reply:
        self._shown = _segment(words, False, self._with_words)
        return self._segments([self._shown])

    def _withdraw(self) -> list[base.Action]:
        """Withdraw the guess that the client has, and would save with the rest.

        Another uncompleted segment takes its place: the last completed one once more, which is not saved twice. It
        comes alone, because the client skips a segment with the text of the one before it. Where there is none, an
        empty one has to do.
        """
        if self._shown is None:
            return []
        empty = {**self._shown, "text": "", **({"words": []} if self._with_words else {})}
        self._shown = None
        if not self._completed:
            return [self._segments([empty])]
        return [self._say(segments=[{**self._completed[-1], "completed": False}]), self._segments([])]

    def _segments(self, last: list[dict[str, Any]]) -> base.Reply:
        return self._say(segments=[*self._completed, *last])

    def _say(self, **values: Any) -> base.Reply:
        return messages.reply(uid=self._uid, **values)


def _without_effect(options: Mapping[str, Any]) -> list[str]:
    """The names of options that are asked for and not done."""
    asked = {name: value for name, value in options.items() if value != _UNASKED.get(name)}
    gate = messages.without_effect(messages.mapping(options, "vad_parameters"), {"min_silence_duration_ms"})
    return [*messages.without_effect(asked, _DONE), *(f"vad_parameters.{name}" for name in gate)]


def _ends_segment(words: Sequence[Word]) -> bool:
    """True if a segment of `words` ends here: at the end of a sentence, or because it is long."""
    is_sentence = ends_sentence(words[-1].text)
    return is_sentence or words[-1].end - words[0].start >= _LONGEST_SEGMENT


def _segment(words: Sequence[Word], completed: bool, with_words: bool) -> dict[str, Any]:
    segment: dict[str, Any] = {
        "start": f"{seconds(words[0].start):.3f}",
        "end": f"{seconds(words[-1].end):.3f}",
        "text": "".join(word.text for word in words),
        "completed": completed,
    }
    if with_words:
        segment["words"] = [
            {
                "word": word.text,
                "start": f"{seconds(word.start):.3f}",
                "end": f"{seconds(word.end):.3f}",
                "probability": round(word.probability, 4),
            }
            for word in words
        ]
    return segment
