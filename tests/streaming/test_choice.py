"""What the choices of a recipe have in common, on two that are made up."""

from dataclasses import FrozenInstanceError, dataclass
from typing import Any, ClassVar, Literal

import pytest

from each_row import each_row
from whispertide.errors import OptionError
from whispertide.streaming.choice import Choice, field_types, parse_value, setting

Shade = Literal["light", "dark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint(Choice):
    """One."""

    kind: ClassVar[str] = "paint"
    coats: int = setting(2, "how often", least=1, most=5)
    litres: float = setting(1.5, "how much", least=0.5, most=10)
    glossy: bool = setting(False, "whether it shines")
    shade: Shade = setting("light", "which")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper(Choice):
    """Another, with a field of the same name."""

    kind: ClassVar[str] = "paper"
    coats: int = setting(1, "how often", least=1, most=3)
    metres: float = setting(10.0, "how much", least=1, most=100)


def test_a_choice_is_a_frozen_value() -> None:
    assert Paint(coats=3) == Paint(coats=3) != Paint()
    assert len({Paint(), Paint(coats=2), Paper()}) == 2
    with pytest.raises(FrozenInstanceError):
        Paint().coats = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        Paint(3)  # type: ignore[call-arg]  # nobody has to know the order


def test_fields_have_types_and_the_kind_is_none() -> None:
    assert dict(field_types(Paint)) == {"coats": int, "litres": float, "glossy": bool, "shade": Shade}
    assert list(field_types(Paper)) == ["coats", "metres"]


@each_row(
    ("changes", "message"),
    [
        ({"coats": 0}, "expected coats between 1 and 5; got 0"),
        ({"coats": 6}, "expected coats between 1 and 5; got 6"),
        ({"coats": 2.0}, "expected coats to be of type int; got 2.0"),
        ({"coats": True}, "expected coats to be of type int; got True"),
        ({"litres": 0.49}, "expected litres between 0.5 and 10; got 0.49"),
        ({"litres": float("nan")}, "expected litres between 0.5 and 10; got nan"),
        ({"litres": True}, "expected litres to be of type float; got True"),
        ({"litres": "2"}, "expected litres to be of type float; got '2'"),
        ({"litres": None}, "expected litres to be of type float; got None"),
        ({"glossy": 1}, "expected glossy to be of type bool; got 1"),
        ({"shade": "grey"}, "expected shade to be one of light, dark; got 'grey'"),
        ({"shade": ["light"]}, "expected shade to be one of light, dark; got"),
    ],
)
def test_each_checks_itself(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Paint(**changes)


@each_row("changes", [{"coats": 1}, {"coats": 5}, {"litres": 0.5}, {"litres": 10}, {"shade": "dark"}])
def test_what_lies_within_is_taken_as_it_is(changes: dict[str, Any]) -> None:
    paint = Paint(**changes)
    assert {name: getattr(paint, name) for name in changes} == changes


def test_in_place_of_another_the_fields_that_both_have_stay() -> None:
    assert Paper.instead_of(Paint(coats=3, litres=9)) == Paper(coats=3)
    assert Paint.instead_of(Paper(coats=1, metres=50)) == Paint(coats=1)
    assert Paint.instead_of(Paint(coats=4, glossy=True)) == Paint(coats=4, glossy=True)
    with pytest.raises(OptionError, match="coats between 1 and 3; got 5"):
        Paper.instead_of(Paint(coats=5))


@each_row(
    ("kind", "text", "value"),
    [
        (int, "7", 7),
        (float, "7", 7.0),
        (float, "1e-1", 0.1),
        (str, "mine", "mine"),
        (Shade, "dark", "dark"),
        *((bool, text, True) for text in ("true", "yes", "on", "1", "Yes", "TRUE")),
        *((bool, text, False) for text in ("false", "no", "off", "0", "OFF")),
    ],
)
def test_values_are_typed(kind: Any, text: str, value: object) -> None:
    found = parse_value("x", kind, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (int, "2.5", "expected x to be a whole number; got '2.5'"),
        (float, "fast", "expected x to be a number; got 'fast'"),
        (bool, "maybe", "expected x to be true or false; got 'maybe'"),
    ],
)
def test_texts_that_are_no_values(kind: Any, text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_value("x", kind, text)
