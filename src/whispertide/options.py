"""The user's settings, validated once. The command line, the server and the API build the same objects.

`EngineOptions` says how graphs run; `DecodeOptions` says what is to be written down. How a stream is cut into rounds is
the recipe's business (`recipes.catalogue`).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

from whispertide.errors import OptionError

BUNDLED_MODEL = "nano.en"
DEFAULT_MODEL = "base"
BEAM = 5  # of whole recordings on the command line, as of openai-whisper and faster-whisper
DEFAULT_RECIPE = "tide"  # recipes.catalogue has it, and the others
WHISPER_JSON = "whisper-json"  # a format: JSON in openai-whisper's shape

Precision = Literal["int8", "int8-weights", "fp32", "fp16"]
Task = Literal["transcribe", "translate"]
ProviderName = Literal["auto", "cpu", "cuda", "coreml", "qnn", "directml", "openvino", "torch"]

_WINDOW_S = 30  # seconds; `types` has it too, but needs numpy, which `--help` must not wait for

PRECISIONS: tuple[str, ...] = get_args(Precision)
TASKS: tuple[str, ...] = get_args(Task)
PROVIDERS: tuple[str, ...] = get_args(ProviderName)

MOST_THREADS = 256  # with thousands of them ONNX Runtime does not get as far as its first step


def check_choice(what: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise `OptionError` unless `value` is among `choices`."""
    if value not in choices:
        raise OptionError(f"expected {what} to be one of {', '.join(choices)}; got {value!r}")


def check_value(name: str, kind: Any, value: object) -> None:
    """Raise `OptionError` unless `value` is of the type, or among the literals, `kind`."""
    if get_origin(kind) is Literal:
        check_choice(name, value, get_args(kind))
        return
    if not _is_of(kind, value):
        raise OptionError(f"expected {name} to be of type {kind.__name__}; got {value!r}")


def _is_of(kind: type, value: object) -> bool:
    """True if `value` is of the type; whole numbers are numbers, too."""
    accepted = (int, float) if kind is float else (kind,)
    # To Python a bool is an int, and here it is no number.
    return isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raise `OptionError` unless `value` lies between `least` and `most`."""
    # Written with `not`, so that nan is refused: no comparison holds for it.
    if not least <= value <= most:
        raise OptionError(f"expected {name} between {least:g} and {most:g}; got {value}")


def file_extension(form: str) -> str:
    """The extension of files in a format: its name, but of the second shape of JSON that of the first."""
    return "json" if form == WHISPER_JSON else form


_SWITCH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def parse_switch(text: str) -> bool | None:
    """Parse "true", "yes", "on" or "1" and their opposites, in letters of any case; None for other texts."""
    return _SWITCH.get(text.lower())


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of the graphs. `threads` = 0 means one per physical core, at most 4."""

    precision: Precision = "int8"
    provider: ProviderName = "auto"
    threads: int = 0

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("provider", self.provider, PROVIDERS)
        if not 0 <= self.threads <= MOST_THREADS:
            raise OptionError(f"expected 0 to {MOST_THREADS} threads (0 = automatic); got {self.threads}")


@dataclass(frozen=True, slots=True)
class SubtitleOptions:
    """The size of a subtitle: so many lines, 1 or 2, of so many characters (`formats.subtitles`)."""

    line_width: int = 42
    lines: int = 2

    def __post_init__(self) -> None:
        for name, least, most in (("line_width", 10, 200), ("lines", 1, 2)):
            check_value(name, int, getattr(self, name))
            check_range(name, getattr(self, name), least, most)


# Of fields of `DecodeOptions`: from where to where numbers go, what type a field has, and which may be None.
_RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "length_penalty": (0, 10),
        "compression_ratio_threshold": (0, 1000),
        "logprob_threshold": (-1000, 0),
        "no_speech_threshold": (0, 1),
        "max_initial_timestamp": (0, _WINDOW_S),
    }
)
_TYPES: Mapping[str, type] = MappingProxyType(
    {
        **dict.fromkeys(("timestamps", "suppress_blank", "word_timestamps", "condition_on_previous_text"), bool),
        **dict.fromkeys(("beam", "best_of", "max_tokens", "seed", "speakers"), int),
        **dict.fromkeys(("patience", *_RANGES), float),
        **dict.fromkeys(("language", "prompt"), str),
    }
)
_MAY_BE_NONE = frozenset({"language", "max_tokens", "condition_on_previous_text", *_RANGES})


MOST_TERMS = 500  # key terms at once
LONGEST_TERM = 100  # characters
MOST_SPEAKERS = 20  # more than anybody tells apart on a page
MOST_CHANNELS = 8  # of what comes live, or from clients
ANY_SPEAKERS = 8  # at most, where nobody says how many


