"""Translations of a whole recording: each sentence with its own times, and what goes wrong told at the end."""

import threading
from dataclasses import replace

from scripted_translator import ScriptedTranslator, until
from whispertide.channels import in_order
from whispertide.formats.document import OtherText
from whispertide.translation import translating
from whispertide.translation.recordings import RecordingTranslation
from whispertide.translation.translator import TranslationOptions, TranslatorError
from whispertide.types import OfflineSegment, Span, Word, spoken_by

FRENCH = TranslationOptions("fr")


def segment(number: int, *texts: str, language: str = "en") -> OfflineSegment:
    """A segment of words, one a second."""
    at = 16_000 * number
    words = tuple(Word(text, at + 16_000 * n, at + 16_000 * n + 8_000) for n, text in enumerate(texts))
    return OfflineSegment(
        number, Span(at, words[-1].end), "".join(texts), (), words, -0.1, 1.0, 0.0, 0.0, language, 0.9
    )


def test_sentences_go_on_over_segments_and_have_their_own_times() -> None:
    translator = ScriptedTranslator()
    one = RecordingTranslation(translator, FRENCH)
    one.take(segment(0, " Hello"))
    one.take(segment(1, " there.", " More."))
    others, problems = one.finish(48_000)
    assert others == (OtherText(0, 24_000, "FR: HELLO THERE.", "fr"), OtherText(32_000, 40_000, "FR: MORE.", "fr"))
    assert problems == ()
    assert [request.source for request in translator.requests] == ["en", "en"]


def test_the_language_is_what_whisper_writes_where_it_translates() -> None:
    translator = ScriptedTranslator()
    one = RecordingTranslation(translator, FRENCH, "de", "translate")
    one.take(segment(0, " Hello.", language="de"))
    one.finish(16_000)
    assert [request.source for request in translator.requests] == ["en"]


def test_what_fails_is_told_and_the_rest_is_there() -> None:
    translator = ScriptedTranslator(problems=[TranslatorError("no", "answer")])
    one = RecordingTranslation(translator, FRENCH)
    one.take(segment(0, " One.", " Two."))
    others, problems = one.finish(32_000)
    assert [other.text for other in others] == ["FR: TWO."]
    assert len(problems) == 2, "that a sentence is left out, and how many"


def test_each_channel_is_translated_by_itself() -> None:
    """Whoever spoke meanwhile cut the sentences of the others, and changed their language."""
    translator = ScriptedTranslator()
    one = RecordingTranslation(translator, FRENCH, channels=2)
    heard = [
        [segment(0, " Where", " are"), segment(2, " you?")],
        [segment(1, " Ja,", language="de"), segment(2, " hier.", language="de")],
    ]
    for part in in_order(heard):
        one.take(part)
    others, problems = one.finish(64_000)
    assert [(other.speaker, other.text) for other in others] == [(1, "FR: WHERE ARE YOU?"), (2, "FR: JA, HIER.")]
    assert problems == ()
    assert {(request.source, request.before) for request in translator.requests} == {("en", ()), ("de", ())}


def test_what_fails_in_a_channel_has_its_number() -> None:
    translator = ScriptedTranslator(problems=[TranslatorError("no", "answer")])
    one = RecordingTranslation(translator, FRENCH, channels=2)
    for part in in_order([[], [segment(0, " One.")]]):
        one.take(part)
    others, problems = one.finish(16_000)
    assert (others, len(problems)) == ((), 2)
    assert all(problem.startswith("channel 2: ") for problem in problems)


def test_translations_of_a_conversation_name_the_voices() -> None:
    one = RecordingTranslation(ScriptedTranslator(), FRENCH)
    for number, speaker in enumerate((1, 2)):
        part = segment(number, " Hello.")
        one.take(replace(part, words=spoken_by(part.words, speaker)))
    others, _ = one.finish(32_000)
    assert [other.speaker for other in others] == [1, 2]


def test_a_recording_is_held_back_where_too_much_waits_and_let_go_at_the_end() -> None:
    translator = ScriptedTranslator(gate=threading.Event())
    one = RecordingTranslation(translator, FRENCH)
    long = " " + "x" * translating.ROOM + "."

    def take_all() -> None:
        for number in range(4):
            one.take(segment(number, long))

    taken = threading.Thread(target=take_all, daemon=True)
    taken.start()
    until(translator.began.is_set)
    taken.join(0.3)
    assert taken.is_alive()
    one.close()
    taken.join(30)
    assert not taken.is_alive()
    assert translator.gate is not None
    translator.gate.set()


def test_a_sentence_without_an_end_stays_in_its_language() -> None:
    """It was joined to the next one, and taken for one in that language: nobody translated it."""
    translator = ScriptedTranslator()
    one = RecordingTranslation(translator, TranslationOptions("en"))
    one.take(segment(0, " Ja", " genau", language="de"))
    one.take(segment(2, " Good.", language="en"))
    others, _ = one.finish(48_000)
    assert [other.text for other in others] == ["EN: JA GENAU", "Good."]
    assert [request.source for request in translator.requests] == ["de"]
