"""WhisperLiveKit's WebSocket protocol (`/asr`; basic_server.py, diff_protocol.py and web/ of its package, 0.2.26).

In: binary audio, either s16le at 16 kHz or Opus in WebM or Ogg, which its first bytes tell; an empty message ends it.
Out: `config`, then the whole state whenever its words change, then `ready_to_stop`. `lines` has the confirmed words, a
line for each utterance and voice, and long pauses; the guess is in `buffer_transcription`. With `mode=diff` the first
state is a `snapshot`, and each `diff` after it has the lines that are new.

A line's `translation` is that of its sentences, where the server translates: into `target_language` of the address, or
the operator's first. With `mode=diff` a line cannot change once it was sent: then `buffer_translation` has the newest.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

from whispertide.checkpoint.languages import primary
from whispertide.events import Confirmed, End, Error, Event, Hypothesis, Language, SpeechStart, Translation, TurnEnd
from whispertide.punctuation import ends_sentence
from whispertide.server.protocols import base, messages
from whispertide.server.protocols.encodings import CONTAINED_PIECE, AudioInput, container_of
from whispertide.types import SAMPLE_RATE, Word, seconds, to_samples

SHOWN_LINES = 200  # in a state: their page shows no more
MOST_LINES = 4_000  # in the last state: many clients take no message above a megabyte
_LONG_LINE = to_samples(30)
_LONG_PAUSE = to_samples(5)
_INVALID_SETTING = 4400  # their close code for parameters that cannot be

_SPEAKER, _SILENCE = 1, -2
_PCM = "s16le"
_FILES = (b"RIFF", b"fLaC", b"ID3\x03", b"ID3\x04")
_HEAD = 8  # bytes that tell what it is
_PIECE = 1_600  # bytes: 50 ms. Their page sends samples by the 43, and each piece costs a session its work


class WhisperLiveKitProtocol(base.WireProtocol):
    """One stream."""

    name: ClassVar[str] = "whisperlivekit"
    single: ClassVar[frozenset[str]] = frozenset({"mode", "language", "target_language"})

    def __init__(self, opening: base.Opening) -> None:
        super().__init__(opening)
        self._is_diff = opening.query.get("mode") == "diff"
        self._audio: AudioInput | None = None
        self._waiting = b""  # bytes that are not enough yet
        self._enough = _HEAD
        self._ending = False
        self._lines: deque[dict[str, Any]] = deque(maxlen=MOST_LINES)  # with differences: those that were not sent yet
        self._count = 0  # of all lines that are complete
        self._open: list[Word] = []  # of the line that grows
        self._spans: deque[tuple[int, int]] = deque(maxlen=MOST_LINES)  # of `_lines`, in samples
        self._open_translation = ""
        self._late_translation = ""  # of a line that was sent
        self._translated = 0
        self._guess: tuple[Word, ...] = ()
        self._language: str | None = None
        self._lines_end = 0  # where the last line ends
        self._processed = 0  # audio that was taken into account
        self._settled = 0  # audio of which nothing more is to be confirmed
        self._shown: tuple[int, int, str, int] | None = None  # what the client has
        self._states = 0

    def opened(self) -> base.Actions:
        """Send bad parameters as a message, as there: a page cannot see why a handshake is refused."""
        try:
            language = messages.language(self.opening.query.get("language"), self.opening.server)
            target = self._target()
        except base.ProtocolError as error:
            return messages.reply(type="error", error=str(error)), base.Close(_INVALID_SETTING, "bad_setting")
        mode = "diff" if self._is_diff else "full"
        config = messages.reply(type="config", useAudioWorklet=True, mode=mode)
        return config, base.Start(base.Settings(language=language, translate_to=target))

    def _target(self) -> str | None:
        """The language to translate into. Without a translator the client's wish has no effect, as there."""
        offered, wanted = self.opening.server.translations, self.opening.query.get("target_language")
        if not offered or not wanted:
            return offered[0] if offered else None
        if primary(wanted) not in offered:
            raise base.ProtocolError(
                f"expected a target_language among {', '.join(offered)}; got {messages.abbreviate(wanted)}"
            )
        return primary(wanted)

    def started(self, started: base.Started) -> base.Actions:
        """Send the first state, which is empty."""
        return self._send_changes()

    # --- in ----------------------------------------------------------------------------------------------------------

    @property
    def piece(self) -> int:
        """Audio may be cut anywhere, but for packets of Opus."""
        return CONTAINED_PIECE if self._audio is None else self._audio.piece

    def receive(self, message: str | bytes) -> base.Actions:
        """Take audio, or the end. Messages after the end are dropped, as there: a page's recorder has more."""
        if self._ending:
            return ()
        if isinstance(message, str):
            raise base.ProtocolError(
                f"expected binary audio, or an empty message at its end; got the text {messages.abbreviate(message)!r}"
            )
        if not message:
            self._ending = True
            return (*self._hear(), base.Finish())
        if self._enough == _PIECE and container_of(message):
            raise base.ProtocolError("expected more samples, as the first ones were; got a container", fatal=True)
        self._waiting += message
        return self._hear() if len(self._waiting) >= self._enough else ()

    def idle(self) -> base.Actions:
        """End as after the empty message; fewer bytes than tell what they are have no words."""
        self._ending = True
        return (*(() if self._audio is None else self._hear()), base.Finish())

    def _hear(self) -> base.Actions:
        if self._audio is None:
            encoding = _encoding(self._waiting)
            self._audio = AudioInput(encoding, rate=SAMPLE_RATE)
            self._enough = _PIECE if encoding == _PCM else 1
        data, self._waiting = self._waiting, b""
        samples = messages.decode_audio(self._audio, data)
        return (*samples, *messages.audio_actions(self._audio.drain())) if self._ending else samples

    # --- out ---------------------------------------------------------------------------------------------------------

    def events(self, events: Sequence[Event]) -> base.Actions:
        """Send one state for all that changed."""
        actions: list[base.Action] = []
        for event in events:
            self._processed = max(self._processed, event.at)
            match event:
                case Language(language=language):
                    self._language = language
                case SpeechStart(start=start):
                    self._settled = max(self._settled, start)
                case Confirmed(words=words):
                    for word in words:
                        self._add(word)
                case Hypothesis(words=words):
                    self._guess = words
                case Translation(start=start, text=text):
                    self._translate(start, text)
                case TurnEnd(at=at, eager=False):
                    self._end_line()
                    self._guess, self._settled = (), at
                case Error(message=message, fatal=fatal):
                    actions += self.problem(base.Problem("internal", message, fatal))
                    if fatal:
                        return [*actions, base.Close(1011)]
                case End(duration=duration):
                    self._end_line()
                    self._guess, self._settled = (), duration
                    self._add_pause(duration)
                    return [*actions, self._state(last=True), messages.reply(type="ready_to_stop"), base.Close()]
        return [*actions, *self._send_changes()]

    def problem(self, problem: base.Problem) -> base.Actions:
        """Send the state with the problem in it: their page takes any message for a state, and would show nothing."""
        if problem.fatal:
            self._end_line()
            self._guess = ()
        return (self._state(error=problem.message, last=problem.fatal),)

    def _add(self, word: Word) -> None:
        if self._open and word.speaker != self._open[-1].speaker:
            self._end_line()
        if not self._open:
            self._add_pause(word.start)
        self._open.append(word)
        self._settled = word.end
        length = word.end - self._open[0].start
        # At the end of a sentence, if one comes in time.
        if length >= _LONG_LINE and (length >= 2 * _LONG_LINE or ends_sentence(word.text)):
            self._end_line()

    def _end_line(self) -> None:
        if self._open:
            self._add_line(self._growing(), self._open[0].start, self._open[-1].end)
            self._lines_end, self._open, self._open_translation = self._open[-1].end, [], ""

    def _growing(self) -> dict[str, Any]:
        translated = {"translation": self._open_translation} if self._open_translation else {}
        return {**_spoken(self._open, self._language), **translated}

    def _add_pause(self, until: int) -> None:
        if until - self._lines_end > _LONG_PAUSE:
            self._add_line(_line(_SILENCE, "", self._lines_end, until), self._lines_end, until)

    def _add_line(self, line: dict[str, Any], start: int, end: int) -> None:
        self._lines.append(line)
        self._spans.append((start, end))
        self._count += 1

    def _translate(self, start: int, text: str) -> None:
        """Add a translation to the line in which its sentence begins."""
        self._translated += 1
        if self._open and start >= self._open[0].start:
            self._open_translation = f"{self._open_translation} {text}".strip()
            return
        for line, (first, last) in zip(reversed(self._lines), reversed(self._spans), strict=True):
            if first <= start <= last and line["speaker"] != _SILENCE:
                line["translation"] = f"{line.get('translation', '')} {text}".strip()
                return
        self._late_translation = text

    def _send_changes(self) -> list[base.Action]:
        """Send the state, if the client has another one."""
        return [self._state()] if self._shown != self._words() else []

    def _words(self) -> tuple[int, int, str, int]:
        return self._count, len(self._open), _text(self._guess), self._translated

    def _state(self, *, error: str = "", last: bool = False) -> base.Reply:
        """The lines for the client to show; the last time with all lines."""
        self._shown = self._words()
        self._states += 1
        lines, buffer = self._difference() if self._is_diff else self._whole(MOST_LINES if last else SHOWN_LINES)
        waiting = _behind(0 if self._audio is None else self._audio.given, self._processed)
        state: dict[str, Any] = {
            "status": "active_transcription" if any(self._shown) else "no_audio_detected",
            "lines": lines,
            "buffer_transcription": buffer,
            "buffer_diarization": "",
            "buffer_translation": self._late_translation,
            "remaining_time_transcription": waiting,
            "remaining_time_transcription_processing": waiting,
            "remaining_time_transcription_policy": _behind(self._processed, self._settled),
            "remaining_time_diarization": 0,
        }
        if error:
            state |= {"status": "error", "error": error}
        if not self._is_diff:
            return messages.reply(**state)
        if self._states == 1:
            return messages.reply(type="snapshot", seq=1, **state)
        del state["lines"]
        new = {"new_lines": lines} if lines else {}
        return messages.reply(type="diff", seq=self._states, n_lines=self._count, **state, **new)

    def _whole(self, most: int) -> tuple[list[dict[str, Any]], str]:
        growing = [self._growing()] if self._open else []
        return [*self._lines, *growing][-most:], _text(self._guess)

    def _difference(self) -> tuple[list[dict[str, Any]], str]:
        """Send complete lines only: a client can append lines, and has no way to replace one that grew."""
        lines = list(self._lines)
        self._lines.clear()
        self._spans.clear()
        return lines, _text(self._open) + _text(self._guess)


