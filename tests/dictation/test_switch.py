import signal
import subprocess
import sys

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


SIGNALLED = """
import signal, sys, time
from whispertide.dictation.switch import Switch

switch = Switch()
signal.signal(signal.SIGALRM, lambda *_: switch.tap())
signal.setitimer(signal.ITIMER_REAL, 1e-5, 1e-5)
until = time.monotonic() + 0.5
while time.monotonic() < until:
    switch.wait(1e-4)
signal.setitimer(signal.ITIMER_REAL, 0)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that signal")
def test_a_signal_changes_it_at_any_moment() -> None:
    """It interrupts the very thread that waits, which must hold no lock then (`dictate --key signal`)."""
    subprocess.run([sys.executable, "-c", SIGNALLED], check=True, timeout=30)
