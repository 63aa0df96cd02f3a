"""Deepgram's live transcription (`/v1/listen`; deepgram.listen.v1 in their Python SDK).

In: binary audio in the encoding of the address, and JSON: `KeepAlive`, `Finalize`, `CloseStream`, `Configure`. Out:
`Results` whenever words are confirmed (`is_final`) or, if asked for, guessed anew; `SpeechStarted`, `UtteranceEnd`, and
`Metadata` before the connection closes. `Finalize` is answered by a result with `from_finalize` and ends nothing else.
"""

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from whispertide.checkpoint.languages import DETECT
from whispertide.events import Confirmed, End, Error, Event, Hypothesis, SpeechStart, TurnEnd
from whispertide.options import MOST_CHANNELS, parse_switch
from whispertide.server.protocols import base, messages
from whispertide.server.protocols.deepgram_stream import BAD_AUDIO, FAILED, DeepgramStream, rounded
from whispertide.types import Word, join_words, to_samples

# The parameters that have an effect. Whisper writes punctuation by itself.
_DONE = frozenset(
    {"model", "language", "encoding", "sample_rate", "channels", "interim_results", "endpointing", "utterance_end_ms"}
    | {"vad_events", "keyterm", "keywords", "punctuate"}
)
_VOICES = frozenset({"diarize", "diarize_model"})  # where there is a network for them
_MOST_WARNINGS = 40  # their service has fewer parameters
_EDGES = '.,;:!?¿¡"“”„()[]…。，？！、'  # what `word` has not and `punctuated_word` has


