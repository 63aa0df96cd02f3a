"""Parse messages of other services' clients (JSON objects, query parameters, language tags), and build the answers.

What reads either returns a value of the type it promises or raises `ProtocolError`: clients send anything.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from whispertide.checkpoint.languages import DETECT, primary
from whispertide.errors import AudioError, OptionError
from whispertide.options import ANY_SPEAKERS, MOST_SPEAKERS, checked_terms, parse_switch
from whispertide.punctuation import ends_sentence
from whispertide.server.bounds import check_prompt
from whispertide.server.protocols.base import KEYS, Actions, Audio, ProtocolError, Reply
from whispertide.server.protocols.encodings import AudioInput
from whispertide.server.protocols.server_info import ServerInfo
from whispertide.types import FloatArray, Word, seconds

# How the services' clients say "find out yourself"
_ANY_LANGUAGE = frozenset({DETECT, "multi", "multilingual", "detect"})


def json_object(message: str | bytes) -> dict[str, Any]:
    """Parse a message as a JSON object."""
    try:
        value = parse_json(message)
    except ValueError as error:
        # Our own errors are plain ones and say why; those of the decoders are subclasses, whose texts quote the
        # message.
        why = f" ({error})" if type(error) is ValueError else ""
        raise ProtocolError(f"expected a JSON object; got {abbreviate(message)}{why}") from None
    if not isinstance(value, dict):
        raise ProtocolError(f"expected a JSON object; got {abbreviate(message)}")
    return value


def parse_json(message: str | bytes) -> Any:
    """Parse a message as a JSON value with finite numbers and text that can be encoded again.

    Raises `ValueError` for what is no JSON, and for what Python would take although nobody can mean it: NaN, numbers
    beyond a double, halves of surrogate pairs, lists in lists without end, and more values than any message has.
    """
    text = message.decode() if isinstance(message, bytes) else message
    if sum(map(text.count, ",[{")) > _MOST_VALUES:
        raise ValueError("too many values")
    try:
        value = json.loads(text, parse_constant=_not_json, parse_float=_real, parse_int=_integer)
        # The check goes through the whole value, so only where there are brackets enough for it to matter.
        if text.count("[") + text.count("{") > _DEEP:
            _check_depth(value)
    except RecursionError:
        raise ValueError("too deep") from None
    if _SURROGATE.search(text):
        try:
            # A whole pair can be encoded, half of one cannot.
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair is not text") from None
    return value


_DEEP = 50  # objects and lists in each other; no client's messages have ten
_MOST_VALUES = 20_000  # of commas and brackets, in texts too: the longest prompt may be all commas
_MOST_DIGITS = 300  # a double holds no more
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _not_json(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _integer(text: str) -> int:
    # Before it is converted: that takes longer than in proportion to the digits.
    if len(text) > _MOST_DIGITS:
        raise ValueError("a number is too large")
    return int(text)


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(_DEEP):
        level = [
            inner
            for item in level
            if isinstance(item, list | dict)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    if any(isinstance(item, list | dict) for item in level):
        raise ValueError("too deep")


def abbreviate(value: object) -> str:
    """Shorten `value` for an error message: bytes are only counted."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def is_whole(value: object) -> TypeGuard[int]:
    """True for a whole number. Excludes bool, which is an int to Python."""
    return isinstance(value, int) and not isinstance(value, bool)


