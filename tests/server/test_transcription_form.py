"""What a form asks for, without HTTP: its fields, their defaults, and those that cannot be."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import FormData, UploadFile

from each_row import each_row
from whispertide.checkpoint.languages import language_code
from whispertide.errors import OptionError, UnknownLanguageError
from whispertide.options import ANY_SPEAKERS, DecodeOptions
from whispertide.server.options import ServerOptions
from whispertide.server.protocols.base import ProtocolError
from whispertide.server.protocols.server_info import ModelInfo
from whispertide.server.transcription_form import TranscriptionRequest, _speakers, read_request


class Tokenizer:
    """Knows German and English."""

    languages = ("de", "en")

    def language(self, code: str) -> str:
        if language_code(code) not in self.languages:
            raise UnknownLanguageError(code)
        return code


def read(*fields: tuple[str, str], task: Any = "transcribe", **more: str) -> TranscriptionRequest:
    models = (ModelInfo("nano.en"), ModelInfo("base", ("de", "en"), translates=True))
    hub: Any = SimpleNamespace(
        info=SimpleNamespace(models=models),
        options=ServerOptions(text=DecodeOptions(prompt="Usual.")),
        models={info.name: SimpleNamespace(tokenizer=Tokenizer()) for info in models},
    )
    file = UploadFile(io.BytesIO(b"sound"), filename="../a.wav")
    return read_request(FormData([("file", file), *fields, *more.items()]), task, hub)


def test_what_nobody_says_is_as_usual() -> None:
    asked = read()
    assert asked.file.read() == b"sound"
    assert (asked.model, asked.format, asked.stream) == ("nano.en", "json", False)
    assert asked.granularities == {"segment"}
    assert asked.options.prompt == "Usual."
    assert asked.options.temperatures == DecodeOptions().temperatures
    assert not asked.options.word_timestamps
    assert asked.headers() == {"x-whispertide-model": "nano.en"}


def test_a_model_is_chosen_by_its_name_and_by_what_it_can_write() -> None:
    assert read(model="base").model == "base"
    assert read(model="whisper-1").model == "nano.en"  # OpenAI's names mean none
    assert read(language="de").model == "base"
    assert read(task="translate").model == "base"
    with pytest.raises(OptionError, match="cannot translate"):
        read(task="translate", model="nano.en")


def test_lists_come_between_commas_or_one_by_one() -> None:
    asked = read(("keyterms", "Ada, Bob"), ("keyterms[]", "Eve"), ("hotwords", "Zoe"), ("languages", "de,en"))
    assert asked.options.keyterms == ("Ada", "Bob", "Eve", "Zoe")
    assert read(("keywords[]", "Ada"), ("keywords[]", "Bob")).options.keyterms == ("Ada", "Bob")  # OpenAI's
    assert asked.options.languages == ("de", "en")
    assert asked.ignored == ()


def test_a_field_of_one_value_is_not_given_two() -> None:
    """The last one counted."""
    with pytest.raises(OptionError, match="expected one value of the field language; got 2"):
        read(("language", "de"), ("language", "en"))
    assert read(("language", "de"), ("language", "de"), ("include[]", "x"), ("include[]", "y")).model == "base"


def test_channels_are_speakers_whatever_the_server_tells_apart_else() -> None:
    asked = read(multichannel="true", response_format="diarized_json")
    assert (asked.multichannel, asked.options.speakers, asked.options.word_timestamps) == (True, 0, True)
    assert asked.ignored == ()
    assert not read().multichannel


def test_words_are_timed_where_the_answer_has_them() -> None:
    assert read(response_format="srt").options.word_timestamps
    assert read(response_format="vtt").options.word_timestamps
    both = read(("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment"))
    assert both.granularities == {"word", "segment"}
    assert both.options.word_timestamps


def test_a_temperature_is_the_only_one() -> None:
    assert read(temperature="0.4").options.temperatures == (0.4,)
    assert read(temperature="0").options.temperatures == DecodeOptions().temperatures


@each_row(
    ("fields", "said"),
    [
        ({"response_format": "docx"}, "response_format"),
        ({"timestamp_granularities": "letter"}, "word, segment; got letter"),
        ({"temperature": "1.5"}, "between 0 and 1"),
        ({"speakers": "-1"}, "speakers"),
        ({"speakers": "0", "response_format": "diarized_json"}, "speakers"),
        ({"language": "klingon"}, "klingon"),
    ],
)
def test_what_cannot_be_is_said(fields: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        read(**fields)


@pytest.mark.parametrize("fields", [{"temperature": "warm"}, {"stream": "perhaps"}, {"speakers": "1.5"}])
def test_what_is_no_value_is_said(fields: dict[str, str]) -> None:
    with pytest.raises(ProtocolError, match=next(iter(fields))):
        read(**fields)


def test_a_file_that_is_a_text_is_none() -> None:
    with pytest.raises(OptionError, match="`file`"):
        read_request(FormData([("file", "sound")]), "transcribe", SimpleNamespace())  # type: ignore[arg-type]


def test_fields_without_effect_are_told_next_to_the_audios_warning() -> None:
    asked = read(chunking_strategy="auto", include="logprobs", stream="true")
    assert asked.ignored == ("chunking_strategy", "include")
    assert asked.stream
    assert asked.warning("cut off") == "fields without effect: chunking_strategy, include; cut off"
    told = json.loads(asked.headers("gekürzt")["x-whispertide-warning"])
    assert told.endswith("gekürzt")
    assert asked.headers("gekürzt")["x-whispertide-warning"].isascii()


def test_how_many_voices() -> None:
    assert _speakers({}, "json") is None
    assert _speakers({}, "diarized_json") == ANY_SPEAKERS
    assert _speakers({"speakers": "3"}, "srt") == 3
    assert _speakers({"speakers": "0"}, "json") == 0
    for wrong, form in (("0", "diarized_json"), ("21", "json"), ("-1", "json")):
        with pytest.raises(OptionError, match="speakers"):
            _speakers({"speakers": wrong}, form)
