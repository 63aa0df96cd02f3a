from collections.abc import Iterable

import pytest

from fake_keyboard import FakeKeyboard
from whispertide.cli.typist import Typist
from whispertide.dictation.composer import Composer
from whispertide.dictation.switch import Switch
from whispertide.errors import KeyboardError
from whispertide.events import Confirmed, Event, Hypothesis, TurnEnd
from whispertide.types import Word


def confirmed(text: str) -> Event:
    return Confirmed(0, 0, words=(Word(text, 0, 1),))


PAUSE = TurnEnd(0, 0, end=0)


def typist(keyboard: FakeKeyboard, events: Iterable[Event] = ()) -> Typist:
    made = Typist(Composer(), keyboard, Switch())
    made.switch.turn_on()
    made.begin()
    for event in events:
        made.event(event)
    return made


def test_what_is_confirmed_is_typed_and_nothing_else() -> None:
    keyboard = FakeKeyboard()
    guess = Hypothesis(0, 0, words=(Word(" two", 0, 1),))
    typist(keyboard, [confirmed(" One."), guess, TurnEnd(0, 0, end=0, eager=True), confirmed(" Two."), PAUSE])
    assert keyboard.screen == "One. Two."


def test_while_a_modifier_is_held_the_text_waits() -> None:
    keyboard = FakeKeyboard(busy=3)
    made = typist(keyboard, [confirmed(" One."), PAUSE])
    assert keyboard.screen == ""
    made.event(confirmed(" Two."))
    assert keyboard.screen == "One. Two."
    keyboard.busy = 3
    made.event(confirmed(" New line."))
    made.end()  # waits
    assert keyboard.screen == "One. Two.\n"


def test_text_follows_the_focus_and_nothing_is_erased_there() -> None:
    keyboard = FakeKeyboard()
    made = typist(keyboard, [confirmed(" One."), PAUSE])
    keyboard.window = "other"
    for event in (confirmed(" Scratch that."), PAUSE, confirmed(" Two."), PAUSE):
        made.event(event)
    assert keyboard.screens == {"first": "One.", "other": "Two."}


def test_stop_turns_the_switch_off() -> None:
    keyboard = FakeKeyboard()
    made = typist(keyboard, [confirmed(" One."), PAUSE, confirmed(" Stop dictation.")])
    assert made.switch.on
    made.event(PAUSE)
    assert not made.switch.on
    made.event(confirmed(" Two."))
    assert keyboard.screen == "One."


def test_a_key_pressed_after_stop_begins_the_next_dictation() -> None:
    """The rest of the session that was stopped comes after it."""
    made = typist(FakeKeyboard(), [confirmed(" One. Stop dictation."), PAUSE])
    made.switch.press()
    made.event(confirmed(" Two."))
    made.end()
    assert made.switch.on


def test_what_cannot_be_typed_is_not_lost() -> None:
    keyboard = FakeKeyboard()
    made = typist(keyboard, [confirmed(" One."), confirmed(" New")])  # it may be a command
    keyboard.broken = True
    with pytest.raises(KeyboardError):
        made.event(confirmed(" York."))
    assert (keyboard.screen, made.untyped) == ("One.", " New York.")
    assert not made.switch.on
