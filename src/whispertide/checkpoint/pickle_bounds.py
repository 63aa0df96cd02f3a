"""What a pickle would build, counted without building it.

A few bytes of pickle can ask for a memo of 2^32 places, for a value that unfolds to 2^50 others, or for a nesting that
no stack can hold. Python's own reader follows. Here the program is read once (`pickletools`), with numbers in place of
values. Knows nothing of tensors.
"""

import pickletools
from dataclasses import dataclass
from typing import Any

_DEPTH = 64  # a saved checkpoint has ten
_VALUES = 2_000_000  # large-v3 has some 60,000


@dataclass(frozen=True, slots=True)
class _Value:
    """How many values it consists of, those that occur twice counted twice, and how deep they are nested."""

    count: int = 1
    depth: int = 1


class _Mark:
    """Where a list of arguments begins on the stack."""


def check_bounds(pickled: bytes) -> None:
    """Raises `ValueError` for a pickle that is damaged or would grow beyond all measure."""
    stack: list[_Value | _Mark] = []
    memo: dict[int, _Value] = {}
    for step, (code, number, _) in enumerate(pickletools.genops(pickled)):
        name = code.name
        if name == "STOP":
            return
        if name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            place = len(memo) if name == "MEMOIZE" else _number(number)
            if place > step:
                raise ValueError(f"step {step} of the pickle wants to remember a value as number {place}")
            memo[place] = _top(stack)
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[_number(number)])
        elif name == "DUP":
            stack.append(_top(stack))
        elif name == "POP":
            stack.pop()
        else:
            _apply(code, stack)


def _number(argument: object) -> int:
    if not isinstance(argument, int) or argument < 0:
        raise ValueError(f"the pickle names its value {argument!r}")
    return argument


def _top(stack: list[_Value | _Mark]) -> _Value:
    value = stack[-1] if stack else None
    if not isinstance(value, _Value):
        raise ValueError("the pickle names a value that is not there")
    return value


def _apply(code: Any, stack: list[_Value | _Mark]) -> None:
    """Take from the stack what the operation takes, and put there what it leaves."""
    if code.name == "MARK":
        stack.append(_Mark())
        return
    taken = _taken(code, stack)
    if not code.stack_after:
        return
    value = _Value(1 + sum(item.count for item in taken), 1 + max((item.depth for item in taken), default=0))
    if value.count > _VALUES or value.depth > _DEPTH:
        raise ValueError(f"the pickle unfolds to {value.count} values, nested {value.depth} deep")
    stack += [value] * len(code.stack_after)


def _taken(code: Any, stack: list[_Value | _Mark]) -> list[_Value]:
    before = code.stack_before
    values: list[_Value] = []
    if pickletools.markobject in before:
        while not isinstance(item := stack.pop(), _Mark):
            values.append(item)
        before = before[: before.index(pickletools.markobject)]
    for _ in before:
        values.append(_top(stack))
        stack.pop()
    return values
