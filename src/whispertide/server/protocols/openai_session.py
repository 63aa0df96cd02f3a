"""The settings of an OpenAI Realtime transcription session, in both shapes that clients send and expect.

An answer describes the session in force, so a client sees there what it asked for in vain: noise reduction, and another
end of turns after the first audio. Their service has no other warning; an `error` ends many clients.

The current one nests them (`session.audio.input.format`, `.transcription`, `.turn_detection`); the older one is flat
(`session.input_audio_format`, `.input_audio_transcription`, `.turn_detection`). Knows no messages but these objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from whispertide.server.protocols import messages
from whispertide.server.protocols.base import ProtocolError, Settings
from whispertide.server.protocols.encodings import RATES
from whispertide.server.protocols.server_info import ServerInfo

_PCM_RATE = 24_000
_G711_RATE = 8_000

_FLAT = {"pcm16": "s16le", "g711_ulaw": "mulaw", "g711_alaw": "alaw"}
_NESTED = {"audio/pcm": "s16le", "audio/pcmu": "mulaw", "audio/pcma": "alaw"}
_LOGPROBS = "item.input_audio_transcription.logprobs"
# How soon a turn ends by `semantic_vad`: the probability that it needs, and the longest silence. Theirs are these
# silences; what their network needs they do not say (lab/log has what ours brings).
_EAGERNESS = {"low": (0.8, 8.0), "medium": (0.5, 4.0), "auto": (0.5, 4.0), "high": (0.3, 2.0)}
_DETECTION = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}


@dataclass(frozen=True, slots=True)
class RealtimeSession:
    """A client's settings, or the defaults. `detection` None: the client commits; `language` is in its own spelling.
    `turns` is the detection with which the session has begun; None: it has not.
    """

    encoding: str = "s16le"
    rate: int = _PCM_RATE
    model: str | None = None
    language: str | None = None
    languages: tuple[str, ...] = ()  # that may be detected
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    detection: Mapping[str, Any] | None = None
    logprobs: bool = False
    turns: Mapping[str, Any] | None = None

    def begun(self) -> "RealtimeSession":
        """The same in a session that begins now: what ends turns is settled then, but for the eagerness."""
        return replace(self, turns=self.detection or _DETECTION)

    def settings(self, server: ServerInfo) -> Settings:
        """The settings of the session to start."""
        return Settings(
            model=self.model,
            language=messages.language(self.language, server),
            languages=messages.languages(self.languages, server),
            prompt=self.prompt,
            keyterms=self.keywords,
            changes=self.turn_changes,
        )

    @property
    def is_semantic(self) -> bool:
        """True if turns end where the speaker is done, whatever the pauses."""
        return self.detection is not None and self.detection["type"] == "semantic_vad"

    @property
    def turn_changes(self) -> dict[str, Any]:
        """The changes of the recipe for the turn detection."""
        detection = self.turns or self.detection
        if detection is None or detection["type"] != "semantic_vad":
            return messages.pause(messages.number(detection or {}, "silence_duration_ms"))
        threshold, timeout_s = _EAGERNESS[detection["eagerness"]]
        return {"turn_end": "smart-turn", "turn_threshold": threshold, "turn_timeout_s": timeout_s}

    def updated(self, session: Mapping[str, Any], server: ServerInfo) -> "RealtimeSession":
        """Apply an update: fields that are not in it stay. Unknown ones have no effect.

        Raises `ProtocolError` for values that cannot be, and then nothing is changed.
        """
        audio = messages.mapping(messages.mapping(session, "audio"), "input")
        flat = {
            "format": session.get("input_audio_format"),
            "transcription": session.get("input_audio_transcription"),
            **{key: session[key] for key in ("turn_detection",) if key in session},
        }
        noise = "input_audio_noise_reduction"
        flat |= {"noise_reduction": session[noise]} if noise in session else {}
        changed = self
        # The current shape after the older one, so that it counts where a client sends both.
        for values in (flat, audio):
            changed = _with_format(changed, values.get("format"))
            changed = _with_transcription(changed, messages.mapping(values, "transcription"))
            if "turn_detection" in values:
                changed = _with_detection(changed, values, server)
            if "noise_reduction" in values:
                messages.mapping(values, "noise_reduction")  # for its error alone
        if session.get("include") is not None:
            changed = replace(changed, logprobs=_LOGPROBS in messages.texts(session["include"], "include"))
        # For its error alone: a language that cannot be must not get into the session.
        messages.language(changed.language, server)
        messages.languages(changed.languages, server)
        return changed._in_force()

    def _in_force(self) -> "RealtimeSession":
        """With the turn detection that there is, where the session has begun with another than is asked for."""
        if self.turns is None or self.detection is None:
            return self
        if self.detection["type"] != self.turns["type"]:
            return replace(self, detection=self.turns)
        if self.is_semantic:
            return replace(self, turns=self.detection)
        pause = {"silence_duration_ms": self.turns["silence_duration_ms"]}
        return replace(self, detection={**self.detection, **pause})

    def nested(self) -> dict[str, Any]:
        """Describe it in the current shape."""
        name = next(name for name, encoding in _NESTED.items() if encoding == self.encoding)
        return {
            "type": "transcription",
            "audio": {
                "input": {
                    "format": {"type": name, "rate": self.rate} if name == "audio/pcm" else {"type": name},
                    "transcription": self._transcription(),
                    "noise_reduction": None,
                    "turn_detection": self.detection,
                }
            },
            "include": [_LOGPROBS] if self.logprobs else None,
        }

    def flat(self) -> dict[str, Any]:
        """Describe it in the older shape."""
        return {
            "input_audio_format": next(name for name, encoding in _FLAT.items() if encoding == self.encoding),
            "input_audio_transcription": self._transcription(),
            "input_audio_noise_reduction": None,
            "turn_detection": self.detection,
            "modalities": ["audio", "text"],
            "include": [_LOGPROBS] if self.logprobs else None,
        }

    def _transcription(self) -> dict[str, Any]:
        lists = {"languages": list(self.languages), "keywords": list(self.keywords)}
        told = {name: values for name, values in lists.items() if values}
        return {"model": self.model, "language": self.language, "prompt": self.prompt, **told}


def default_session(model: str | None) -> RealtimeSession:
    """The settings of a new connection."""
    return RealtimeSession(model=model, detection=_DETECTION)


def describe_session(session: RealtimeSession, name: str, expires_at: float, *, older: bool) -> dict[str, Any]:
    """Describe a session in the shape that the client speaks; `expires_at` in seconds since 1970."""
    shape = session.flat() if older else session.nested()
    return {"id": name, "object": "realtime.transcription_session", "expires_at": int(expires_at), **shape}


def _with_format(session: RealtimeSession, value: object) -> RealtimeSession:
    """Apply a format by its older name, or as the current object. Rates other than theirs are fine here."""
    if value is None:
        return session
    if isinstance(value, str) and value in _FLAT:
        encoding, usual = _FLAT[value], _PCM_RATE if value == "pcm16" else _G711_RATE
        return replace(session, encoding=encoding, rate=usual)
    if isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] in _NESTED:
        encoding = _NESTED[value["type"]]
        rate = messages.whole(value, "rate", _PCM_RATE if encoding == "s16le" else _G711_RATE)
        if not RATES[0] <= rate <= RATES[1]:
            raise ProtocolError(f"expected a rate between {RATES[0]} and {RATES[1]} Hz; got {rate}")
        return replace(session, encoding=encoding, rate=rate)
    known = ", ".join([*_NESTED, *_FLAT])
    raise ProtocolError(f"expected an audio format among {known}; got {messages.abbreviate(value)}")


def _with_transcription(session: RealtimeSession, values: Mapping[str, Any]) -> RealtimeSession:
    changes: dict[str, Any] = {}
    if "model" in values:
        changes["model"] = messages.text(values, "model")
    if "language" in values or "languages" in values:
        tags = messages.texts(values.get("languages"), "languages")
        changes["language"] = messages.text(values, "language") or (tags[0] if len(tags) == 1 else None)
        changes["languages"] = () if changes["language"] else tuple(tags)
    if "prompt" in values:
        changes["prompt"] = messages.prompt(messages.text(values, "prompt"))
    if "keywords" in values:
        changes["keywords"] = messages.keyterms(messages.texts(values["keywords"], "keywords"))
    return replace(session, **changes)


def _with_detection(session: RealtimeSession, values: Mapping[str, Any], server: ServerInfo) -> RealtimeSession:
    """Apply turn detection. Where nothing hears turns `semantic_vad` becomes `server_vad`, and the answer says so."""
    if values["turn_detection"] is None:
        return replace(session, detection=None)
    wanted = messages.mapping(values, "turn_detection")
    if wanted.get("type", "server_vad") not in ("server_vad", "semantic_vad"):
        raise ProtocolError(
            f"expected turn_detection to be null, server_vad or semantic_vad; got {messages.abbreviate(wanted['type'])}"
        )
    for name in ("threshold", "prefix_padding_ms", "silence_duration_ms"):
        messages.number(wanted, name)
    if wanted.get("type") == "semantic_vad":
        eagerness = messages.one_of(messages.text(wanted, "eagerness") or "auto", _EAGERNESS, "eagerness")
        return replace(session, detection={**wanted, "eagerness": eagerness} if server.hears_turns else _DETECTION)
    before = session.detection if session.detection and session.detection.get("type") == "server_vad" else _DETECTION
    return replace(session, detection={**before, **wanted, "type": "server_vad"})
