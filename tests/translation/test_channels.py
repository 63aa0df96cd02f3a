"""Each channel is translated by itself, and all are used as one."""

import threading

import pytest

from scripted_translator import ScriptedTranslator, until
from whispertide.events import Confirmed, End, Error, Event, Language, Translation, of_channel
from whispertide.translation.channels import ChannelTranslating
from whispertide.translation.translating import Translating
from whispertide.translation.translator import TranslationOptions, TranslatorError
from whispertide.types import Word


def both(*translators: ScriptedTranslator) -> ChannelTranslating:
    return ChannelTranslating([Translating(one, TranslationOptions("fr")) for one in translators])


def take(translating: ChannelTranslating, channel: int, *events: Event) -> None:
    for event in events:
        translating.take(of_channel(event, channel))


def said(*texts: str) -> Confirmed:
    return Confirmed(0, 0, tuple(Word(text, 100 * at, 100 * at + 80) for at, text in enumerate(texts)))


def test_each_has_sentences_a_context_and_a_language_of_its_own() -> None:
    translators = ScriptedTranslator(), ScriptedTranslator()
    translating = both(*translators)
    take(translating, 1, Language(0, 0, "en", 0.9), said(" How", " are"))
    take(translating, 2, Language(0, 0, "de", 0.9), said(" Gut.", " Und", " dir?"), End(0, 0, 0))
    take(translating, 1, said(" you?"), End(0, 0, 0))
    translating.finish()
    events: list[Event] = []
    while not translating.is_done:
        translating.wait(1)
        events += translating.ready()
    told = {
        number: " ".join(event.text for event in events if isinstance(event, Translation) and event.channel == number)
        for number in (1, 2)
    }
    assert told == {1: "FR: HOW ARE YOU?", 2: told[2]}
    assert told[2].replace("FR: ", "") == "GUT. UND DIR?"
    left, right = ([request.source for request in one.requests] for one in translators)
    assert (set(left), set(right)) == ({"en"}, {"de"})
    assert {text for request in translators[1].requests for text in request.before} <= {"Gut."}


def test_what_is_of_no_channel_is_for_all() -> None:
    translating = both(ScriptedTranslator(), ScriptedTranslator())
    take(translating, 1, said(" One"))
    take(translating, 2, said(" Two"))
    translating.take(End(0, 0, 0))
    until(lambda: all(one.has_news for one in translating.channels))
    assert [(event.channel, getattr(event, "speaker", None)) for event in translating.ready()] == [(1, 1), (2, 2)]


def test_one_that_does_not_answer_keeps_none_of_the_others() -> None:
    gate = threading.Event()
    translating = both(ScriptedTranslator(gate=gate), ScriptedTranslator())
    take(translating, 1, said(" One."), End(0, 0, 0))
    take(translating, 2, said(" Two."), End(0, 0, 0))
    events: list[Event] = []

    def told() -> list[Event]:
        events.extend(translating.ready())
        return events

    until(lambda: bool(told()))
    assert [(event.channel, getattr(event, "text", "")) for event in events] == [(2, "FR: TWO.")]
    assert not translating.is_done
    translating.finish()
    translating.give_up()
    (lost,) = translating.ready()
    assert isinstance(lost, Error)
    assert (lost.channel, lost.message) == (1, "1 sentence has no translation")
    gate.set()


def test_a_failure_has_its_channel() -> None:
    translating = both(ScriptedTranslator(), ScriptedTranslator([TranslatorError("who are you?", "lasting")]))
    take(translating, 2, said(" Two."), End(0, 0, 0))
    until(lambda: translating.is_done or bool(translating.channels[1].has_news))
    assert [event.channel for event in translating.ready() if isinstance(event, Error)][:1] == [2]


def test_a_recording_waits_for_the_channel_with_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.translation.translating.ROOM", 4)
    gate = threading.Event()
    slow = ScriptedTranslator(gate=gate)
    translating = both(ScriptedTranslator(), slow)
    take(translating, 2, said(" One.", " Two"))
    until(lambda: len(slow.requests) == 1)
    assert translating.has_room, "what is asked about does not wait"
    take(translating, 2, said(".", " Three.", " Four."))
    assert not translating.has_room
    translating.close()
    gate.set()
    assert translating.has_room
    assert translating.ready() == []
