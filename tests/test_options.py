"""What is to be written down, and with what: options that cannot be are refused."""

from typing import Any

import pytest

from each_row import each_row
from whispertide.errors import OptionError
from whispertide.options import DecodeOptions, SubtitleOptions, check_range, check_value, parse_switch


@pytest.mark.parametrize(
    ("name", "value"),
    [("patience", 0), ("patience", float("nan")), ("patience", float("inf")), ("seed", -1), ("beam", 0)],
)
def test_what_cannot_be_is_refused(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"expected {name} >"):
        DecodeOptions(**{name: value})


@each_row(
    ("name", "value"),
    [
        ("length_penalty", "x"),
        ("logprob_threshold", [0]),
        ("compression_ratio_threshold", True),
        ("no_speech_threshold", "0.5"),
        ("seed", 1.5),
        ("seed", None),
        ("best_of", 2.5),
        ("max_tokens", 20.5),
        ("word_timestamps", "no"),
        ("timestamps", 1),
        ("suppress_blank", None),
        ("condition_on_previous_text", "yes"),
        ("prompt", None),
        ("prompt", ["a name"]),
        ("language", 5),
        ("patience", "2"),
        ("max_initial_timestamp", "1"),
    ],
)
def test_another_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"expected {name} to be of type .*; got "):
        DecodeOptions(**{name: value})


@each_row(
    ("name", "value"),
    [
        ("length_penalty", 1e300),
        ("length_penalty", float("nan")),
        ("logprob_threshold", 1),
        ("compression_ratio_threshold", -1),
        ("no_speech_threshold", 1.5),
        ("max_initial_timestamp", 31),
        ("max_initial_timestamp", float("nan")),
    ],
)
def test_numbers_out_of_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"expected {name} between .* and .*; got "):
        DecodeOptions(**{name: value})


@each_row(
    ("name", "value", "told"),
    [
        ("temperatures", 0.5, "numbers; got 0.5"),
        ("temperatures", "0.0", "numbers; got '0.0'"),
        ("temperatures", (0.0, "hot"), "numbers; got 'hot' in it"),
        ("temperatures", (True,), "numbers; got 'True' in it"),
        ("suppress_tokens", 5, "token ids; got 5"),
        ("suppress_tokens", ("the",), "token ids; got 'the' in it"),
        ("keyterms", "Anna", "texts; got 'Anna'"),
        ("languages", (1,), "texts; got '1' in it"),
    ],
)
def test_what_is_no_list_of_such_values_is_refused(name: str, value: Any, told: str) -> None:
    with pytest.raises(OptionError, match=f"expected {name} as a list of {told}"):
        DecodeOptions(**{name: value})


def test_a_list_is_as_good_as_a_tuple() -> None:
    listed = DecodeOptions(temperatures=[0.0, 1], suppress_tokens=[-1, 7], keyterms=["Anna"])  # type: ignore[arg-type]
    assert listed == DecodeOptions(temperatures=(0.0, 1.0), suppress_tokens=(-1, 7), keyterms=("Anna",))
    assert hash(listed)


@pytest.mark.parametrize("changes", [{"prompt": "a\ud800"}, {"keyterms": ("\udfff",)}, {"languages": ("\ud800",)}])
def test_half_of_a_character_is_no_text(changes: dict[str, Any]) -> None:
    """No tokenizer takes it: every round would fail."""
    with pytest.raises(OptionError, match=f"expected {next(iter(changes))} in UTF-8; got other bytes"):
        DecodeOptions(**changes)


def test_checks_can_be_switched_off_and_whole_numbers_are_numbers() -> None:
    off = DecodeOptions(logprob_threshold=None, compression_ratio_threshold=None, no_speech_threshold=None)
    assert off.length_penalty is None
    DecodeOptions(length_penalty=1, logprob_threshold=-1, compression_ratio_threshold=2, no_speech_threshold=1)


def test_the_checks_by_themselves() -> None:
    check_value("x", float, 1)
    check_value("x", str, "a")
    check_range("x", 1, 1, 1)
    with pytest.raises(OptionError, match="expected x to be of type str; got 1"):
        check_value("x", str, 1)
    with pytest.raises(OptionError, match=r"expected x between 1 and 2; got 2\.5"):
        check_range("x", 2.5, 1, 2)


@pytest.mark.parametrize("changes", [{"line_width": 9}, {"line_width": 20.5}, {"lines": 3}, {"lines": True}])
def test_a_shape_that_no_subtitle_has_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"expected {next(iter(changes))} "):
        SubtitleOptions(**changes)


@each_row(
    ("text", "meant"),
    [
        *((text, True) for text in ("true", "Yes", "on", "1")),
        *((text, False) for text in ("FALSE", "no", "off", "0")),
        *((text, None) for text in ("", "2", "maybe")),
    ],
)
def test_what_texts_of_a_switch_mean(text: str, meant: bool | None) -> None:
    assert parse_switch(text) is meant
