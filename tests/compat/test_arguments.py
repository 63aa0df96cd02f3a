import inspect
from dataclasses import replace
from typing import Any

import pytest

from each_row import each_row
from reference import nano
from whispertide.compat.arguments import check_served, decode_options, lasting_prompt, vad_options
from whispertide.compat.faster_whisper import WhisperModel
from whispertide.compat.values import TranscriptionOptions, VadOptions
from whispertide.errors import OptionError
from whispertide.options import DecodeOptions


def usual(**changes: Any) -> TranscriptionOptions:
    """What `transcribe` asks for where its caller asks for nothing."""
    defaults = {name: each.default for name, each in inspect.signature(WhisperModel.transcribe).parameters.items()}
    names = TranscriptionOptions.__dataclass_fields__.keys() - {"temperatures"}
    asked = TranscriptionOptions(**{name: defaults[name] for name in names}, temperatures=defaults["temperature"])
    return replace(asked, **changes)


def options(**changes: Any) -> DecodeOptions:
    return decode_options(usual(**changes), nano().tokenizer, language="en", task="transcribe")


def test_the_defaults_are_those_of_faster_whisper() -> None:
    assert options() == DecodeOptions(
        language="en",
        beam=5,
        suppress_tokens=(-1,),
        max_initial_timestamp=1.0,
        condition_on_previous_text=True,
        word_timestamps=False,
    )


@each_row(
    ("asked", "field", "value"),
    [
        ({"beam_size": 1}, "beam", 1),
        ({"temperatures": [0.4]}, "temperatures", (0.4,)),
        ({"log_prob_threshold": None}, "logprob_threshold", None),
        ({"length_penalty": 0}, "length_penalty", 0.0),
        ({"without_timestamps": True}, "timestamps", False),
        ({"without_timestamps": True}, "word_timestamps", True),  # which tell what was left out
        ({"suppress_tokens": None}, "suppress_tokens", ()),
        ({"suppress_tokens": [-1, 7]}, "suppress_tokens", (-1, 7)),
        ({"max_new_tokens": 20}, "max_tokens", 20),
        ({"initial_prompt": "A letter."}, "prompt", "A letter."),
        ({"hotwords": "Ebbe, Flut", "initial_prompt": "Am Meer."}, "prompt", "Am Meer."),
    ],
)
def test_what_becomes_of_an_argument(asked: dict[str, Any], field: str, value: object) -> None:
    assert getattr(options(**asked), field) == value


def test_a_prompt_may_be_tokens() -> None:
    assert options(initial_prompt=nano().tokenizer.encode(" A letter.")).prompt == "A letter."


def test_hotwords_are_a_text() -> None:
    assert (lasting_prompt(None), lasting_prompt("Ebbe, Flut")) == ("", "Ebbe, Flut")
    for wrong in (["Ebbe", "Flut"], "Ebb\ud800"):
        with pytest.raises(OptionError, match="expected hotwords"):
            lasting_prompt(wrong)  # type: ignore[arg-type]


def test_what_nobody_changes_is_served() -> None:
    check_served(usual(), chunk_length=None, vad_filter=False)
    check_served(usual(clip_timestamps=(0,), multilingual=True), chunk_length=30, vad_filter=True)


@each_row(
    ("asked", "said"),
    [
        ({"length_penalty": 0.8}, "expected length_penalty to be 1 or 0; got 0.8: leave it out"),
        ({"repetition_penalty": 1.2}, "higher temperature"),
        ({"no_repeat_ngram_size": 3}, "higher temperature"),
        ({"prompt_reset_on_temperature": 0.2}, "to be 0.5; got 0.2: leave it out"),
        ({"prefix": "And so"}, "give the text as initial_prompt"),
        ({"append_punctuations": "."}, "append_punctuations"),
        ({"clip_timestamps": "3,5"}, r"cut the samples: audio\[start"),
        ({"clip_timestamps": [3.0, 5.0]}, "cut the samples"),
        ({"hallucination_silence_threshold": 2.0}, "vad_filter=True"),
        ({"multilingual": True}, "expected vad_filter=True"),
    ],
)
def test_what_cannot_be_served_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        check_served(usual(**asked), chunk_length=None, vad_filter=False)


def test_another_length_of_windows_is_refused() -> None:
    with pytest.raises(OptionError, match="expected chunk_length to be None or 30; got 15"):
        check_served(usual(), chunk_length=15, vad_filter=False)


def test_settings_of_the_voice_filter_are_kept_and_warned_of() -> None:
    assert (vad_options(None, used=False), vad_options(None, used=True)) == (None, VadOptions())
    with pytest.warns(UserWarning, match="vad_parameters have no effect"):
        kept = vad_options({"min_silence_duration_ms": 500}, used=True)
    assert kept == VadOptions(min_silence_duration_ms=500)
    with pytest.warns(UserWarning, match="no effect"):
        assert vad_options(kept, used=False) is kept
