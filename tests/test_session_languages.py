"""The language of a session: told once, forgotten with its turn."""

from dataclasses import replace
from typing import Any

from oracle import Oracle, make_gate
from session_steps import RECIPE, SENTENCE, TALK, TURNS, Verbatim, push
from whispertide.events import Language
from whispertide.options import DecodeOptions
from whispertide.session import Session
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import SAMPLE_RATE

S = SAMPLE_RATE


class Polyglot(Oracle):
    def run(self, plan: RoundPlan, *args: Any) -> RoundResult[Any]:
        result = super().run(plan, *args)
        return RoundResult(plan, result.heard, language="de", language_probability=0.75)


def test_a_detected_language_is_told_once() -> None:
    session = Session(RECIPE, Polyglot(TALK))
    events = push(session, 4.0) + session.finish()
    assert [e for e in events if isinstance(e, Language)] == [Language(0, S, "de", 0.75, took=S)]
    told = Session(RECIPE, Polyglot(TALK), options=DecodeOptions(language="en"))
    assert not [e for e in push(told, 4.0) if isinstance(e, Language)]


def test_a_detected_language_holds_to_the_end_of_its_turn() -> None:
    class German(Verbatim):
        def run(self, plan: RoundPlan, *args: Any) -> RoundResult[Any]:
            result = super().run(plan, *args)
            return RoundResult(plan, result.heard, language="de", language_probability=0.75)

    session = Session(TURNS, German(SENTENCE), make_gate(SENTENCE))
    push(session, 2.5)  # after a short pause in mid-sentence, in the next utterance
    assert session.options.language == "de"
    push(session, 4.0)  # the sentence is finished
    assert session.options.language is None


def test_rounds_are_told_what_was_spoken_before() -> None:
    """In the next turns, too; until something is confirmed there is nothing to tell."""
    plans: list[RoundPlan] = []

    class Noting(Verbatim):
        def run(self, plan: RoundPlan, *args: Any) -> RoundResult[Any]:
            plans.append(plan)
            return RoundResult(plan, super().run(plan, *args).heard, language="de", language_probability=0.75)

    session = Session(TURNS, Noting(SENTENCE), make_gate(SENTENCE))
    push(session, 4.0)
    session.finish()
    told = [plan.spoken for plan in plans]
    assert told[0] is None
    first = told.index("de")
    assert set(told[:first]) == {None}
    assert set(told[first:]) == {"de"}


def test_a_language_that_is_a_guess_is_not_told_before_something_is_heard() -> None:
    class Unsure(Polyglot):
        def run(self, plan: RoundPlan, *args: Any) -> RoundResult[Any]:
            result = super().run(plan, *args)
            return replace(result, language="it", heard=None) if plan.window.end < 2 * S else result

    events = push(Session(RECIPE, Unsure(TALK)), 4.0)
    assert [e.language for e in events if isinstance(e, Language)] == ["de"]


def test_words_of_a_round_that_does_not_tell_the_language_change_none() -> None:
    """A server's answer has none, nor a round without a new block, in which words settle."""
    plans: list[RoundPlan] = []

    class Silent(Verbatim):
        def run(self, plan: RoundPlan, *args: Any) -> RoundResult[Any]:
            plans.append(plan)
            language = "de" if len(plans) <= 2 else None
            return RoundResult(plan, super().run(plan, *args).heard, language=language, language_probability=0.75)

    session = Session(RECIPE, Silent(TALK))
    events = push(session, 4.0)
    assert session.options.language == "de"
    assert [event.language for event in events if isinstance(event, Language)] == ["de"]
    assert [plan.spoken for plan in plans] == [None, None, "de", "de"]


def test_unlikely_words_are_written_where_the_language_is_not_english() -> None:
    """`drop_below` was chosen on English; it took "Sempre" and half of "non c'è" (issue faults, 6)."""

    class Doubtful(Verbatim):
        language = "en"

        def run(self, plan: RoundPlan, *args: Any) -> RoundResult[Any]:
            heard: Any = super().run(plan, *args).heard
            words = tuple(
                replace(s, words=tuple(replace(word, probability=0.1) for word in s.words)) for s in heard.segments
            )
            return RoundResult(plan, replace(heard, segments=words), language=self.language)

    class Italian(Doubtful):
        language = "it"

    class Untold(Italian):
        def run(self, plan: RoundPlan, *args: Any) -> RoundResult[Any]:
            result = super().run(plan, *args)
            return replace(result, language=None) if plan.window.end > 3 * S else result

    recipe = RECIPE.replace(drop_below=0.45)
    for oracle, written in ((Doubtful(TALK), 3), (Italian(TALK), len(TALK)), (Untold(TALK), len(TALK))):
        session = Session(recipe, oracle)
        push(session, 4.0)
        session.finish()
        assert len(session.transcript.words) <= written
        assert oracle.language == "en" or len(session.transcript.words) == written


def test_a_detected_language_is_forgotten_with_the_utterance_that_was_cleared() -> None:
    session = Session(RECIPE, Polyglot(TALK))
    push(session, 4.0)
    assert session.transcript.words
    assert session.options.language == "de"
    session.clear()
    assert session.options.language is None
