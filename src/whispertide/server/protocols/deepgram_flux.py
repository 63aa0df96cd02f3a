"""Deepgram's Flux: live transcription in turns (`/v2/listen`; deepgram.listen.v2 in their Python SDK).

In: binary audio, and JSON: `CloseStream`, `ForceEndTurn`, `Configure`. Out: `Connected`, then `TurnInfo` with the whole
turn so far, which begins (`StartOfTurn`), grows (`Update`), may be over (`EagerEndOfTurn`), goes on after all
(`TurnResumed`) or is over (`EndOfTurn`). A turn begins with its first word. Guessed words are in all of these but the
last and the eager one, whose words are confirmed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from whispertide.checkpoint.languages import DETECT
from whispertide.events import Confirmed, End, Error, Event, Hypothesis, TurnEnd
from whispertide.server.protocols import base, messages
from whispertide.server.protocols.deepgram_stream import BAD_AUDIO, FAILED, DeepgramStream, rounded
from whispertide.types import Word, join_words, to_samples

_UPDATE = to_samples(0.25)  # of audio between two messages in which nothing is new
_NO_NETWORK = (
    "This server has no network that predicts whether a speaker has finished: pauses end turns, and the thresholds and "
    "the timeout have no effect. On the server run `whispertide models pull smart-turn` and start it again."
)
# What has an effect: in the address, and in a `Configure`.
_DONE = frozenset(
    {"model", "encoding", "sample_rate", "channels", "eot_threshold", "eager_eot_threshold", "eot_timeout_ms"}
    | {"keyterm", "language_hint"}
)
_DONE_LATER = frozenset({"type", "thresholds", "keyterms", "language_hints"})
_LANGUAGES = {"flux-general-en": "en", "flux-general-multi": DETECT}
_State = Literal["ready", "speaking", "ending"]


@dataclass(frozen=True, slots=True)
class _Thresholds:
    """When a turn ends, in their names and units; `eager_eot_threshold` None: nothing is eager."""

    eot_threshold: float = 0.7
    eager_eot_threshold: float | None = None
    eot_timeout_ms: int = 5000

    def updated(self, values: Mapping[str, Any]) -> "_Thresholds":
        """Those of `values` in place of these. Raises `ProtocolError` for one that cannot be."""
        sure = messages.number(values, "eot_threshold", self.eot_threshold)
        eager = messages.number(values, "eager_eot_threshold", self.eager_eot_threshold)
        timeout = messages.whole(values, "eot_timeout_ms", self.eot_timeout_ms)
        _check("eot_threshold", sure, 0.5, 1.0)
        _check("eager_eot_threshold", eager, 0.3, 0.9)
        _check("eot_timeout_ms", timeout, 500, 60_000)
        assert sure is not None
        if eager is not None and eager > sure:
            raise base.ProtocolError(f"expected eager_eot_threshold of at most eot_threshold ({sure:g}); got {eager:g}")
        return _Thresholds(sure, eager, timeout)

    @property
    def changes(self) -> dict[str, Any]:
        """The same as changes of the recipe."""
        return {
            "turn_threshold": self.eot_threshold,
            "turn_eager": self.eager_eot_threshold or 0.0,
            "turn_timeout_s": self.eot_timeout_ms / 1000,
        }

    def described(self) -> dict[str, Any]:
        """Those that are set."""
        values = {"eot_threshold": self.eot_threshold, "eot_timeout_ms": self.eot_timeout_ms}
        return (
            values if self.eager_eot_threshold is None else {**values, "eager_eot_threshold": self.eager_eot_threshold}
        )


class FluxProtocol(DeepgramStream):
    """One live stream."""

    name: ClassVar[str] = "deepgram-flux"
    single: ClassVar[frozenset[str]] = _DONE - {"keyterm", "language_hint"}
    types: ClassVar[tuple[str, ...]] = ("CloseStream", "ForceEndTurn", "Configure")
    flush: ClassVar[str] = "ForceEndTurn"

    def __init__(self, opening: base.Opening) -> None:
        super().__init__(opening)
        self._thresholds = _Thresholds().updated(opening.query)
        self._keyterms = [term for term in opening.lists.get("keyterm", ()) if term]
        self._hints = list(opening.lists.get("language_hint", ()))
        self._settings = self._read_settings()
        self._sent = 0
        self._state: _State = "ready"
        self._turn = 0  # its index
        self._from = 0  # where the turn's audio begins
        self._words: list[Word] = []  # confirmed
        self._guess: tuple[Word, ...] = ()
        self._eager_words = 0  # that the turn had when it was said that it may be over
        self._told = 0  # audio that the last message was about

    @property
    def _hears_turns(self) -> bool:
        return self.opening.server.hears_turns

    def started(self, started: base.Started) -> base.Actions:
        """Greet the client, and say what has no effect, and where turns end in pauses alone."""
        greeting = self._say("Connected", request_id=self._request)
        missing = self._warn_of(self.opening.query, _DONE)
        return (greeting, *missing, *(() if self._hears_turns else self._warn("NO_TURN_MODEL", _NO_NETWORK)))

    # --- in ----------------------------------------------------------------------------------------------------------

    def _configure(self, data: Mapping[str, Any]) -> base.Actions:
        """Change thresholds, terms and language from now on; what cannot be is refused, and nothing changes."""
        try:
            thresholds = self._thresholds.updated(messages.mapping(data, "thresholds"))
            terms = self._terms(data.get("keyterms"))
            keyterms = messages.keyterms(terms)
            hinted = data.get("language_hints")
            hints = self._hints if hinted is None else messages.texts(hinted, "language_hints")
            language, languages = self._language(hints), self._languages(hints)
        except base.ProtocolError as error:
            failure = {"code": "INVALID_CONFIGURATION", "description": str(error)}
            return (self._say("ConfigureFailure", request_id=self._request, **failure),)
        changes: dict[str, Any] = thresholds.changes if self._hears_turns and thresholds != self._thresholds else {}
        if terms != self._keyterms:
            changes["keyterms"] = keyterms
        if hints != self._hints:
            changes |= {"language": language, "languages": languages}
        self._thresholds, self._keyterms, self._hints = thresholds, terms, hints
        success: dict[str, Any] = {"thresholds": thresholds.described(), "keyterms": terms}
        success |= {"language_hints": hints} if hints else {}
        answer = self._say("ConfigureSuccess", request_id=self._request, **success)
        return (*([base.Configure(changes)] if changes else ()), answer, *self._warn_of(data, _DONE_LATER))

    def _terms(self, value: object) -> list[str]:
        if value is None:
            return self._keyterms
        return [value] if isinstance(value, str) else messages.texts(value, "keyterms")

    # --- out ---------------------------------------------------------------------------------------------------------

    def events(self, events: Sequence[Event]) -> base.Actions:
        """Send what became of the turn."""
        actions: list[base.Action] = []
        changed = False
        for event in events:
            match event:
                case Confirmed(at=at, words=words):
                    self._words += words
                    changed = True
                    if messages.is_long_turn(self._words):
                        actions += [*self._grow(at, changed), *self._end(at, 0.0)]
                        changed = False
                case Hypothesis(words=words):
                    changed = changed or words != self._guess
                    self._guess = words
                case TurnEnd(at=at, eager=eager, confidence=confidence):
                    actions += [*self._grow(at, changed), *(self._eager(at, confidence) if eager else ())]
                    actions += () if eager else self._end(at, confidence)
                    changed = False
                case Error(at=at, message=message, fatal=fatal):
                    actions += self._grow(at, changed)
                    changed = False
                    actions += self.problem(base.Problem("internal", message, fatal))
                    if fatal:
                        return [*actions, FAILED]
                case End(at=at):
                    return [*actions, *self._grow(at, changed), *self._end(at, 1.0), base.Close()]
        if events:
            actions += self._grow(events[-1].at, changed)
        return actions

    def flushed(self) -> base.Actions:
        """Note that a `ForceEndTurn` is done; without a turn it does nothing."""
        self._flushing.popleft()
        return ()

    def processed(self, samples: int) -> base.Actions:
        """Send an update where nothing is new, now and then: the time goes on."""
        return [self._info("Update", samples)] if samples - self._told >= _UPDATE else []

    def problem(self, problem: base.Problem) -> base.Actions:
        """Send a `Warning` for a problem that is not fatal: their clients end on an `Error`."""
        code = problem.kind.upper()
        if not problem.fatal:
            return self._warn(code, problem.message)
        rest = self._end(self._told, 1.0)
        error = self._say("Error", code=code, description=problem.message)
        if problem.kind == "idle":
            return (*rest, error, base.Close(1011, "NET-0001: no audio came"))
        if problem.kind == "bad_request":
            return (*rest, error, BAD_AUDIO)
        return (*rest, error)

    # --- the turn ----------------------------------------------------------------------------------------------------

    def _grow(self, at: int, changed: bool) -> list[base.Action]:
        """Send that the turn begins, goes on after all, or has other words."""
        said = bool(self._words or self._guess)
        if not changed or (self._state == "ready" and not said):
            return []
        # Until somebody says more, a turn that may be over has the words that it had: a guess has just become empty.
        if self._state == "ending" and not self._guess and len(self._words) == self._eager_words:
            return []
        event = {"ready": "StartOfTurn", "speaking": "Update", "ending": "TurnResumed"}[self._state]
        self._state = "speaking"
        return [self._info(event, at)]

    def _eager(self, at: int, confidence: float) -> list[base.Action]:
        """Send that the turn may be over, once until it goes on."""
        if self._state != "speaking" or not self._words:
            return []
        self._state, self._guess, self._eager_words = "ending", (), len(self._words)
        return [self._info("EagerEndOfTurn", at, confidence)]

    def _end(self, at: int, confidence: float) -> list[base.Action]:
        """Send that the turn is over, and, where the client asked for it, before that that it may be."""
        if self._state == "ready":
            return []
        trigger = self._trigger(at, confidence)
        eager = self._thresholds.eager_eot_threshold is not None and self._hears_turns and trigger != "manual"
        actions = self._eager(at, confidence) if eager else []
        self._guess = ()
        actions.append(self._info("EndOfTurn", at, confidence, trigger=trigger))
        self._state, self._words, self._from = "ready", [], at
        self._turn += 1
        return actions

    def _trigger(self, at: int, confidence: float) -> str:
        if self._flushing and at >= self._flushing[0]:
            return "manual"
        return "model" if self._hears_turns and confidence > self._thresholds.eot_threshold else "timeout"

    def _info(self, event: str, at: int, confidence: float = 0.0, **more: Any) -> base.Action:
        words = (*self._words, *self._guess)
        self._told = at
        return self._say(
            "TurnInfo",
            request_id=self._request,
            event=event,
            turn_index=self._turn,
            audio_window_start=rounded(self._from),
            audio_window_end=rounded(max(at, self._from)),
            transcript=join_words(list(words)),
            words=[_word(word) for word in words],
            end_of_turn_confidence=round(confidence, 4),
            **more,
        )

    def _warn_of(self, values: Mapping[str, Any], done: Collection[str]) -> base.Actions:
        """Warn of what is asked for and not done."""
        text = messages.warning(messages.without_effect(values, done))
        return self._warn("UNSUPPORTED_PARAMETER", text) if text else ()

    def _warn(self, code: str, text: str) -> base.Actions:
        return (self._say("Warning", request_id=self._request, code=code, description=text),)

    def _say(self, kind: str, **values: Any) -> base.Reply:
        self._sent += 1
        return messages.reply(type=kind, sequence_id=self._sent - 1, **values)

    # --- settings ----------------------------------------------------------------------------------------------------

    def _read_settings(self) -> base.Settings:
        return base.Settings(
            model=self.opening.query.get("model"),
            language=self._language(self._hints),
            languages=self._languages(self._hints),
            keyterms=messages.keyterms(self._keyterms),
            changes={"turn_end": "smart-turn", **self._thresholds.changes} if self._hears_turns else {},
        )

    def _language(self, hints: Sequence[str]) -> str | None:
        """The only language that is hinted at; of several, the one that is detected. Else their English model writes
        English.
        """
        usual = _LANGUAGES.get(self.opening.query.get("model", ""))
        hinted = hints[0] if len(hints) == 1 else DETECT
        return messages.language(hinted if hints else usual, self.opening.server)

    def _languages(self, hints: Sequence[str]) -> tuple[str, ...]:
        """The languages that may be detected; none: any."""
        return messages.languages(hints, self.opening.server) if len(hints) > 1 else ()


def _check(name: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not least <= value <= most:
        raise base.ProtocolError(f"expected {name} between {least:g} and {most:g}; got {value:g}")


def _word(word: Word) -> dict[str, Any]:
    return {
        "word": word.text.strip(),
        "confidence": round(word.probability, 4),
        "start": rounded(word.start),
        "end": rounded(word.end),
    }
