"""Every event survives the trip through JSON; what is no event is refused."""

import json
from dataclasses import fields
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from whispertide import events
from whispertide.errors import OptionError
from whispertide.events import (
    EVENT_TYPES,
    Confirmed,
    Correction,
    Event,
    Lag,
    RoundStats,
    SpeechStart,
    Translation,
    from_dict,
    of_channel,
    to_dict,
)
from whispertide.types import Word

SAMPLES = st.integers(0, 24 * 3600 * 16_000)
FLOATS = st.floats(0, 1e6)
WORDS = st.builds(Word, st.text(), SAMPLES, SAMPLES, st.floats(0, 1))
STATS = st.builds(
    RoundStats, st.integers(-1, 10**6), SAMPLES, SAMPLES, FLOATS, FLOATS, FLOATS, st.integers(0), st.integers(0)
)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: SAMPLES,
    str: st.text(),
    str | None: st.none() | st.text(),
    int | None: st.none() | st.integers(1, 64),
    float: FLOATS,
    bool: st.booleans(),
    tuple[Word, ...]: st.lists(WORDS, max_size=4).map(tuple),
    RoundStats: STATS,
}


def events_of(cls: type[Event]) -> st.SearchStrategy[Event]:
    hints = get_type_hints(cls)
    return st.builds(cls, **{item.name: BY_TYPE[hints[item.name]] for item in fields(cls)})


def test_every_kind_of_event_is_in_the_table() -> None:
    classes = {item for item in vars(events).values() if isinstance(item, type) and issubclass(item, Event)}
    assert set(EVENT_TYPES.values()) == classes - {Event}
    assert all(cls.kind == kind for kind, cls in EVENT_TYPES.items())


@pytest.mark.parametrize("kind", EVENT_TYPES)
@given(data=st.data())
def test_an_event_survives_json(kind: str, data: st.DataObject) -> None:
    event = data.draw(events_of(EVENT_TYPES[kind]))
    sent = json.dumps(to_dict(event))
    assert json.loads(sent)["type"] == kind
    assert from_dict(json.loads(sent)) == event


def test_times_leave_as_seconds_and_counts_as_they_are() -> None:
    assert to_dict(SpeechStart(3, 32_000, 8_000)) == {"type": "speech_start", "seq": 3, "at": 2.0, "start": 0.5}
    assert to_dict(Lag(0, 0, 24_000, 2)) == {"type": "lag", "seq": 0, "at": 0.0, "behind": 1.5, "level": 2}
    word = to_dict(Confirmed(0, 0, (Word(" hi", 1600, 3200, 0.5),)))["words"][0]
    assert word == {"text": " hi", "start": 0.1, "end": 0.2, "probability": 0.5}


def test_an_event_of_a_channel_has_its_number_and_its_words_a_speaker() -> None:
    said = of_channel(Confirmed(0, 0, (Word(" hi", 1600, 3200),)), 2)
    assert (to_dict(said)["channel"], to_dict(said)["words"][0]["speaker"]) == (2, 2)
    assert to_dict(of_channel(SpeechStart(3, 32_000, 8_000), 1))["channel"] == 1
    for event in (Translation(0, 0, 0, 8_000, "fr", "Salut."), Correction(0, 0, 0, 8_000, "Hi.")):
        assert "speaker" not in to_dict(event)
        assert to_dict(of_channel(event, 2))["speaker"] == 2


def test_statistics_may_be_left_out() -> None:
    assert from_dict({"type": "hypothesis", "seq": 1, "at": 1.0, "words": []}) == from_dict(
        {"type": "hypothesis", "seq": 1, "at": 1.0, "words": [], "stats": {}}
    )


@each_row(
    ("data", "message"),
    [
        ({"type": "shout", "seq": 0, "at": 0.0}, "expected an event type"),
        ({"seq": 0, "at": 0.0}, "expected an event type"),
        ({"type": "end", "seq": 0, "at": 0.0}, "duration"),
        ({"type": "end", "seq": 0, "at": 0.0, "duration": 1.0, "mood": "good"}, "mood"),
        ({"type": "confirmed", "seq": 0, "at": 0.0}, "words"),
        ({"type": "end", "seq": 0, "at": float("nan"), "duration": 1.0}, "expected numbers.*NaN"),
        ({"type": "end", "seq": 0, "at": 0.0, "duration": float("inf")}, "expected numbers.*infinity"),
        (
            {"type": "confirmed", "seq": 0, "at": 0.0, "words": [{"text": " a", "start": 0.0, "end": float("-inf")}]},
            "expected numbers.*infinity",
        ),
    ],
)
def test_what_is_no_event_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        from_dict(data)
