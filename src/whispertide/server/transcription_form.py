"""The form of a transcription request: read without trusting it, and checked."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO
from urllib.parse import quote

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.types import Receive

from whispertide.channels import apart_options
from whispertide.errors import OptionError
from whispertide.options import (
    ANY_SPEAKERS,
    MOST_SPEAKERS,
    MOST_TERMS,
    DecodeOptions,
    Task,
    check_choice,
    check_range,
)
from whispertide.server.bodies import read_pieces
from whispertide.server.bounds import check_prompt
from whispertide.server.defaults import choose_model
from whispertide.server.hub import Hub
from whispertide.server.protocols import base, messages
from whispertide.speakers.embedding import find_embedding
from whispertide.translation.translator import TranslationOptions

DIARIZED = "diarized_json"
_FORMATS = ("json", "text", "srt", "verbose_json", "vtt", DIARIZED)
_GRANULARITIES = ("word", "segment")
_LISTED = ("timestamp_granularities[]", "timestamp_granularities")
# Lists, between commas or repeated; of the last three names one is ours, one OpenAI's, one of other servers.
_LISTS = {"languages": "languages", "keyterms": "keyterms", "keywords": "keyterms", "hotwords": "keyterms"}
_SEVERAL = {*_LISTED, *(name + many for name in _LISTS for many in ("", "[]"))}  # fields that may come again
_SINGLE = {
    *("file", "model", "language", "prompt", "response_format", "temperature", "stream", "speakers"),
    *("translate_to", "correct", "multichannel"),
}
_KNOWN = _SINGLE | _SEVERAL
_FIELDS = 32 + MOST_TERMS  # that a form may have next to the file: each term of a list may be one
_FIELD_BYTES = 2**18  # in all of them, which is what the longest prompt and list of terms take; they lie in memory
OVERHEAD = 2 * _FIELD_BYTES  # bytes of a form next to the file: its fields, and what stands around them


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """A checked request. `translation` is what is to be made of its sentences, `ignored` are its unknown fields. With
    `multichannel` each channel is transcribed by itself.
    """

    file: BinaryIO
    model: str
    format: str
    granularities: frozenset[str]
    stream: bool
    options: DecodeOptions
    ignored: tuple[str, ...] = ()
    translation: TranslationOptions | None = None
    multichannel: bool = False

    def headers(self, *warnings: str) -> dict[str, str]:
        """Headers of the answer: its model and its warnings, in ASCII."""
        warned = {"x-whispertide-warning": json.dumps(text)} if (text := self.warning(*warnings)) else {}
        return {"x-whispertide-model": quote(self.model, safe="/@:+, "), **warned}

    def warning(self, *warnings: str) -> str:
        """The warning for the client: fields without effect, and the `warnings` of the audio and its translation."""
        names = [messages.abbreviate(name) for name in self.ignored]
        return "; ".join(filter(None, (messages.warning(names), *warnings)))


class _FormParser(MultiPartParser):
    """Bounds all fields of a form together; the file is on the disk, and bounded by what the body may have."""

    _room = _FIELD_BYTES

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        """Take bytes of a field, or of the file."""
        if self._current_part.file is None:
            self._room -= end - start
            if self._room < 0:
                raise MultiPartException(f"got more than {_FIELD_BYTES} bytes in its other fields")
        super().on_part_data(data, start, end)


async def read_form(request: Request, receive: Receive) -> FormData:
    """Read the form of a request. Raises `ValueError` where it is none, or in another charset than UTF-8."""
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        raise ValueError(f"got content of the type {kind[:100]!r}")
    # As the parser below reads it, which takes the last of several; some codecs take hours.
    charset = parse_options_header(kind)[1].get(b"charset", b"utf-8").decode("latin-1")
    if charset.lower() not in ("utf-8", "utf8"):
        raise ValueError(f"got fields in {charset[:40]!r}. Send UTF-8")
    body = read_pieces(receive)
    parser = _FormParser(request.headers, body, max_files=1, max_fields=_FIELDS, max_part_size=_FIELD_BYTES)
    return await parser.parse()


def read_request(form: FormData, task: Task, hub: Hub) -> TranscriptionRequest:
    """Check what the form asks for. Raises `OptionError`, `ProtocolError`, or `CheckpointNotFoundError` where voices
    cannot be told apart.
    """
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise OptionError("expected the field `file` to be a file; got none")
    for name in sorted(_SINGLE):
        if (count := len(set(form.getlist(name)))) > 1:
            raise OptionError(f"expected one value of the field {name}; got {count}")
    texts = {key: value for key, value in form.items() if isinstance(value, str)}
    format_ = texts.get("response_format", "json") or "json"
    check_choice("response_format", format_, _FORMATS)
    lists = [value for key in _LISTED for value in form.getlist(key)]
    granularities = frozenset(value for value in lists if isinstance(value, str)) or frozenset({"segment"})
    if not granularities <= set(_GRANULARITIES):
        got = ", ".join(messages.abbreviate(value) for value in sorted(granularities - set(_GRANULARITIES)))
        raise OptionError(f"expected timestamp_granularities among {', '.join(_GRANULARITIES)}; got {got}")
    several, multichannel = _read_lists(form), messages.switch(texts, "multichannel")
    # Clients name OpenAI's models, so any other name means none.
    asked = base.Settings(
        model=texts.get("model"),
        language=texts.get("language") or None,
        task=task,
        prompt=texts.get("prompt", ""),
        languages=several["languages"],
        keyterms=several["keyterms"],
        speakers=_speakers(texts, format_, multichannel=multichannel),
    )
    translation = _read_translation(texts)
    if translation is not None:
        hub.translations.check(replace(asked, translate_to=translation.to, correct=translation.correct))
    model, settings = choose_model(hub.info.models, asked, hub.options.text)
    check_prompt(settings.prompt)
    options = replace(
        settings.options,
        temperatures=_read_temperatures(texts),
        word_timestamps="word" in granularities or format_ in ("srt", "vtt"),
    )
    if multichannel:
        options = apart_options(options)
    if options.speakers:
        find_embedding()  # for its error
    if task == "translate" and not model.translates:
        raise OptionError("an English-only model cannot translate; serve a multilingual model such as 'base'")
    if options.language is not None:  # for its error
        hub.models[model.name].tokenizer.language(options.language)
    stream, ignored = messages.switch(texts, "stream"), tuple(sorted(form.keys() - _KNOWN))
    known = (file.file, model.name, format_, granularities, stream, options)
    return TranscriptionRequest(*known, ignored, translation, multichannel)


def _speakers(texts: Mapping[str, str], form: str, *, multichannel: bool = False) -> int | None:
    """How many voices are to be told apart: as many as there are for the format that has them, none where each channel
    is a speaker; None: nobody says.
    """
    usual = 0 if multichannel else ANY_SPEAKERS if form == DIARIZED else None
    if not texts.get("speakers"):
        return usual
    most = messages.whole(texts, "speakers", 0)
    check_range("speakers", most, 1 if form == DIARIZED else 0, MOST_SPEAKERS)
    return most


def _read_lists(form: FormData) -> dict[str, tuple[str, ...]]:
    """Read the fields of several texts, which other servers have too: between commas, or a field for each."""
    found: dict[str, tuple[str, ...]] = dict.fromkeys(_LISTS.values(), ())
    for name, setting in _LISTS.items():
        given = [value for key in (name, f"{name}[]") for value in form.getlist(key) if isinstance(value, str)]
        found[setting] += tuple(part.strip() for value in given for part in value.split(",") if part.strip())
    return found


def _read_temperatures(texts: Mapping[str, str]) -> tuple[float, ...]:
    """Parse the temperature. 0 or none mean Whisper's own: 0 first, higher if that fails."""
    value = messages.number(texts, "temperature") or 0.0
    if not 0 <= value <= 1:
        raise OptionError(f"expected a temperature between 0 and 1; got {value:g}")
    return (value,) if value else DecodeOptions().temperatures


def _read_translation(texts: Mapping[str, str]) -> TranslationOptions | None:
    """What is to be made of the sentences: `translate_to` and `correct`; None: nothing. Raises `OptionError`."""
    to, correct = texts.get("translate_to") or None, messages.switch(texts, "correct")
    return TranslationOptions(to, correct) if to is not None or correct else None
