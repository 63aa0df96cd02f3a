"""Events of a session: one tagged union for the command line, the server and the evaluation.

Times are absolute samples at 16 kHz; `to_dict` turns them into seconds because JSON is an edge.
`seq` numbers a session's events from 0 without gaps, so a client can resume after the last one it saw.
This module knows nothing of how the events come about.
"""

from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any, ClassVar

from whispertide.errors import OptionError
from whispertide.types import Word, seconds, spoken_by, to_samples


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events; `at` is the end of the audio that had been taken into account when it was made. `channel` is
    the one that it is about, from 1, where channels are kept apart.
    """

    kind: ClassVar[str] = ""
    seq: int
    at: int
    channel: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class SpeechStart(Event):
    """The voice gate opened; `start` is where the utterance's audio begins (pre-roll included)."""

    kind: ClassVar[str] = "speech_start"
    start: int


@dataclass(frozen=True, slots=True)
class SpeechStop(Event):
    """The voice gate closed; `end` is where the utterance's audio ends."""

    kind: ClassVar[str] = "speech_stop"
    end: int


@dataclass(frozen=True, slots=True)
class RoundStats:
    """The cost of one round: wall seconds by stage, graph runs, and the audio it looked at. Of the encoder's seconds
    `features_s` went into the log-mel, if they are told apart (not those of a stream of blocks).
    """

    round_id: int = -1
    window_start: int = 0
    window_end: int = 0
    encode_s: float = 0.0
    decode_s: float = 0.0
    align_s: float = 0.0
    decoder_runs: int = 0
    tokens: int = 0
    features_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Confirmed(Event):
    """Words that will never change, to be appended to the transcript."""

    kind: ClassVar[str] = "confirmed"
    words: tuple[Word, ...]
    stats: RoundStats = field(default_factory=RoundStats)


@dataclass(frozen=True, slots=True)
class Hypothesis(Event):
    """The whole current guess after the confirmed words; it replaces the previous one."""

    kind: ClassVar[str] = "hypothesis"
    words: tuple[Word, ...]
    stats: RoundStats = field(default_factory=RoundStats)


@dataclass(frozen=True, slots=True)
class TurnEnd(Event):
    """A turn is over (pause, `flush()` or `finish()`): all its words are confirmed. A recipe with `vad_turn_s` lets a
    turn go on over short pauses in mid-sentence, one with `turn_end=smart-turn` over any in which the speaker is not
    done.

    eager       it may be over: a `SpeechStart` means that it goes on, else another `TurnEnd` follows without new words
    confidence  the probability that nobody speaks on; 1: nobody asked for it
    """

    kind: ClassVar[str] = "turn_end"
    end: int
    eager: bool = False
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Unheard(Event):
    """The voice gate found speech from `start` to `end`, but it gave no words; the `TurnEnd` follows."""

    kind: ClassVar[str] = "unheard"
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Language(Event):
    """The language that was detected. `took` samples of the utterance were heard before it was known, in another one or
    without a text.
    """

    kind: ClassVar[str] = "language"
    language: str
    probability: float
    took: int = 0


@dataclass(frozen=True, slots=True)
class Intent(Event):
    """The intent of an utterance, if a network that recognizes intents is in use (`understand.understanding`).

    A guess while they speak (not `final`); each replaces the one before of the same `start`. `intent` None: the network
    names nothing. `text` is the network's transcript, `perplexity` its uncertainty about that: 1 is certain.
    """

    kind: ClassVar[str] = "intent"
    start: int
    end: int
    intent: str | None
    text: str
    perplexity: float
    final: bool


@dataclass(frozen=True, slots=True)
class Translation(Event):
    """A finished sentence, or several that waited, in another language; where a translator was asked for
    (`translation`). It comes some time after the words from `start` to `end`, which stay as they are; `speaker` is
    theirs.
    """

    kind: ClassVar[str] = "translation"
    start: int
    end: int
    language: str
    text: str
    speaker: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Correction(Event):
    """The same sentences as a language model corrects them, in the language of the speech."""

    kind: ClassVar[str] = "correction"
    start: int
    end: int
    text: str
    speaker: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Lag(Event):
    """The session is `behind` samples late; `level` counts the declared steps of lowered quality (0 = full)."""

    kind: ClassVar[str] = "lag"
    behind: int
    level: int


@dataclass(frozen=True, slots=True)
class Error(Event):
    """Something failed; what is confirmed stays. `fatal` means that the session is over."""

    kind: ClassVar[str] = "error"
    message: str
    fatal: bool


@dataclass(frozen=True, slots=True)
class End(Event):
    """Nothing follows; `duration` samples of audio were received in all."""

    kind: ClassVar[str] = "end"
    duration: int


EVENT_TYPES: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        *(SpeechStart, SpeechStop, Confirmed, Hypothesis, Unheard, TurnEnd),
        *(Language, Intent, Translation, Correction, Lag, Error, End),
    )
}


def of_channel(event: Event, channel: int) -> Event:
    """The event as one of this channel, from 1, whose speaker has said its words."""
    if isinstance(event, Confirmed | Hypothesis):
        return replace(event, channel=channel, words=spoken_by(event.words, channel))
    if isinstance(event, Translation | Correction):
        return replace(event, channel=channel, speaker=channel)
    return replace(event, channel=channel)


def failure_of(error: Error) -> str:
    """What failed, in a line; of one channel, with its number."""
    return error.message if error.channel is None else f"channel {error.channel}: {error.message}"


# Fields that hold sample indices and leave this program as seconds.
_TIMES = frozenset({"at", "start", "end", "behind", "duration", "took", "window_start", "window_end"})
_UNSAID = frozenset({"speaker", "channel"})  # left out where nobody asked for voices or channels


def _plain(value: Any) -> Any:
    """Convert a dataclass's values to JSON-ready ones, samples to seconds."""
    if isinstance(value, dict):
        said = {key: item for key, item in value.items() if key not in _UNSAID or item is not None}
        return {key: seconds(item) if key in _TIMES else _plain(item) for key, item in said.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def to_dict(event: Event) -> dict[str, Any]:
    """Convert an event to a JSON-ready dictionary: `{"type": kind, ...}`, times in seconds."""
    return {"type": event.kind, **_plain(asdict(event))}


def _samples(data: dict[str, Any]) -> dict[str, Any]:
    return {key: to_samples(value) if key in _TIMES else value for key, value in data.items()}


def from_dict(data: dict[str, Any]) -> Event:
    """The inverse of `to_dict`.

    Raises `OptionError` when the type is unknown or a field is missing or superfluous.
    """
    cls = EVENT_TYPES.get(str(data.get("type")))
    if cls is None:
        raise OptionError(f"expected an event type among {', '.join(EVENT_TYPES)}; got {data.get('type')!r}")
    try:
        values = _samples({key: value for key, value in data.items() if key != "type"})
        if "words" in values:
            values["words"] = tuple(Word(**_samples(word)) for word in values["words"])
        if "stats" in values:
            values["stats"] = RoundStats(**_samples(values["stats"]))
    # ValueError and OverflowError for nan and infinities, which are no samples.
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise OptionError(f"expected numbers, words and statistics as `to_dict` writes them; got {error}") from error
    expected = {item.name for item in fields(cls)}
    optional = {item.name for item in fields(cls) if item.default is not MISSING} | {"stats"}
    if values.keys() - expected or expected - values.keys() - optional:
        raise OptionError(f"a {cls.kind} event has the fields {sorted(expected)}; got {sorted(values)}")
    return cls(**values)
