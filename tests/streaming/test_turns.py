"""Where utterances and turns begin and end, which round comes next, and what becomes of those in flight."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from oracle import Oracle, TruthDetector, make_gate, speech
from session_steps import PAUSED, RECIPE, SENTENCE, TALK, TURNS, Verbatim, confirmed, exact, kinds, push, said
from told_turns import ToldEar
from whispertide.audio.vad import SpeechGate
from whispertide.errors import SessionError
from whispertide.events import Confirmed, Event, Hypothesis, SpeechStart, SpeechStop, TurnEnd, Unheard
from whispertide.methods.agreement.local_agreement import AgreementState, LocalAgreement
from whispertide.methods.agreement.whole_window import HeardSegments, WholeWindow
from whispertide.options import DecodeOptions
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.session_state import SessionState
from whispertide.streaming.end_of_turn import TurnLimits
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.turn_gate import TurnGate
from whispertide.streaming.turn_state import Utterance
from whispertide.types import SAMPLE_RATE, Span, Word

S = SAMPLE_RATE


# --- flush, clear, finish -------------------------------------------------------------------------------------------


def test_flush_confirms_everything_and_goes_on() -> None:
    session = Session(RECIPE, exact())
    push(session, 2.0)
    events = session.flush()
    assert (confirmed(events), kinds(events)[-1]) == ("two three", "turn_end")
    assert session.transcript.hypothesis == ()
    events = push(session, 4.0) + session.finish()
    assert confirmed(events) == "four five six"
    assert kinds(events).count("turn_end") == 1


@pytest.mark.parametrize("gated", [False, True])
def test_every_flush_is_answered_by_one_turn_end(gated: bool) -> None:
    session = Session(RECIPE, exact(), make_gate(TALK) if gated else None)
    assert session.flush() == [TurnEnd(0, 0, 0)]
    push(session, 2.0)
    assert kinds(session.flush()).count("turn_end") == 1
    (answer,) = session.flush()
    assert answer == TurnEnd(answer.seq, 2 * S, 2 * S)
    push(session, 8.0)
    assert kinds(session.flush()).count("turn_end") == 1


def test_after_the_end_nothing_is_accepted() -> None:
    session = Session(RECIPE, exact())
    session.finish()
    assert session.ended
    plan = RoundPlan(0, Span(0, 320), WholeWindow())
    for use in (
        lambda: session.push(np.zeros(1, np.float32)),
        session.flush,
        session.finish,
        session.clear,
        session.due,
        lambda: session.apply(RoundResult(plan)),
        lambda: session.configure(language="de"),
        lambda: session.fail("too late"),
    ):
        with pytest.raises(SessionError, match=r"has ended\. Start another"):
            use()
    assert session.drain() == []
    assert said(session.transcript.words) == ""


def test_clear_drops_what_is_not_confirmed() -> None:
    session = Session(RECIPE, exact())
    before = push(session, 2.0)
    assert session.transcript.hypothesis
    events = session.clear()
    assert kinds(events) == ["hypothesis", "turn_end"]
    assert [event.at for event in events] == [2 * S, 2 * S]
    assert events[1] == TurnEnd(events[1].seq, 2 * S, 2 * S)
    assert session.transcript.hypothesis == ()
    assert session.buffered == 0
    events = push(session, 4.0) + session.finish()
    assert confirmed(before + events) == "one four five six"


def test_clear_of_nothing_is_nothing() -> None:
    session = Session(RECIPE, exact())
    assert session.clear() == []


def test_clear_in_speech_closes_the_gate() -> None:
    session = Session(RECIPE, exact(PAUSED), make_gate(PAUSED))
    assert kinds(push(session, 0.5)) == ["speech_start"]
    assert session.clear() == [SpeechStop(1, S // 2, S // 2)]
    events = push(session, 12.0) + session.finish()
    assert said(session.transcript.words) == "two three four five six seven eight"
    starts = [event.start for event in events if isinstance(event, SpeechStart)]
    assert starts[0] >= S // 2


# --- the gate -------------------------------------------------------------------------------------------------------


def test_pauses_end_turns() -> None:
    session = Session(RECIPE, exact(PAUSED), make_gate(PAUSED))
    events = push(session, 12.0)
    outline = [event for event in events if not isinstance(event, Hypothesis | Confirmed)]
    assert kinds(outline) == ["speech_start", "speech_stop", "turn_end"] * 2
    start, stop, turn = outline[:3]
    assert isinstance(start, SpeechStart)
    assert isinstance(stop, SpeechStop)
    assert isinstance(turn, TurnEnd)
    assert 0 < start.at <= S // 2  # the gate knew within the first portion
    assert start.start == 0  # the pre-roll would reach back further than the stream
    assert 3.9 * S < stop.end == turn.end < 4.3 * S
    assert 4.3 * S < stop.at == turn.at < 4.5 * S
    assert confirmed(events[: events.index(turn)]) == said(TALK)


def turns(events: Iterable[Event]) -> list[tuple[str, int, int]]:
    """What was said up to each end of a turn, that end, and the audio that it took to know."""
    said_so_far, found = [], []
    for event in events:
        if isinstance(event, Confirmed):
            said_so_far += [word.text for word in event.words]
        elif isinstance(event, TurnEnd):
            found.append(("".join(said_so_far).strip(), event.end, event.at))
            said_so_far = []
    return found


def test_a_short_pause_in_mid_sentence_does_not_end_a_turn() -> None:
    session = Session(TURNS, Verbatim(SENTENCE), make_gate(SENTENCE))
    ended = turns(push(session, 9.0))
    assert [text for text, _, _ in ended] == ["And so ask not.", "Ask"]
    # A finished sentence ends its turn in the usual pause; the other one in silence of `vad_turn_s`.
    assert ended[0][2] - ended[0][1] < S // 2
    assert ended[1][2] - ended[1][1] == round(1.5 * S)


def test_where_every_pause_ends_a_turn_there_are_more() -> None:
    assert [text for text, _, _ in turns(push(Session(RECIPE, Verbatim(SENTENCE), make_gate(SENTENCE)), 9.0))] == [
        "And so",
        "ask not.",
        "Ask",
    ]


def test_what_follows_a_short_pause_is_heard_with_the_text_before_it() -> None:
    oracle = Verbatim(SENTENCE)
    push(Session(TURNS, oracle, make_gate(SENTENCE)), 9.0)
    prompts = {plan.window.start // S: plan.prompt for plan in oracle.plans if plan.ends_turn}
    assert [prompt for _, prompt in sorted(prompts.items())] == ["", "And so", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsureMarks(LocalAgreement):
    """In a last round all marks at the end are unlikely."""

    kind: ClassVar[str] = "unsure-marks"

    def apply(self, state: AgreementState, result: RoundResult[HeardSegments]) -> Commit:
        commit = LocalAgreement.apply(self, state, result)
        if not result.plan.is_last or not commit.confirmed or not commit.confirmed[-1].text.endswith("."):
            return commit
        *words, last = commit.confirmed
        bare, mark = replace(last, text=last.text[:-1]), Word(".", last.end, last.end)
        return replace(commit, confirmed=(*words, bare), closing=mark)


UNSURE = replace(TURNS, policy=UnsureMarks())


def test_an_unlikely_mark_stands_where_nobody_speaks_on() -> None:
    ended = turns(push(Session(UNSURE, Verbatim(SENTENCE), make_gate(SENTENCE)), 9.0))
    assert [text for text, _, _ in ended] == ["And so ask not. Ask"]  # which begins as after a full stop
    small = (*SENTENCE[:-1], *speech(("ask", 4.2, 4.6)))
    ended = turns(push(Session(UNSURE, Verbatim(small), make_gate(small)), 9.0))
    assert [text for text, _, _ in ended] == ["And so ask not ask"]
    over = speech(("ask", 0.5, 0.9), ("not.", 1.0, 1.4))
    session = Session(UNSURE, Verbatim(over), make_gate(over))
    ((text, end, at),) = turns(push(session, 6.0))
    assert (text, at - end) == ("ask not.", round(1.5 * S))


@pytest.mark.parametrize("recipe", [UNSURE, UNSURE.replace(vad_turn_s=0.0)], ids=["turns", "utterances"])
def test_a_mark_after_no_words_is_no_text(recipe: Recipe) -> None:
    """As where all words before it were too unlikely to be written."""
    state = SessionState(recipe, DecodeOptions())
    state.turns.utterance = utterance = Utterance(0, 0, policy=recipe.policy.start(0), keep_from=0, last_end=0)
    result: RoundResult[Any] = RoundResult(RoundPlan(0, Span(0, S), WholeWindow(), is_last=True))
    alone, after = Commit((), (), 0, closing=Word(".", S, S)), Commit((Word(" a", 0, S),), (), 0)
    assert state.filter_commit(alone, result, gated=False) == Commit((), (), 0)
    assert (utterance.spoken, utterance.unfinished, state.turns.closing) == (False, False, None)
    state.filter_commit(after, result, gated=False)
    assert state.filter_commit(alone, result, gated=False).confirmed == (Word(".", S, S),)


@pytest.mark.parametrize("end", [Session.flush, Session.finish, Session.clear])
def test_or_where_the_turn_is_ended(end: Callable[[Session], list[Event]]) -> None:
    over = speech(("ask", 0.5, 0.9), ("not.", 1.0, 1.4))
    session = Session(UNSURE, Verbatim(over), make_gate(over))
    events = push(session, 2.4) + end(session)
    assert [text for text, _, _ in turns(events)] == ["ask not."]
    assert session.transcript.text == "ask not."


def test_an_unlikely_mark_stands_before_an_end_that_may_be_taken_back() -> None:
    gate = TurnGate(SpeechGate(None, TruthDetector(SENTENCE)), ToldEar([0.5]), TurnLimits())
    recipe = UNSURE.replace(turn_end="smart-turn", turn_threshold=0.9, turn_eager=0.4)
    events = push(Session(recipe, Verbatim(SENTENCE), gate), 9.0)
    assert [text for text, _, _ in turns(events)] == ["And so", "ask not.", "Ask", ""]


def test_where_every_pause_ends_a_turn_unlikely_marks_stand() -> None:
    events = push(Session(replace(RECIPE, policy=UnsureMarks()), Verbatim(SENTENCE), make_gate(SENTENCE)), 9.0)
    assert [text for text, _, _ in turns(events)] == ["And so", "ask not.", "Ask"]


def test_a_long_pause_in_mid_sentence_ends_a_turn_before_speech_goes_on() -> None:
    said_late = speech(("and", 0.5, 0.9), ("so", 4.0, 4.4))
    session = Session(TURNS, Verbatim(said_late), make_gate(said_late))
    outline = [event.kind for event in push(session, 5.0, step=5.0) if not isinstance(event, Hypothesis | Confirmed)]
    assert outline == ["speech_start", "speech_stop", "turn_end", "speech_start", "speech_stop"]
    assert [event.kind for event in session.finish()] == ["turn_end", "end"]


@pytest.mark.parametrize("until", [2.2, 2.7])  # in the pause; in the speech after it
def test_a_turn_that_was_left_open_ends_by_a_flush_and_by_clear(until: float) -> None:
    for end in (Session.flush, Session.clear):
        session = Session(TURNS, Verbatim(SENTENCE), make_gate(SENTENCE))
        push(session, until)
        assert [event.kind for event in end(session)][-1] == "turn_end"
        assert [event.kind for event in session.flush()] == ["turn_end"]  # a flush is always answered
        assert "turn_end" not in [event.kind for event in session.clear()]


def test_a_noise_after_an_open_turn_does_not_put_off_its_end() -> None:
    heard = speech(("and", 0.5, 0.9), ("bang", 1.6, 1.9))
    session = Session(TURNS, Verbatim(heard[:1]), make_gate(heard))
    ((text, end, at),) = turns(push(session, 6.0))
    assert (text, at - end) == ("and", round(1.5 * S))
    assert end < 1.5 * S


@dataclass(frozen=True, slots=True, kw_only=True)
class NoBangs(UnsureMarks):
    """Words that are no words are not written, as unlikely ones are."""

    kind: ClassVar[str] = "no-bangs"

    def apply(self, state: AgreementState, result: RoundResult[HeardSegments]) -> Commit:
        commit = UnsureMarks.apply(self, state, result)
        return replace(commit, confirmed=tuple(word for word in commit.confirmed if "bang" not in word.text))


def test_the_mark_of_words_that_are_not_written_ends_no_sentence_before_them() -> None:
    """A stream in another language ended with a full stop two seconds after its turn."""
    heard = speech(("and", 0.5, 0.9), ("bang.", 1.6, 1.9))
    session = Session(replace(TURNS, policy=NoBangs()), Verbatim(heard), make_gate(heard))
    ((text, end, at),) = turns(push(session, 6.0))
    assert (text, at - end) == ("and", round(1.5 * S))


def test_speech_without_a_word_is_told() -> None:
    """It can be counted and looked for: nothing that was said is lost without a sign."""
    said_twice = speech(("one", 1.0, 1.5), ("two", 4.0, 4.5))
    deaf = Session("whisper-streaming", Oracle(said_twice[:1]), make_gate(said_twice))
    events = push(deaf, 8.0) + deaf.finish()
    turns = [event for event in events if isinstance(event, Unheard | TurnEnd | Confirmed)]
    assert [event.kind for event in turns] == ["confirmed", "turn_end", "unheard", "turn_end"]
    unheard = turns[2]
    assert isinstance(unheard, Unheard)
    assert unheard.start <= said_twice[1].start < said_twice[1].end <= unheard.end


def test_without_a_gate_nobody_knows_whether_there_was_speech() -> None:
    session = Session("whisper-streaming", Oracle(()))
    assert "unheard" not in kinds(push(session, 3.0) + session.flush() + session.finish())


def test_silence_yields_nothing_and_costs_nothing() -> None:
    oracle = exact(())
    session = Session(RECIPE, oracle, make_gate(()))
    worst = 0
    for _ in range(60):
        assert session.push(np.zeros(S, np.float32)) == []
        worst = max(worst, session.buffered)
    assert oracle.plans == []
    assert worst < 2 * S  # the pre-roll, a block and the newest portion
    assert kinds(session.finish()) == ["end"]


def test_the_first_word_is_heard_from_its_beginning() -> None:
    late = speech(("Hello", 5.0, 5.4), ("there", 5.4, 5.9))
    oracle = exact(late)
    session = Session(RECIPE, oracle, make_gate(late))
    push(session, 8.0, step=0.1)
    assert said(session.transcript.words) == "hello there"
    assert 3.9 * S < oracle.plans[0].window.start < 4.1 * S


@pytest.mark.parametrize("close", [Session.flush, Session.finish])
def test_the_callers_end_is_a_stop_of_speech_too(close: Callable[[Session], list[Event]]) -> None:
    session = Session(RECIPE, exact(), make_gate(TALK))
    push(session, 2.0)
    events = close(session)
    (stop,) = [event for event in events if isinstance(event, SpeechStop)]
    assert (stop.at, stop.end) == (2 * S, 2 * S)
    assert confirmed(events) == "two three"


def test_speech_that_goes_on_after_a_flush_is_another_turn() -> None:
    session = Session(RECIPE, exact(), make_gate(TALK))
    push(session, 2.0)
    assert kinds(session.flush())[-1] == "turn_end"
    events = push(session, 6.0)
    assert confirmed(events) == "four five six"
    assert [e.start for e in events if isinstance(e, SpeechStart)] == [2 * S]
