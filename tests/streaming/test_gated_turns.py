"""Where a turn's audio begins, by what the gate says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from oracle import audio_between, make_gate, speech
from session_steps import RECIPE, TALK, confirmed, exact, kinds, push, said
from whispertide.audio.vad import GateEvent, SpeechCertain, SpeechStarted, SpeechStopped
from whispertide.events import Confirmed, Event, Hypothesis, SpeechStart, SpeechStop, TurnEnd, Unheard
from whispertide.session import Session
from whispertide.types import SAMPLE_RATE, FloatArray, Span

S = SAMPLE_RATE


@dataclass
class ScriptedGate:
    """Says what it was told to, as soon as that much was fed."""

    events: list[GateEvent]
    fed: int = 0
    needed_from: int = 0
    quiet: int = 0
    pause_end: int | None = None

    def feed(self, samples: FloatArray) -> list[GateEvent]:
        self.fed += len(samples)
        ready = [event for event in self.events if event.decided_at <= self.fed]
        self.events = self.events[len(ready) :]
        return ready

    def finish(self) -> list[GateEvent]:
        return []

    def snapshot(self) -> object:
        return (list(self.events), self.fed)

    def restore(self, state: Any) -> None:
        self.events, self.fed = list(state[0]), state[1]


def test_audio_that_a_round_has_seen_stays_in_its_utterance() -> None:
    gate = ScriptedGate([
        SpeechStarted(0, 1_000),
        SpeechStopped(20_000, 33_000),  # a round has looked up to 32,000 by then
        SpeechStarted(25_000, 40_000),  # reaches back into it
        SpeechStopped(48_000, 50_000),
    ])  # fmt: skip
    oracle = exact(())
    session = Session(RECIPE, oracle, gate)
    marks = [e for e in push(session, 4.0, step=0.25) if isinstance(e, SpeechStart | SpeechStop)]
    assert [getattr(e, "start", None) or getattr(e, "end", None) for e in marks] == [None, 32_000, 32_000, 48_000]
    assert [plan.window for plan in oracle.plans if plan.is_last] == [Span(0, 32_000), Span(32_000, 48_000)]


def test_an_utterance_without_audio_has_no_round_and_the_next_one_follows_at_once() -> None:
    gate = ScriptedGate([SpeechStarted(3_200, 4_000), SpeechStopped(3_200, 5_000), SpeechStarted(6_400, 8_000)])
    oracle = exact(())
    session = Session(RECIPE, oracle, gate)
    assert kinds(session.push(audio_between(0, 2 * S))) == ["speech_start", "speech_stop", "speech_start"]
    assert [plan.window for plan in oracle.plans] == [Span(6_400, 2 * S)]


def test_a_flush_where_speech_has_only_begun_is_answered() -> None:
    session = Session(RECIPE, exact(()), ScriptedGate([SpeechStarted(S, S)]))
    push(session, 1.0)
    (answer,) = session.flush()
    assert answer == TurnEnd(answer.seq, S, S)


@pytest.mark.parametrize("step", [0.1, 0.5, 4.0])
def test_of_a_click_nothing_is_written(step: float) -> None:
    """A cry or a tick that sounds like a voice for a moment sounds like a word as well (issue "faults")."""
    gate = ScriptedGate([
        SpeechStarted(0, 1_000, is_certain=False),
        SpeechStopped(2 * S, 3 * S),
        SpeechStarted(round(3.2 * S), round(3.3 * S), is_certain=False),
        SpeechCertain(round(3.4 * S)),
    ])  # fmt: skip
    session = Session(RECIPE, exact(), gate)
    events = push(session, 4.0, step) + session.finish()
    assert confirmed(events) == "six"
    assert [e.start for e in events if isinstance(e, Unheard)] == [0]
    assert all(event.at >= 3 * S for event in events if isinstance(event, Confirmed))
    shown = [event for event in events if isinstance(event, Hypothesis) and event.at <= 3 * S]
    assert not shown or not shown[-1].words


@pytest.mark.parametrize("step", [0.1, 0.5])
def test_words_wait_until_it_is_certain_that_somebody_speaks(step: float) -> None:
    gate = ScriptedGate([SpeechStarted(0, 1_000, is_certain=False), SpeechCertain(round(3.1 * S))])
    session = Session(RECIPE, exact(), gate)
    events = push(session, 4.0, step)
    first = next(event for event in events if isinstance(event, Confirmed))
    assert (first.at, said(first.words)) == (4 * S, "one two three four")
    assert confirmed([*events, *session.finish()]) == said(TALK)


@pytest.mark.parametrize("step", [0.1, 0.5])
def test_the_first_word_begins_with_the_voice_and_not_with_the_audio_kept_before_it(step: float) -> None:
    """Alignment puts the first word of a window at its beginning, which is up to a second of silence."""
    said_at = speech(("One", 2.0, 2.4), ("two", 2.5, 2.9), ("three", 6.0, 6.4))
    aligned = speech(("One", 1.1, 2.4), ("two", 2.5, 2.9), ("three", 5.0, 6.4))
    session = Session(RECIPE, exact(aligned), make_gate(said_at))
    events = push(session, 8.0, step) + session.finish()
    starts = [word.start_s for event in events if isinstance(event, Confirmed) for word in event.words]
    shown = [event.words[0].start_s for event in events if isinstance(event, Hypothesis) and event.words]
    assert starts == pytest.approx([1.9, 2.5, 5.9], abs=0.04)
    assert min(shown) == pytest.approx(1.9, abs=0.04)


def test_an_end_that_is_asked_for_is_no_click() -> None:
    session = Session(RECIPE, exact(), ScriptedGate([SpeechStarted(0, 1_000, is_certain=False)]))
    push(session, 0.75, 0.25)
    assert confirmed(session.flush()) == "one"


@pytest.mark.parametrize("ended", [Session.flush, Session.finish])
def test_a_word_that_is_being_spoken_where_the_end_is_asked_for_is_no_click(
    ended: Callable[[Session], list[Event]],
) -> None:
    yes = speech(("yes", 1.0, 1.15))  # too short to be certain of a voice
    session = Session(RECIPE, exact(yes), make_gate(yes))
    events = push(session, 1.16, 0.02) + ended(session)
    assert (confirmed(events), "unheard" in kinds(events)) == ("yes", False)
    over = Session(RECIPE, exact(yes), make_gate(yes))
    events = push(over, 1.5, 0.02) + ended(over)
    assert (confirmed(events), "unheard" in kinds(events)) == ("", True)
