"""The base of a recipe's five choices: frozen values whose fields say what they mean and how far they go.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Adaptive(Rounds):
        kind: ClassVar[str] = "adaptive"
        step_s: float = setting(0.3, "a round when so much audio has arrived", least=0.02, most=30)
        step: int = in_samples("step_s")

Each value checks itself when it is made, and seconds that a person sets become samples there, once. Knows no choice in
particular.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

from whispertide.errors import OptionError
from whispertide.options import check_range, check_value, parse_switch
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE

T = TypeVar("T")


def setting(default: T, about: str, *, least: float | None = None, most: float | None = None) -> T:
    """A field of a choice: its default, what it means in a sentence, and its range where it has one."""
    # A `Field`, but declared as the type of its default, as `dataclasses.field` is: type checkers then see the field's
    # own.
    return field(default=default, metadata={"about": about, "least": least, "most": most})


def in_samples(seconds_of: str) -> Any:
    """The field of that name, which has seconds, in samples; it follows from that and is no setting itself."""
    return _follows(seconds_of, SAMPLE_RATE)


def in_frames(seconds_of: str) -> Any:
    """The same in encoder frames of 20 ms."""
    return _follows(seconds_of, SAMPLE_RATE // FRAME_SAMPLES)


def _follows(seconds_of: str, per_s: int) -> Any:
    return field(init=False, repr=False, compare=False, metadata={"seconds_of": seconds_of, "per_s": per_s})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of the things that can be chosen on an axis of a recipe. `kind` is its name there, and `ignores` names the
    decode options that it has no use for.

    Raises `OptionError` for a value of the wrong type or out of range.
    """

    kind: ClassVar[str]
    ignores: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self.check()
        for item in fields(self):
            if "seconds_of" in item.metadata:
                seconds = getattr(self, item.metadata["seconds_of"])
                # Frozen for everybody else.
                object.__setattr__(self, item.name, round(seconds * item.metadata["per_s"]))
        for name, value in self.derive().items():
            object.__setattr__(self, name, value)

    def derive(self) -> dict[str, Any]:
        """The values of other fields that are no settings, once the settings are known to be right."""
        return {}

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
            if item.init and item.metadata["least"] is not None:
                check_range(item.name, getattr(self, item.name), item.metadata["least"], item.metadata["most"])


# `get_type_hints` evaluates all annotations each time, and every change of a recipe asks for the fields.
_KNOWN: dict[type[Any], Mapping[str, Any]] = {}


def field_types(choice: type[Any]) -> Mapping[str, Any]:
    """Name -> type of every setting of a class of choices, in order."""
    if choice not in _KNOWN:
        hints = get_type_hints(choice)
        _KNOWN[choice] = MappingProxyType({item.name: hints[item.name] for item in fields(choice) if item.init})
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
