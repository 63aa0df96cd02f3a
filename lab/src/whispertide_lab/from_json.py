"""Values from what JSON made of them: the inverse of `dataclasses.asdict`. Knows no value in particular."""

from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


def built(kind: Any, value: Any) -> Any:
    """A value of the type `kind`: nested dataclasses, tuples, lists and dictionaries of any depth, None where that may
    be; anything else as it is.

    Raises `TypeError` or `KeyError` where `value` is none.
    """
    if is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, dict):
            raise TypeError(f"expected an object for {kind.__name__}; got {value!r:.60}")
        hints = _hints(kind)
        return kind(**{name: built(hints[name], item) for name, item in value.items()})
    origin = get_origin(kind)
    if origin in (Union, UnionType) and value is not None:
        kinds = [each for each in get_args(kind) if each is not NoneType]
        return built(kinds[0], value) if len(kinds) == 1 else value
    if origin is list and isinstance(value, list):
        return [built(get_args(kind)[0], item) for item in value]
    if origin is dict and isinstance(value, dict):
        return {key: built(get_args(kind)[1], item) for key, item in value.items()}
    if origin is tuple and value is not None:
        if isinstance(value, str):  # its characters would be taken for the items
            raise TypeError(f"expected a list; got {value!r:.60}")
        first, *rest = get_args(kind)
        kinds = [first] * len(value) if rest == [...] else [first, *rest]
        if len(value) != len(kinds):
            raise TypeError(f"expected {len(kinds)} items; got {value!r:.60}")
        return tuple(map(built, kinds, value))
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