def check_text(name: str, text: str) -> None:
    """Raise `OptionError` for halves of surrogate pairs, which no tokenizer takes: half of a character, or
    what a command line has for bytes that are not UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        got = f"got other bytes, or half of a character, in {text[:40]!r}"
        raise OptionError(f"expected {name} in UTF-8; {got}: convert it, as by iconv") from None


def listed_values(name: str, what: str, kind: type, values: object) -> tuple[Any, ...]:
    """The values of a list, all of one type. Raises `OptionError`, which says `what` they should be, for others."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise OptionError(f"expected {name} as a list of {what}; got {values!r}")
    listed = tuple(values)
    if wrong := [value for value in listed if not _is_of(kind, value)]:
        raise OptionError(f"expected {name} as a list of {what}; got {str(wrong[0])[:40]!r} in it")
    return listed


def listed_texts(name: str, values: object) -> tuple[str, ...]:
    """The texts of a list, each once. Raises `OptionError` for anything else."""
    texts = tuple(dict.fromkeys(listed_values(name, "texts", str, values)))
    for text in texts:
        check_text(name, text)
    return texts


def checked_terms(terms: object) -> tuple[str, ...]:
    """Key terms without spaces around them, each once. Raises `OptionError` for what cannot be terms."""
    found = tuple(dict.fromkeys(" ".join(term.split()) for term in listed_texts("keyterms", terms) if term.strip()))
    if wrong := [term for term in found if len(term) > LONGEST_TERM]:
        raise OptionError(f"expected key terms of at most {LONGEST_TERM} characters; got {wrong[0][:40]!r} and more")
    if len(found) > MOST_TERMS:
        raise OptionError(f"expected at most {MOST_TERMS} key terms; got {len(found)}: list those that matter most")
    return found


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Options of decoding, with Whisper's rules (openai/whisper, decoding.py and transcribe.py).

    `language` is a code, a tag or an English name; None (or "auto") means: detect it (multilingual models) or English
    (`.en` models). `beam` 1 is greedy. `languages` are those that may be detected; empty: any. `keyterms` are
    names and words to be found where they are said. `speakers`: each word gets one of so many voices at most; 0: none.
    `temperatures` are tried in turn while a result fails the compression-ratio or log-probability check; a value
    of None switches a check off. With neither `timestamps` nor `word_timestamps` nothing tells where a text has
    closed early: the rest of its window is passed over, as by the original, or with a voice gate some seconds of it.
    """

    language: str | None = None
    task: Task = "transcribe"
    prompt: str = ""
    beam: int = 1
    patience: float = 1.0
    length_penalty: float | None = None
    temperatures: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    best_of: int = 5
    compression_ratio_threshold: float | None = 2.4
    logprob_threshold: float | None = -1.0
    no_speech_threshold: float | None = 0.6
    timestamps: bool = True
    max_initial_timestamp: float | None = None  # None = as the checkpoint says, else 1 s, as Whisper does; 30 = any
    suppress_blank: bool = True
    suppress_tokens: tuple[int, ...] | None = None  # None = the checkpoint's own list
    max_tokens: int | None = None  # None = half the text context (224), as Whisper does
    condition_on_previous_text: bool | None = None  # None = as the checkpoint says, else yes, as Whisper does
    word_timestamps: bool = True
    seed: int = 0
    languages: tuple[str, ...] = ()
    keyterms: tuple[str, ...] = ()
    speakers: int = 0

    def __post_init__(self) -> None:
        check_choice("task", self.task, TASKS)
        self._check_types()
        self._take_lists()
        check_text("prompt", self.prompt)
        if self.beam < 1 or self.best_of < 1:
            raise OptionError(f"expected beam >= 1 and best_of >= 1; got {self.beam} and {self.best_of}")
        if not self.temperatures or any(not 0.0 <= t <= 1.0 for t in self.temperatures):
            raise OptionError(f"expected one or more temperatures between 0 and 1; got {self.temperatures}")
        if not 0 < self.patience < math.inf:  # nor nan
            raise OptionError(f"expected patience > 0; got {self.patience}")
        check_range("speakers", self.speakers, 0, MOST_SPEAKERS)
        if self.seed < 0:
            raise OptionError(f"expected seed >= 0; got {self.seed}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise OptionError(f"expected max_tokens >= 1; got {self.max_tokens}")

    def _take_lists(self) -> None:
        """A list, as JSON has it, is as good as a tuple."""
        object.__setattr__(self, "keyterms", checked_terms(self.keyterms))
        object.__setattr__(self, "languages", listed_texts("languages", self.languages))
        temperatures = listed_values("temperatures", "numbers", float, self.temperatures)
        object.__setattr__(self, "temperatures", temperatures)
        if self.suppress_tokens is not None:
            tokens = listed_values("suppress_tokens", "token ids", int, self.suppress_tokens)
            object.__setattr__(self, "suppress_tokens", tokens)

    def _check_types(self) -> None:
        for name, kind in _TYPES.items():
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            check_value(name, kind, value)
            if name in _RANGES:
                check_range(name, value, *_RANGES[name])
