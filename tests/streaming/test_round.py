"""The language of a round, in view of what was spoken before it."""

import pytest

from whispertide.decoding.language import TURNING, DetectedLanguage
from whispertide.methods.agreement.whole_window import WholeWindow
from whispertide.streaming.round import RoundPlan
from whispertide.types import SAMPLE_RATE, Span


def plan(seconds: float = 1.0, spoken: str | None = None, *, is_last: bool = False) -> RoundPlan:
    return RoundPlan(0, Span(0, round(seconds * SAMPLE_RATE)), WholeWindow(), spoken=spoken, is_last=is_last)


def test_what_was_spoken_before_holds_unless_another_language_is_certain() -> None:
    heard = DetectedLanguage("pt", 0.56, {"pt": 0.56, "en": 0.4})
    assert plan(3.0, spoken="en").language(heard) == DetectedLanguage("en", 0.4)
    assert plan(1.0, spoken="en").language(heard) == heard, "a guess that nothing is confirmed by"
    assert plan(3.0).language(heard) == plan(3.0, spoken="pt").language(heard) == heard
    assert plan(3.0, spoken="en").language(DetectedLanguage("pt", 0.95, {"pt": 0.95})).language == "pt"
    among = DetectedLanguage("pt", 0.56, {"pt": 0.56, "fr": 0.44})
    assert plan(3.0, spoken="en").language(among).language == "pt", "the list of languages was changed"


def test_a_guess_that_nothing_was_spoken_before_to_hold_to() -> None:
    heard, certain = DetectedLanguage("pt", 0.56, {"pt": 0.56, "en": 0.4}), DetectedLanguage("pt", 0.95, {"pt": 0.95})
    assert plan(3.0).guesses(heard)
    assert plan(1.0, is_last=True).guesses(heard)
    assert plan(3.0, spoken="fr").guesses(heard), "the list of languages was changed"
    assert not plan(1.0).guesses(heard), "it waits"
    assert not plan(3.0, spoken="en").guesses(heard)
    assert not plan(3.0).guesses(certain)
    assert not plan(3.0).guesses(DetectedLanguage("pt", 1.0)), "nobody listened: it was asked for"


def test_a_cough_or_a_name_changes_no_language_however_certain_it_sounds() -> None:
    heard = DetectedLanguage("cy", 0.99, {"cy": 0.99, "en": 0.01})
    short, enough = (TURNING - 320) / SAMPLE_RATE, TURNING / SAMPLE_RATE
    assert plan(short, spoken="en", is_last=True).language(heard).language == "en"
    assert plan(short, spoken="en").waits(heard)
    assert plan(enough, spoken="en").language(heard).language == "cy"
    assert plan(short).language(heard).language == "cy", "nothing was spoken before"
    asked = DetectedLanguage("cy", 1.0)
    assert plan(short, spoken="en", is_last=True).language(asked).language == "cy", "nobody listened: it was asked for"


@pytest.mark.parametrize(
    ("probability", "seconds", "waits"), [(0.61, 0.8, True), (0.95, 0.8, False), (0.61, 3.0, False)]
)
def test_a_language_is_a_guess_until_it_is_certain_or_much_was_heard(
    probability: float, seconds: float, waits: bool
) -> None:
    found = DetectedLanguage("it", probability)
    assert plan(seconds).waits(found) is waits
    assert not plan(seconds, is_last=True).waits(found), "nothing comes after it"
    assert not plan(seconds, spoken="it").waits(found), "there is nothing to decide"