def _encoding(head: bytes) -> str:
    """The encoding of audio that begins with these bytes."""
    if head.startswith(_FILES) or head[4:8] == b"ftyp":
        raise base.ProtocolError(
            "expected 16-bit samples at 16 kHz, or Opus in WebM or Ogg; got a file of another kind", fatal=True
        )
    return container_of(head) or _PCM


def _spoken(words: Sequence[Word], language: str | None) -> dict[str, Any]:
    detected = {} if language is None else {"detected_language": language}
    speaker = words[0].speaker or _SPEAKER
    return {**_line(speaker, _text(words), words[0].start, words[-1].end), **detected}


def _line(speaker: int, text: str, start: int, end: int) -> dict[str, Any]:
    return {"speaker": speaker, "text": text, "start": _clock(start), "end": _clock(end)}


def _text(words: Sequence[Word]) -> str:
    return "".join(word.text for word in words)


def _clock(samples: int) -> str:
    """Format a time as they do: H:MM:SS.cc."""
    hundredths = round(100 * seconds(samples))
    minutes, rest = divmod(hundredths, 6_000)
    return f"{minutes // 60}:{minutes % 60:02}:{rest // 100:02}.{rest % 100:02}"


def _behind(ahead: int, behind: int) -> float:
    return round(seconds(max(0, ahead - behind)), 1)