class DeepgramProtocol(DeepgramStream):
    """One live stream."""

    name: ClassVar[str] = "deepgram"
    single: ClassVar[frozenset[str]] = (_DONE | _VOICES) - {"keyterm", "keywords"} | {"multichannel"}
    types: ClassVar[tuple[str, ...]] = ("KeepAlive", "Finalize", "CloseStream", "Configure")
    flush: ClassVar[str] = "Finalize"

    def __init__(self, opening: base.Opening) -> None:
        super().__init__(opening)
        query = opening.query
        apart = self.channels_of(opening)
        self._channel = [opening.channel or 0, apart or 1]  # which, of how many
        self._is_first = not opening.channel  # who answers what concerns all of them
        self._settings = _read_settings(opening)
        self._interim = messages.switch(query, "interim_results")
        self._tells_speech = messages.switch(query, "vad_events")
        self._tells_pauses = query.get("endpointing", "").lower() != "false"
        gap = messages.number(query, "utterance_end_ms")
        self._gap = None if gap is None else to_samples(min(max(gap, 0), 60_000) / 1000)
        self._model = opening.server.models[0].name
        self._digest = hashlib.sha256()
        self._from = 0  # where the last final result ended
        self._fresh: list[Word] = []  # confirmed, not sent yet
        self._in_turn = False
        self._has_words = False  # the open turn
        self._held: tuple[tuple[Word, ...], int] | None = None  # the end of a turn, perhaps that of a `Finalize`
        self._guessed = False  # whether there are words that are not confirmed
        self._shown = False  # the newest result was a guess
        self._processed = 0  # audio about which all has been said
        self._last_word: int | None = None  # end of the last word, until its `UtteranceEnd` is sent

    @classmethod
    def channels_of(cls, opening: base.Opening) -> int:
        """As many as are announced, with `multichannel`. A container does not tell how many it has."""
        channels = messages.whole(opening.query, "channels", 1)
        if not messages.switch(opening.query, "multichannel") or channels == 1:
            return 0
        if not 1 <= channels <= MOST_CHANNELS:
            raise base.ProtocolError(f"expected 1 to {MOST_CHANNELS} channels; got {channels}")
        if not opening.query.get("encoding"):
            raise base.ProtocolError("expected an encoding next to multichannel=true and channels; got none")
        return channels

    def is_last(self, message: str | bytes) -> bool:
        """`Metadata` ends the stream."""
        return isinstance(message, str) and json.loads(message).get("type") == "Metadata"

    def started(self, started: base.Started) -> base.Actions:
        """Keep the model's name, which goes into every result."""
        self._model = started.model
        return ()

    # --- in ----------------------------------------------------------------------------------------------------------

    def _hear(self, data: bytes) -> base.Actions:
        self._digest.update(data)
        return super()._hear(data)

    def _configure(self, data: Mapping[str, Any]) -> base.Actions:
        """Replace the keyterms. Features that are not done are a failure where they come alone, else a warning."""
        missing = messages.without_effect(messages.mapping(data, "features"), _DONE)
        if data.get("keyterms") is None:
            return self._configured(missing)
        terms = messages.texts(data["keyterms"], "keyterms")
        try:
            change = base.Configure({"keyterms": messages.keyterms(terms)})
        except base.ProtocolError as error:
            return self._failure("CONFIGURE_KEYTERM_LIMIT_EXCEEDED", str(error))
        more = {"warnings": _warnings(missing)} if missing else {}
        return (change, *self._success(keyterms=terms, **more))

    def _configured(self, missing: Sequence[str]) -> base.Actions:
        if not missing:
            return self._success()
        why = f"expected features that there are here (punctuate); got {', '.join(missing)}"
        return self._failure("CONFIGURE_FEATURES_NOT_SUPPORTED", why)

    def _success(self, **values: Any) -> base.Actions:
        return self._answer(type="ConfigureSuccess", **values)

    def _failure(self, code: str, why: str) -> base.Actions:
        return self._answer(type="ConfigureFailure", code=code, description=why)

    def _answer(self, **values: Any) -> base.Actions:
        """Answer a `Configure`, which concerns all channels, once."""
        return (messages.reply(request_id=self._request, **values),) if self._is_first else ()

    # --- out ---------------------------------------------------------------------------------------------------------

    def events(self, events: Sequence[Event]) -> base.Actions:
        """Send results. The words of a turn's last round come with its `speech_final`, not before it."""
        # More was said, so an end of a turn that was held back was not the answer to a `Finalize`.
        actions: list[base.Action] = self._release(from_finalize=False) if events else []
        guess: tuple[Word, ...] = ()
        for event in events:
            match event:
                case Confirmed(words=words):
                    self._fresh += words
                    self._has_words = True
                case Hypothesis(words=words):
                    guess, self._guessed = words, bool(words)
                case SpeechStart(start=start):
                    actions += [*self._final(), *self.processed(start)]
                    self._in_turn = True
                    if self._tells_speech:
                        actions.append(self._speech(start))
                case TurnEnd(end=end, eager=False):
                    guess, self._guessed = (), False
                    actions += self._end_turn(end)
                case Error(message=message, fatal=fatal):
                    actions += self.problem(base.Problem("internal", message, fatal))
                    if fatal:
                        return [*actions, FAILED]
                case End(duration=duration):
                    return [
                        *actions,
                        *self._release(from_finalize=False),
                        *self._final(),
                        *self.processed(duration),
                        *self._summary(),
                        base.Close(),
                    ]
        actions += self._final()
        if guess and self._interim:
            actions.append(self._result(guess, guess[-1].end, is_final=False))
            self._shown = True
        return [*actions, *self._utterance_end()]

    def flushed(self) -> base.Actions:
        """Answer `Finalize` always, if need be with an empty result."""
        upto = self._flushing.popleft()
        answer = self._release(from_finalize=True)
        if not answer:
            answer = [self._result((), upto, is_final=True, from_finalize=True)]
        return [*answer, *self._utterance_end()]

    def processed(self, samples: int) -> base.Actions:
        """Measure pauses in processed audio: audio that has only arrived may hold words."""
        self._processed = max(self._processed, samples)
        return self._utterance_end()

    def problem(self, problem: base.Problem) -> base.Actions:
        """Send an error message; some have a close code of their own there."""
        text = problem.message
        error = messages.reply(type="Error", variant=problem.kind, description=text, message=text)
        told = () if problem.told else (error,)
        if not problem.fatal:
            return told
        rest = [*self._release(from_finalize=False), *self._final()]
        if problem.kind == "idle":
            return (*rest, *told, base.Close(1011, "NET-0001: neither audio nor a KeepAlive came"))
        if problem.kind == "bad_request":
            return (*rest, *told, BAD_AUDIO)
        if problem.kind == "shutdown":
            return (*rest, *told, *self._summary())
        return (*rest, *told)

    # --- results -----------------------------------------------------------------------------------------------------

    def _end_turn(self, end: int) -> list[base.Action]:
        """Send or hold the turn's last result. While a `Finalize` waits it may be the answer, which `flushed` will
        tell. A turn without words has one, an empty one, only to take a guess back.
        """
        actions = self._release(from_finalize=False)
        words, is_told = tuple(self._fresh), self._has_words or self._shown
        self._fresh, self._has_words, self._in_turn = [], False, False
        if not is_told:
            return actions
        self._held = (words, end)
        return actions if self._flushing else [*actions, *self._release(from_finalize=False)]

    def _release(self, *, from_finalize: bool) -> list[base.Action]:
        """Send the end of a turn that was held back, if there is one."""
        if self._held is None:
            return []
        (words, end), self._held = self._held, None
        pause = self._tells_pauses or from_finalize
        return [self._result(words, end, is_final=True, speech_final=pause, from_finalize=from_finalize)]

    def _speech(self, start: int) -> base.Reply:
        channel = [0] if self.opening.channel is None else self._channel
        return messages.reply(type="SpeechStarted", channel=channel, timestamp=rounded(start))

    def _final(self) -> list[base.Action]:
        """Send a final result of the words confirmed in mid-turn."""
        if not self._fresh:
            return []
        words, self._fresh = tuple(self._fresh), []
        return [self._result(words, words[-1].end, is_final=True)]

    def _result(
        self,
        words: Sequence[Word],
        end: int,
        *,
        is_final: bool,
        speech_final: bool = False,
        from_finalize: bool = False,
    ) -> base.Reply:
        """Build a result of the audio from the last final one to `end`."""
        start, end = self._from, max(end, self._from)
        if is_final:
            self._from, self._shown = end, False
            self._last_word = words[-1].end if words else self._last_word
        alternative = {
            "transcript": join_words(list(words)),
            "confidence": _confidence(words),
            "words": [_word(word) for word in words],
        }
        return messages.reply(
            type="Results",
            channel_index=self._channel,
            start=rounded(start),
            duration=rounded(end - start),
            is_final=is_final,
            speech_final=speech_final,
            from_finalize=from_finalize,
            channel={"alternatives": [alternative]},
            metadata={
                "request_id": self._request,
                "model_info": {"name": self._model, "version": self.opening.server.version, "arch": "whisper"},
                "model_uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, self._model)),
            },
        )

    def _utterance_end(self) -> list[base.Action]:
        """Send `UtteranceEnd`, once per gap, when the configured gap follows the last word, and no word is to come
        before it.
        """
        last, unsaid = self._last_word, self._in_turn or self._guessed or self._held is not None
        if self._gap is None or last is None or unsaid or self._processed - last < self._gap:
            return []
        self._last_word = None
        return [messages.reply(type="UtteranceEnd", channel=self._channel, last_word_end=rounded(last))]

    def _summary(self) -> list[base.Reply]:
        """The message before the service closes. `sha256` is that of the bytes received, and `warnings` tell of
        parameters without effect.
        """
        if not self._is_first:
            return []
        done = _DONE | (_VOICES if self.opening.server.hears_speakers else set())
        done |= {"multichannel"} if self.opening.channel is not None else set()
        warnings = _warnings(messages.without_effect(self.opening.query, done))
        summary = messages.reply(
            type="Metadata",
            transaction_key="deprecated",
            request_id=self._request,
            sha256=self._digest.hexdigest(),
            created=datetime.fromtimestamp(self.opening.at, UTC).isoformat(timespec="milliseconds"),
            duration=rounded(self._audio.given),
            channels=self._channel[1],
            models=[self._model],
            **({"warnings": warnings} if warnings else {}),
        )
        return [summary]


