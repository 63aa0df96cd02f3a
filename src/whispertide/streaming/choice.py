"""What the five choices of a recipe have in common: frozen values whose fields say what they mean and how far they go.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Adaptive(Rounds):
        kind: ClassVar[str] = "adaptive"
        step_s: float = setting(0.3, "a round when so much audio has arrived", least=0.02, most=30)

Each value checks itself when it is made. Knows no choice in particular.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

from whispertide.errors import OptionError
from whispertide.options import check_range, check_value, parse_switch

T = TypeVar("T")


def setting(default: T, about: str, *, least: float | None = None, most: float | None = None) -> T:
    """A field of a choice: its default, what it means in a sentence, and its range where it has one."""
    # A `Field`, but declared as the type of its default, as `dataclasses.field` is: type checkers then see the field's
    # own.
    return field(default=default, metadata={"about": about, "least": least, "most": most})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of the things that can be chosen on an axis of a recipe. `kind` is its name there.

    Raises `OptionError` for a value of the wrong type or out of range.
    """

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        self.check()

    @classmethod
    def instead_of(cls, other: "Choice", **changes: Any) -> Self:
        """This choice in place of another on its axis: the fields that both have stay, but for `changes`."""
        kept = field_types(type(other)).keys() & field_types(cls).keys()
        return cls(**{name: getattr(other, name) for name in kept} | changes)

    def check(self) -> None:
        """Every field by itself; a choice whose fields bound each other adds to it."""
        for name, kind in field_types(type(self)).items():
            check_value(name, kind, getattr(self, name))
        for item in fields(self):
            least, most = item.metadata["least"], item.metadata["most"]
            if least is not None:
                check_range(item.name, getattr(self, item.name), least, most)


# `get_type_hints` evaluates all annotations each time, and every change of a recipe asks for the fields.
_KNOWN: dict[type[Any], Mapping[str, Any]] = {}


def field_types(choice: type[Any]) -> Mapping[str, Any]:
    """Name -> type of every field of a class of choices, in order."""
    if choice not in _KNOWN:
        hints = get_type_hints(choice)
        _KNOWN[choice] = MappingProxyType({item.name: hints[item.name] for item in fields(choice)})
    return _KNOWN[choice]


def parse_value(name: str, kind: Any, text: str) -> Any:
    """`text` as a value of the field's type. Raises `OptionError` for a text that is none."""
    if kind is bool:
        if (switch := parse_switch(text)) is None:
            raise OptionError(f"expected {name} to be true or false; got {text!r}")
        return switch
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            expected = "a whole number" if kind is int else "a number"
            raise OptionError(f"expected {name} to be {expected}; got {text!r}") from None
    return text
