"""Sentences go out when they are finished, and come back as events; no failure costs anything but translations."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripted_translator import ScriptedTranslator, until
from whispertide.errors import OptionError
from whispertide.events import Confirmed, Correction, End, Error, Event, Language, Translation, TurnEnd
from whispertide.formats.document import segment_words
from whispertide.translation import translating as module
from whispertide.translation.translating import Translating
from whispertide.translation.translator import TranslationOptions, TranslatorError
from whispertide.types import SAMPLE_RATE, Word

FRENCH = TranslationOptions("fr")
HALF = SAMPLE_RATE // 2


def words_of(text: str, first: int = 0) -> tuple[Word, ...]:
    """Two words a second."""
    return tuple(
        Word(" " + word, HALF * number, HALF * number + 6_400) for number, word in enumerate(text.split(), first)
    )


def said(text: str, first: int = 0) -> Confirmed:
    words = words_of(text, first)
    return Confirmed(0, words[-1].end, words)


TURN_END = TurnEnd(0, 0, 0)


def everything(translating: Translating) -> list[Event]:
    """All events, once there are no more."""
    translating.finish()
    until(lambda: translating._thread is None)
    return translating.ready()


def texts(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Translation | Correction)]


def errors(events: Sequence[Event]) -> list[str]:
    assert not any(event.fatal for event in events if isinstance(event, Error))
    return [event.message for event in events if isinstance(event, Error)]


def failing(*failures: str) -> list[TranslatorError]:
    return [TranslatorError("status 500", failure) for failure in failures]  # type: ignore[arg-type]


def test_a_sentence_goes_out_when_it_is_finished() -> None:
    translator = ScriptedTranslator()
    translating = Translating(translator, FRENCH, language="en")
    translating.take(said("Good morning. How are"))
    until(lambda: translating.has_news)
    (event,) = translating.ready()
    assert event == Translation(0, HALF + 6_400, 0, HALF + 6_400, "fr", "FR: GOOD MORNING.")
    assert translating.is_done
    translating.take(TURN_END)
    assert texts(everything(translating)) == ["FR: HOW ARE"]
    assert translator.requests[1].before == ("Good morning.",)
    assert [request.source for request in translator.requests] == ["en", "en"]


def test_without_an_end_mark_a_sentence_is_bounded() -> None:
    translator = ScriptedTranslator()
    translating = Translating(translator, FRENCH)
    translating.take(said(" ".join(["word"] * 200)))
    assert translating.snapshot().sentences  # before the turn ends
    until(lambda: translating.has_news)
    assert all(len(text) <= 400 for request in translator.requests for text in request.sentences)


def test_both_are_made_of_a_sentence_where_both_are_asked_for() -> None:
    translating = Translating(ScriptedTranslator(), TranslationOptions("fr", correct=True), language="en")
    translating.take(said("Hello."))
    translating.take(TURN_END)
    events = everything(translating)
    assert [type(event) for event in events] == [Correction, Translation]
    assert texts(events) == ["HELLO.", "FR: HELLO."]


def test_what_is_in_the_language_already_is_not_sent() -> None:
    translator = ScriptedTranslator()
    translating = Translating(translator, FRENCH)
    for event in (Language(0, 0, "fr", 0.9), said("Bonjour."), TURN_END, Language(0, 0, "en", 0.9), said("Hello.", 9)):
        translating.take(event)
    translating.take(TURN_END)
    assert texts(everything(translating)) == ["FR: HELLO."]
    assert [request.sentences for request in translator.requests] == [("Hello.",)]


def test_of_a_text_of_its_own_nothing_is_left_out() -> None:
    """It would lack what was said in that language."""
    translator = ScriptedTranslator()
    translating = Translating(translator, FRENCH, apart=True)
    for event in (Language(0, 0, "fr", 0.9), said("Bonjour."), TURN_END, Language(0, 0, "en", 0.9), said("Hello.", 9)):
        translating.take(event)
    translating.take(TURN_END)
    assert texts(everything(translating)) == ["Bonjour.", "FR: HELLO."]
    assert [request.sentences for request in translator.requests] == [("Hello.",)]


def test_a_slow_translator_gets_several_sentences_at_once_and_none_is_lost() -> None:
    translator = ScriptedTranslator(gate=threading.Event())
    translating = Translating(translator, FRENCH)
    translating.take(said("One. Two"))
    assert translator.began.wait(30)
    translating.take(said("three. Four five. Six.", 2))
    translating.take(TURN_END)
    assert not translating.has_news
    assert translator.gate is not None
    translator.gate.set()
    assert texts(everything(translating)) == ["FR: ONE.", "FR: TWO THREE. FOUR FIVE. SIX."]
    assert [request.sentences for request in translator.requests] == [("One.",), ("Two three.", "Four five.", "Six.")]


def test_a_translation_is_of_one_voice_and_names_it() -> None:
    translator = ScriptedTranslator(gate=threading.Event())
    translating = Translating(translator, TranslationOptions("fr", correct=True), language="en")
    for speaker, text in ((1, "Are you there?"), (2, "Yes. I am."), (1, "Good."), (None, "Who is that?")):
        translating.take(Confirmed(0, 0, tuple(replace(word, speaker=speaker) for word in words_of(text))))
    translating.take(TURN_END)
    until(translator.began.is_set)
    assert translator.gate is not None
    translator.gate.set()
    told = [event for event in everything(translating) if isinstance(event, Translation | Correction)]
    assert [(event.speaker, event.text) for event in told[::2]] == [
        (1, "ARE YOU THERE?"),
        (2, "YES. I AM."),
        (1, "GOOD."),
        (None, "WHO IS THAT?"),
    ]
    assert [event.speaker for event in told[1::2]] == [1, 2, 1, None]


def test_each_sentence_goes_out_alone_where_nobody_waits() -> None:
    translator = ScriptedTranslator()
    translating = Translating(translator, FRENCH, whole=True)
    translating.take(said("One. Two. Three."))
    translating.take(TURN_END)
    assert texts(everything(translating)) == ["FR: ONE.", "FR: TWO.", "FR: THREE."]


def test_a_request_has_a_bounded_length() -> None:
    translator = ScriptedTranslator(gate=threading.Event())
    translating = Translating(translator, FRENCH)
    sentence = " ".join(["sentence"] * 30) + "."  # 270 characters
    translating.take(said(" ".join([sentence] * 12)))
    translating.take(TURN_END)
    assert translator.gate is not None
    translator.gate.set()
    assert len(texts(everything(translating))) >= 4
    assert all(sum(map(len, request.sentences)) <= module.MOST_CHARS for request in translator.requests)
    assert sum(len(request.sentences) for request in translator.requests) == 12


def test_an_outage_is_told_once_and_its_sentences_come_later() -> None:
    translator = ScriptedTranslator(failing("outage", "outage"))
    translating = Translating(translator, FRENCH, pauses_s=(0.01,))
    translating.take(said("One. Two. Three"))
    until(lambda: len(translator.requests) >= 3 and translating.has_news)
    translating.take(TURN_END)
    events = everything(translating)
    assert len(errors(events)) == 1
    assert "captions continue: sentences wait until it answers (status 500)" in errors(events)[0]
    assert " ".join(texts(events)).replace("FR: ", "") == "ONE. TWO. THREE"


def test_an_outage_to_the_end_says_how_much_is_missing() -> None:
    translator = ScriptedTranslator(failing(*["outage"] * 9))
    translating = Translating(translator, FRENCH, pauses_s=(600.0,))
    translating.take(said("One. Two. Three."))
    translating.take(TURN_END)
    until(lambda: translating.has_news)
    events = everything(translating)  # and does not wait for the pause
    assert texts(events) == []
    assert errors(events)[1:] == ["3 sentences have no translation"]


def test_a_lasting_failure_ends_the_requests() -> None:
    translator = ScriptedTranslator(failing("lasting"))
    translating = Translating(translator, FRENCH)
    translating.take(said("One. Two"))
    until(lambda: translating.has_news)
    assert "there are none in this session (status 500)" in errors(translating.ready())[0]
    translating.take(said("three. Four.", 2))
    translating.take(TURN_END)
    events = everything(translating)
    assert (texts(events), errors(events)) == ([], ["3 sentences have no translation"])
    assert len(translator.requests) == 1


def test_a_text_without_an_answer_is_left_out() -> None:
    translator = ScriptedTranslator(failing("answer", "answer"))
    translating = Translating(translator, FRENCH)
    for number, text in enumerate(("One.", "Two.", "Three.")):
        translating.take(said(text, number))
        translating.take(TURN_END)
        until(lambda count=number + 1: len(translator.requests) == count)  # type: ignore[misc]
    events = everything(translating)
    assert texts(events) == ["FR: THREE."]
    assert [message.split(" (")[0] for message in errors(events)] == [
        "translations fail, captions continue: this sentence is left out",
        "2 sentences have no translation",
    ]


def test_a_defect_of_a_translator_is_no_wait_without_end() -> None:
    class Broken(ScriptedTranslator):
        def translate(self, request: object) -> str:
            raise ZeroDivisionError("a defect")

    translating = Translating(Broken(), FRENCH)
    translating.take(said("One."))
    translating.take(TURN_END)
    assert "(scripted: a defect)" in errors(everything(translating))[0]


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 30)
    translator = ScriptedTranslator(gate=threading.Event())
    translating = Translating(translator, FRENCH)
    translating.take(said("One. Two"))
    assert translator.began.wait(30)
    translating.take(said("x. " + " ".join(f"Number{n}." for n in range(9)), 2))
    translating.take(TURN_END)
    assert translator.gate is not None
    translator.gate.set()
    events = everything(translating)
    assert texts(events) == ["FR: ONE.", "FR: NUMBER6. NUMBER7. NUMBER8."]
    assert errors(events) == ["7 sentences have no translation"]


def test_whoever_waits_no_longer_is_told_what_is_missing() -> None:
    translator = ScriptedTranslator(gate=threading.Event())
    woken = threading.Event()
    translating = Translating(translator, FRENCH, wake=woken.set)
    translating.take(said("One."))
    translating.take(TURN_END)
    assert translator.began.wait(30)
    translating.wait(0.01)
    translating.give_up()
    assert woken.is_set()
    assert errors(translating.ready()) == ["1 sentence has no translation"]
    assert translating.is_done
    assert translator.gate is not None
    translator.gate.set()  # an answer that nobody waits for
    until(lambda: translating._thread is None)
    assert translating.ready() == []


def test_a_translation_that_is_closed_says_nothing_more() -> None:
    translator = ScriptedTranslator(gate=threading.Event())
    translating = Translating(translator, FRENCH)
    translating.take(said("One. Two."))
    translating.take(TURN_END)
    assert translator.began.wait(30)
    translating.close()
    assert translating.is_done
    translating.take(said("Three. Four.", 2))  # of a step that was running
    translating.take(TURN_END)
    assert translating.is_done
    assert translator.gate is not None
    translator.gate.set()
    until(lambda: translating._thread is None)
    assert (translating.ready(), len(translator.requests)) == ([], 1)


def test_a_recording_need_not_be_read_on_while_much_waits() -> None:
    translator = ScriptedTranslator(gate=threading.Event())
    translating = Translating(translator, FRENCH)
    assert translating.has_room
    translating.take(said(" ".join(["sentence."] * 600)))
    assert not translating.has_room
    translating.close()
    assert translator.gate is not None
    translator.gate.set()


def test_a_target_that_the_translator_cannot_do_is_refused() -> None:
    with pytest.raises(OptionError, match="expected a language among"):
        Translating(ScriptedTranslator(), TranslationOptions("it"))
    with pytest.raises(OptionError, match="expected a language to translate into, or corrections; got neither"):
        TranslationOptions()
    with pytest.raises(OptionError, match="'xx'"):
        TranslationOptions("xx")
    assert TranslationOptions("French").to == "fr"


def test_a_restored_translation_goes_on_with_what_nobody_has() -> None:
    stuck = ScriptedTranslator(gate=threading.Event())
    first = Translating(stuck, FRENCH, language="en")
    first.take(said("One. Two. Three"))
    assert stuck.began.wait(30)
    state = first.snapshot(End(7, 9, 9))
    assert state.end == End(7, 9, 9)
    assert [sentence.text for sentence in state.sentences] == ["One.", "Two."]
    first.close()
    assert stuck.gate is not None
    stuck.gate.set()

    translator = ScriptedTranslator()
    second = Translating(translator, FRENCH)
    second.restore(state)
    second.take(said("four.", 3))
    second.take(TURN_END)
    assert " ".join(texts(everything(second))).replace("FR: ", "") == "ONE. TWO. THREE FOUR."
    assert {request.source for request in translator.requests} == {"en"}


def test_of_an_answer_that_was_taken_nothing_is_in_the_state() -> None:
    translating = Translating(ScriptedTranslator(), FRENCH)
    translating.take(said("One. Two"))
    until(lambda: translating.has_news)
    assert [sentence.text for sentence in translating.snapshot().sentences] == ["One."]
    translating.ready()
    assert translating.snapshot().sentences == ()


WORDS = st.lists(st.sampled_from(["one", "two.", "three,", "Dr.", "3.", "5", "ok?", '"yes!"', "end."]), max_size=40)


@settings(max_examples=60)
@given(WORDS, st.lists(st.integers(0, 40), max_size=6), st.lists(st.integers(0, 40), max_size=3))
def test_sentences_do_not_depend_on_how_words_are_confirmed(
    words: list[str], cuts: list[int], turns: list[int]
) -> None:
    """Chunked equals whole: the same sentences, all of them, each once."""
    spoken = words_of(" ".join(words))

    def sentences(cuts: Sequence[int]) -> list[str]:
        translator = ScriptedTranslator()
        translating = Translating(translator, TranslationOptions(correct=True))
        edges = sorted({0, len(spoken), *(min(at, len(spoken)) for at in (*cuts, *turns))})
        for start, stop in pairwise(edges):
            translating.take(Confirmed(0, 0, spoken[start:stop]))
            if stop in turns:
                translating.take(TURN_END)
        translating.take(End(0, 0, 0))
        everything(translating)
        return [text for request in translator.requests for text in request.sentences]

    assert sentences(cuts) == sentences([])
    if not turns:
        assert sentences([]) == [item.text.strip() for item in segment_words(spoken)]
