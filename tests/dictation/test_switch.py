import pytest

from each_row import each_row
from whispertide.dictation.switch import Switch
from whispertide.errors import KeyboardError


def states(switch: Switch, moves: str) -> str:
    """What the switch is after each of: `d`own, `u`p, `t`ap, `s`top."""
    found = ""
    for move in moves:
        {"d": switch.press, "u": switch.release, "t": switch.tap, "s": switch.turn_off}[move]()
        found += "1" if switch.on else "0"
    return found


@each_row(
    ("hold", "moves", "expected"),
    [
        (False, "dudu", "1100"),
        (False, "dddu", "1111"),  # the key repeats
        (False, "dusdu", "11011"),  # "stop dictation", then again
        (True, "dudu", "1010"),
        (True, "dddu", "1110"),
        (True, "dsddu", "10000"),  # stopped while it is held: until it is pressed again
        (False, "tt", "10"),
    ],
)
def test_a_key_begins_and_ends(hold: bool, moves: str, expected: str) -> None:
    assert states(Switch(hold=hold), moves) == expected


def test_a_key_that_is_lost_is_told() -> None:
    switch = Switch()
    switch.turn_on()
    assert switch.wait(0)
    switch.fail(KeyboardError("gone"))
    assert not switch.on
    with pytest.raises(KeyboardError, match="gone"):
        switch.wait(0)
