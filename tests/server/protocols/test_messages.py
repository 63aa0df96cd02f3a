import json
import math
from typing import Any

import pytest

from each_row import each_row
from whispertide.server.protocols import messages
from whispertide.server.protocols.base import ProtocolError


@each_row(("value", "whole"), [(0, True), (-3, True), (True, False), (1.0, False), ("1", False), (None, False)])
def test_whole_numbers(value: object, whole: bool) -> None:
    assert messages.is_whole(value) is whole


@each_row(
    ("value", "read"), [("on", True), (1, True), (True, True), ("No", False), (0, False), (None, False), ("", False)]
)
def test_switches(value: object, read: bool) -> None:
    assert messages.switch({"x": value}, "x") is read


def test_fields_that_ask_for_something_that_is_not_done() -> None:
    values = {"b": 1, "a": "true", "done": "true", "off": "false", "zero": 0, "none": None, "empty": [], "token": "x"}
    assert messages.without_effect(values, {"done"}) == ["a", "b"]


def test_a_warning_names_the_first_fields() -> None:
    assert messages.warning([]) == ""
    assert messages.warning(["a", "b"]) == "fields without effect: a, b"
    assert messages.warning(list("abcdefg")) == "fields without effect: a, b, c, d, e, 2 more"


@each_row("value", ["maybe", 2, 1.0, math.nan, [True]])
def test_what_is_no_switch(value: Any) -> None:
    with pytest.raises(ProtocolError, match="expected x to be true or false"):
        messages.switch({"x": value}, "x")


def test_errors_show_little_of_a_value() -> None:
    assert messages.abbreviate(b"abc") == "3 bytes"
    assert messages.abbreviate({"a": 1}) == "{'a': 1}"
    assert messages.abbreviate("x" * 61) == "x" * 57 + "..."


@pytest.mark.parametrize("value", ["0", "[]", '{"a":0}', '"a"'])
def test_a_message_has_so_many_values_and_no_more(value: str) -> None:
    """A megabyte of them would keep everybody waiting for a third of a second."""
    assert len(messages.json_object('{"x":[' + ",".join([value] * 5_000) + "]}")["x"]) == 5_000
    with pytest.raises(ProtocolError, match="too many values"):
        messages.json_object('{"x":[' + ",".join([value] * 100_000) + "]}")


def test_the_longest_prompt_may_be_all_commas() -> None:
    assert messages.json_object(json.dumps({"prompt": "," * 10_000}))["prompt"] == "," * 10_000
