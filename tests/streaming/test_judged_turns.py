"""A session whose gate hears turns: what its events say of them."""

from collections.abc import Sequence

import pytest

from oracle import TruthDetector
from session_steps import PAUSED, RECIPE, TALK, confirmed, exact, kinds, push
from told_turns import ToldEar
from whispertide.audio.vad import SpeechGate
from whispertide.errors import CheckpointNotFoundError, OptionError
from whispertide.events import Event, SpeechStart, TurnEnd, from_dict, to_dict
from whispertide.server.journal_values import dump_state, load_state
from whispertide.session import Session
from whispertide.streaming import schedule
from whispertide.streaming.end_of_turn import TurnLimits
from whispertide.streaming.schedule import Fixed
from whispertide.streaming.turn_gate import TurnGate
from whispertide.types import SAMPLE_RATE, Word

S = SAMPLE_RATE
HEARD = RECIPE.replace(turn_end="smart-turn")


def opened(words: Sequence[Word], answers: Sequence[float], **changes: object) -> Session:
    recipe = HEARD.replace(**changes)
    gate = TurnGate(SpeechGate(None, TruthDetector(words)), ToldEar(answers), TurnLimits())
    return Session(recipe, exact(words), gate)


def ends(events: Sequence[Event]) -> list[TurnEnd]:
    return [event for event in events if isinstance(event, TurnEnd)]


def test_a_sure_end_comes_before_the_pause_is_long_enough() -> None:
    session = opened(TALK, [0.1, 0.9])  # there is a pause before the fourth word
    events = push(session, 4.5, step=0.1)
    (end,) = ends(events)
    assert (end.eager, end.confidence) == (False, 0.9)
    assert confirmed(events) == "one two three four five six"
    assert 3.9 * S + 0.2 * S <= end.at <= 3.9 * S + 0.3 * S


def test_utterances_of_a_turn_that_goes_on_are_confirmed_in_their_pauses() -> None:
    session = opened(PAUSED, [0.1], turn_timeout_s=8.0)
    events = push(session, 6.0)
    assert confirmed(events) == "one two three four five six"
    assert "speech_stop" in kinds(events)
    assert ends(events) == []
    events += push(session, 20.0)
    (end,) = ends(events)
    assert end.confidence == 0.1
    assert end.at >= 17.9 * S
    assert confirmed(events).endswith("seven eight")


def test_an_eager_end_is_taken_back_by_speech_or_made_sure() -> None:
    answers = [0.1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.9]
    session = opened(PAUSED, answers, turn_threshold=0.8, turn_eager=0.4, turn_timeout_s=8.0)
    events = push(session, 12.0, step=0.1)
    said = [event for event in events if isinstance(event, TurnEnd | SpeechStart)]
    assert [kinds([event])[0] for event in said] == ["speech_start", "turn_end", "speech_start", "turn_end", "turn_end"]
    assert [event.eager for event in said if isinstance(event, TurnEnd)] == [True, True, False]
    # Nothing is said between an eager end and the sure one, so whoever prepared an answer has all the words.
    assert confirmed(events[events.index(said[3]) :]) == ""
    assert [event.seq for event in events] == list(range(len(events)))


def test_a_flush_ends_an_open_turn_for_certain() -> None:
    session = opened(TALK, [0.1], turn_timeout_s=30.0)
    push(session, 5.5)
    (end,) = ends(session.flush())
    assert (end.eager, end.confidence) == (False, 1.0)
    assert ends(push(session, 40.0)) == []


def test_the_end_of_the_session_ends_an_open_turn() -> None:
    session = opened(TALK, [0.1], turn_timeout_s=30.0)
    push(session, 5.5)
    assert kinds(session.finish()) == ["turn_end", "end"]


def test_clear_ends_an_open_turn() -> None:
    session = opened(TALK, [0.1], turn_timeout_s=30.0)
    push(session, 5.5)
    assert kinds(session.clear()) == ["turn_end"]
    assert ends(push(session, 40.0)) == []


def test_limits_change_in_a_session_and_what_hears_does_not() -> None:
    session = opened(TALK, [0.6], turn_threshold=0.9, turn_timeout_s=30.0)
    assert ends(push(session, 4.2)) == []
    session.configure(turn_threshold=0.5)
    (end,) = ends(push(session, 6.0))
    assert end.confidence == 0.6
    with pytest.raises(OptionError, match="turn_end"):
        session.configure(turn_end="pause")


def test_a_restored_session_goes_on_in_the_open_turn() -> None:
    session, other = (opened(PAUSED, [0.1], turn_timeout_s=8.0) for _ in range(2))
    push(session, 6.0)
    other.restore(load_state(dump_state(session.snapshot())))  # as a journal keeps it
    assert push(other, 20.0) == push(session, 20.0)


def test_an_eager_must_not_be_harder_than_the_end() -> None:
    with pytest.raises(OptionError, match=r"expected turn_eager between 0 and 0\.5; got 0\.6"):
        Fixed(turn_eager=0.6)


def test_without_the_network_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise CheckpointNotFoundError("run `whispertide models pull smart-turn`")

    monkeypatch.setattr(schedule, "load_smart_turn", missing)
    with pytest.raises(CheckpointNotFoundError, match="models pull smart-turn"):
        HEARD.schedule.gate()
    assert isinstance(RECIPE.schedule.gate(), SpeechGate)
    assert HEARD.replace(vad=False).schedule.gate() is None


def test_events_of_versions_without_eager_ends_are_read() -> None:
    assert from_dict({"type": "turn_end", "seq": 3, "at": 1.0, "end": 0.5}) == TurnEnd(3, S, S // 2)
    assert to_dict(TurnEnd(3, S, S // 2, eager=True, confidence=0.5))["eager"] is True