def _warnings(names: Sequence[str]) -> list[dict[str, str]]:
    """Warnings of parameters without effect, in the form of those in a recording's metadata there."""
    return [
        {"parameter": name, "type": "unsupported_parameter", "message": f"{name} has no effect here"}
        for name in names[:_MOST_WARNINGS]
    ]


def _read_settings(opening: base.Opening) -> base.Settings:
    query = opening.query
    # What may be detected: languages in place of a switch, or hints for a model of several.
    detected = [tag for tag in opening.lists.get("detect_language", ()) if parse_switch(tag) is not False]
    expected = [tag for tag in detected if parse_switch(tag) is None] + [*opening.lists.get("language_hint", ())]
    language = messages.language(query.get("language"), opening.server) or (DETECT if detected else None)
    # The newer parameter names a model of theirs, and needs no other next to it.
    asked = {"diarize": "true"} if query.get("diarize_model") else query
    changes: dict[str, Any] = {}
    endpointing = query.get("endpointing", "").lower()
    if endpointing not in ("", "true", "false"):
        changes = messages.pause(messages.number(query, "endpointing"))
    return base.Settings(
        model=query.get("model"),
        language=language,
        languages=messages.languages(expected, opening.server) if language in (None, DETECT) else (),
        keyterms=messages.keyterms([*opening.lists.get("keyterm", ()), *_boosted(opening.lists.get("keywords", ()))]),
        changes=changes,
        speakers=messages.speakers(asked, "diarize", opening.server),
    )


def _boosted(keywords: Sequence[str]) -> Iterator[str]:
    """The terms of the older "term:intensifier"; a negative one is for terms that are not wanted."""
    for keyword in keywords:
        term, _, intensifier = keyword.partition(":")
        if not intensifier.startswith("-"):
            yield term


def _word(word: Word) -> dict[str, Any]:
    written = word.text.strip()
    return {
        # A word of marks alone keeps them, or it would be empty.
        "word": written.strip(_EDGES).lower() or written,
        "start": rounded(word.start),
        "end": rounded(word.end),
        "confidence": round(word.probability, 4),
        "punctuated_word": written,
        **({} if word.speaker is None else {"speaker": word.speaker - 1}),
    }


def _confidence(words: Sequence[Word]) -> float:
    return round(sum(word.probability for word in words) / len(words), 4) if words else 0.0