def mapping(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """`values[name]` as an object; a missing one or null is empty."""
    value = values.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProtocolError(f"expected {name} to be an object; got {abbreviate(value)}")
    return value


def text(values: Mapping[str, Any], name: str) -> str | None:
    """`values[name]` as text; a missing one, null or an empty one is None."""
    value = values.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ProtocolError(f"expected {name} to be text; got {abbreviate(value)}")
    return value or None


def number(values: Mapping[str, Any], name: str, default: float | None = None) -> float | None:
    """`values[name]` as a finite number, also from the text of one; `default` if it is missing or null."""
    value = values.get(name)
    if value is None or value == "":
        return default
    try:
        result = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        result = math.nan
    if not math.isfinite(result):
        raise ProtocolError(f"expected {name} to be a number; got {abbreviate(value)}")
    return result


def whole(values: Mapping[str, Any], name: str, default: int) -> int:
    """`values[name]` as a whole number, also from the text of one; `default` if it is missing or null."""
    value = number(values, name, default)
    if value is None or value != int(value):
        raise ProtocolError(f"expected {name} to be a whole number; got {abbreviate(values.get(name))}")
    return int(value)


def switch(values: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """`values[name]` as a switch, also from its text; `default` if it is missing or null."""
    value = values.get(name)
    if value is None or value == "":
        return default
    result = parse_switch(str(value)) if isinstance(value, str | bool | int) else None
    if result is None:
        raise ProtocolError(f"expected {name} to be true or false; got {abbreviate(value)}")
    return result


def one_of(value: str, known: Collection[str], name: str) -> str:
    """The value, if it is known."""
    if value not in known:
        raise ProtocolError(f"expected {name} to be one of {', '.join(known)}; got {abbreviate(value)}")
    return value


def texts(value: object, name: str) -> list[str]:
    """Read a list of texts; null is empty."""
    if value is None:
        return []
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise ProtocolError(f"expected {name} to be a list of texts; got {abbreviate(value)}")
    items = list(value)
    if wrong := [item for item in items if not isinstance(item, str)]:
        raise ProtocolError(f"expected {name} to be a list of texts; got {abbreviate(wrong[0])} in it")
    return items


def speakers(values: Mapping[str, Any], switch_name: str, server: ServerInfo, most_name: str = "") -> int | None:
    """How many voices a client wants told apart; None: it does not say, or there is no network for it here."""
    if not server.hears_speakers or not switch(values, switch_name):
        return None
    most = whole(values, most_name, ANY_SPEAKERS) if most_name else ANY_SPEAKERS
    if not 1 <= most <= MOST_SPEAKERS:
        raise ProtocolError(f"expected {most_name} from 1 to {MOST_SPEAKERS}; got {most}")
    return most


def language(tag: str | None, server: ServerInfo) -> str | None:
    """Convert a language tag such as "en-US" to the code that a served model knows ("en"), or `DETECT`; None: the
    client names none.
    """
    if not tag:
        return None
    if tag.lower() in _ANY_LANGUAGE:
        return DETECT
    code = primary(tag)
    known = sorted({code for model in server.models for code in model.languages})
    if code not in known:
        raise ProtocolError(f"expected a language that is served ({', '.join(known)}); got {abbreviate(tag)}")
    return code


def pause(milliseconds: float | None) -> dict[str, Any]:
    """The change of the recipe for the silence that ends a turn, within the limits of that setting; None: no change."""
    if milliseconds is None:
        return {}
    # A client that names a pause wants each such pause to end a turn, also in mid-sentence.
    return {"vad_pause_s": min(max(milliseconds / 1000, 0.1), 30.0), "vad_turn_s": 0.0, "turn_end": "pause"}


def languages(tags: Iterable[str], server: ServerInfo) -> tuple[str, ...]:
    """Convert the tags of those languages that a client expects to codes; those that mean any language are left out."""
    codes = (language(tag, server) for tag in tags)
    return tuple(dict.fromkeys(code for code in codes if code not in (None, DETECT)))


def prompt(written: str | None) -> str:
    """A client's prompt. One that is too long is refused here, before the session is confirmed."""
    try:
        check_prompt(written or "")
    except OptionError as error:
        raise ProtocolError(str(error)) from error
    return written or ""


def keyterms(terms: Iterable[str]) -> tuple[str, ...]:
    """The names and words that a client wants found; too many, or too long ones, are refused here as well."""
    try:
        return checked_terms(terms)
    except OptionError as error:
        raise ProtocolError(str(error)) from error


def audio_input(encoding: str, *, rate: int, channels: int = 1, channel: int | None = None) -> AudioInput:
    """Make the input for audio as a client announced it."""
    try:
        return AudioInput(encoding, rate=rate, channels=channels, channel=channel)
    except OptionError as error:
        raise ProtocolError(str(error)) from error


# --- what is not done -------------------------------------------------------------------------------------------------

_NAMED = 5  # fields without effect that an answer names


def without_effect(values: Mapping[str, Any], done: Collection[str]) -> list[str]:
    """The names of fields that are neither `done` nor a key, in order. One that is empty or off asks for nothing."""
    return sorted(abbreviate(name) for name in values.keys() - {*done, *KEYS} if _asks(values[name]))


def _asks(value: object) -> bool:
    return bool(value) and not (isinstance(value, str) and parse_switch(value) is False)


def warning(names: Sequence[str]) -> str:
    """The text that tells a client of fields without effect; "" if there are none."""
    listed = [*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])]
    return f"fields without effect: {', '.join(listed)}" if listed else ""


# --- what becomes of it -----------------------------------------------------------------------------------------------

_LONG_TURN = 1_000  # words: some six minutes without a pause
_LONG_SENTENCE = 200  # after which it ends within one


def is_long_turn(words: Sequence[Word]) -> bool:
    """True if a turn of these words ends here, whatever pauses say: each of its messages has all of them."""
    over = len(words) - _LONG_TURN
    return over >= 0 and (over >= _LONG_SENTENCE or ends_sentence(words[-1].text))


def audio_actions(samples: FloatArray) -> Actions:
    """The actions for samples: none for no samples."""
    return (Audio(samples),) if len(samples) else ()


def decode_audio(audio: AudioInput, data: bytes) -> Actions:
    """Decode a client's audio. Raises `ProtocolError` if it cannot: all audio after a gap would be decoded wrong."""
    try:
        return audio_actions(audio.feed(data))
    except AudioError as error:
        raise ProtocolError(str(error), fatal=True) from error


def reply(**values: Any) -> Reply:
    """Encode a JSON object as the answer."""
    return Reply(json.dumps(values, ensure_ascii=False))


def letter(speaker: int) -> str:
    """The letter of a voice, by which some services call it: A for the first."""
    return chr(ord("A") + (speaker - 1) % 26) * (1 + (speaker - 1) // 26)


def milliseconds(samples: int) -> int:
    return round(1000 * seconds(samples))
