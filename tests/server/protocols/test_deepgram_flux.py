"""Deepgram's Flux, message by message. Turns and texts against what the session said of them."""

from dataclasses import replace
from typing import Any

import pytest

from each_row import each_row
from whispertide.checkpoint.languages import DETECT
from whispertide.events import Confirmed, End, Error, Event, Hypothesis, SpeechStart, TurnEnd
from whispertide.server.protocols.base import (
    Close,
    Configure,
    Finish,
    Flush,
    Problem,
    ProblemKind,
    ProtocolError,
    Started,
)
from whispertide.server.protocols.deepgram_flux import FluxProtocol
from whispertide.types import SAMPLE_RATE, Word, join_words
from wire_conversation import Conversation, opening, said, silence

S = SAMPLE_RATE
RAW = {"encoding": "linear16", "sample_rate": "16000", "model": "flux-general-en"}
A, B, C = (Word(f" {text}", at * S, at * S + 8_000, 0.75) for at, text in enumerate(("Red-ish,", "blue.", "green"), 1))


def listen(words: tuple[Word, ...] = (), *, hears: bool = False, **query: Any) -> Conversation:
    asked = opening(**{**RAW, **query})
    asked = replace(asked, server=replace(asked.server, hears_turns=hears))
    return Conversation(FluxProtocol(asked), words)


def tell(talk: Conversation, *events: Event) -> list[dict[str, Any]]:
    """What the client is sent for events that come at once."""
    before = len(talk.replies)
    talk._perform(talk.protocol.events(events))
    return talk.json()[before:]


def outline(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(message["event"], message["transcript"]) for message in messages if message["type"] == "TurnInfo"]


def asked(**query: Any) -> Any:
    talk = listen(hears=True, **query)
    return talk.asked()


def test_a_turn_has_every_field_of_the_service() -> None:
    talk = listen(hears=True)
    talk._perform(talk.protocol.started(Started("s", "nano.en", "tide", "en")))
    (greeting,) = talk.json()
    assert greeting == {"type": "Connected", "sequence_id": 0, "request_id": greeting["request_id"]}
    (start,) = tell(talk, Confirmed(0, 2 * S, (A,)))
    assert start == {
        "type": "TurnInfo",
        "sequence_id": 1,
        "request_id": greeting["request_id"],
        "event": "StartOfTurn",
        "turn_index": 0,
        "audio_window_start": 0.0,
        "audio_window_end": 2.0,
        "transcript": "Red-ish,",
        "words": [{"word": "Red-ish,", "confidence": 0.75, "start": 1.0, "end": 1.5}],
        "end_of_turn_confidence": 0.0,
    }
    (end,) = tell(talk, TurnEnd(1, 3 * S, 2 * S, confidence=0.91))
    assert (end["event"], end["trigger"], end["end_of_turn_confidence"]) == ("EndOfTurn", "model", 0.91)
    (start,) = tell(talk, Hypothesis(2, 4 * S, (B,)))
    assert (start["turn_index"], start["audio_window_start"], start["sequence_id"]) == (1, 3.0, 3)


def test_a_turn_begins_with_its_first_word_and_grows() -> None:
    talk = listen(hears=True)
    assert tell(talk, SpeechStart(0, S, 0), Hypothesis(1, S, ())) == []
    assert outline(tell(talk, Hypothesis(2, S, (A,)))) == [("StartOfTurn", "Red-ish,")]
    assert tell(talk, Hypothesis(3, S, (A,))) == []
    grown = tell(talk, Confirmed(4, 2 * S, (A,)), Hypothesis(5, 2 * S, (B,)))
    assert outline(grown) == [("Update", "Red-ish, blue.")]


def test_eager_ends_are_taken_back_by_words_alone() -> None:
    talk = listen(hears=True, eager_eot_threshold="0.4")
    tell(talk, Confirmed(0, 2 * S, (A,)))
    assert outline(tell(talk, Hypothesis(1, 3 * S, ()), TurnEnd(2, 3 * S, 2 * S, eager=True, confidence=0.5))) == [
        ("EagerEndOfTurn", "Red-ish,")
    ]
    assert tell(talk, SpeechStart(3, 4 * S, 3 * S)) == []  # perhaps a cough
    assert tell(talk, TurnEnd(4, 4 * S, 3 * S, eager=True, confidence=0.5)) == []
    assert outline(tell(talk, Hypothesis(5, 5 * S, (B,)))) == [("TurnResumed", "Red-ish, blue.")]
    done = Hypothesis(6, 5 * S, ())
    last = tell(talk, Confirmed(6, 5 * S, (B,)), done, TurnEnd(7, 5 * S, 5 * S, eager=True, confidence=0.6))
    assert outline(last) == [("Update", "Red-ish, blue."), ("EagerEndOfTurn", "Red-ish, blue.")]
    assert outline(tell(talk, TurnEnd(8, 6 * S, 5 * S, confidence=0.8))) == [("EndOfTurn", "Red-ish, blue.")]


def test_where_eager_ends_are_asked_for_one_comes_before_every_end() -> None:
    talk = listen(hears=True, eager_eot_threshold="0.4")
    said_at_once = tell(talk, Confirmed(0, 2 * S, (A,)), TurnEnd(1, 3 * S, 2 * S, confidence=0.9))
    assert [event for event, _ in outline(said_at_once)] == ["StartOfTurn", "EagerEndOfTurn", "EndOfTurn"]


@pytest.mark.parametrize(
    ("hears", "confidence", "trigger"), [(True, 0.71, "model"), (True, 0.7, "timeout"), (False, 1.0, "timeout")]
)
def test_an_end_says_what_brought_it(hears: bool, confidence: float, trigger: str) -> None:
    talk = listen(hears=hears)
    *_, end = tell(talk, Confirmed(0, 2 * S, (A,)), TurnEnd(1, 3 * S, 2 * S, confidence=confidence))
    assert end["trigger"] == trigger


def test_a_turn_can_be_ended_by_the_client() -> None:
    talk = listen(said(4))
    talk.send(silence(1.9))
    talk.run()
    talk.send({"type": "ForceEndTurn"})
    assert talk.queue[-1] == Flush()
    talk.run()
    *_, end = talk.json("TurnInfo")
    assert (end["event"], end["trigger"], end["transcript"]) == ("EndOfTurn", "manual", talk.text)
    talk.send({"type": "ForceEndTurn"})  # there is none
    talk.run()
    assert talk.json("TurnInfo")[-1] == end


def test_a_turn_without_a_word_is_not_told() -> None:
    talk = listen(hears=True)
    assert tell(talk, SpeechStart(0, S, 0), TurnEnd(1, 2 * S, 2 * S)) == []


def test_a_guess_that_came_to_nothing_ends_as_an_empty_turn() -> None:
    talk = listen(hears=True)
    tell(talk, Hypothesis(0, S, (A,)))
    assert outline(tell(talk, Hypothesis(1, 2 * S, ()), TurnEnd(2, 2 * S, 2 * S))) == [
        ("Update", ""),
        ("EndOfTurn", ""),
    ]


@pytest.mark.parametrize("kind", ["shutdown", "idle", "too_large"])
def test_a_guess_that_came_to_nothing_is_an_ended_turn_before_the_connection_closes(kind: ProblemKind) -> None:
    talk = listen(hears=True)
    tell(talk, Hypothesis(0, S, (A,)))
    tell(talk, Hypothesis(1, 2 * S, ()))
    talk.trouble(Problem(kind, "that was that", True))
    assert [message.get("event", message["type"]) for message in talk.json()][-2:] == ["EndOfTurn", "Error"]


def test_updates_come_while_nothing_is_new() -> None:
    talk = listen(hears=True)
    tell(talk, Confirmed(0, 2 * S, (A,)))
    talk._perform(talk.protocol.processed(2 * S + 3_999))
    assert len(talk.json()) == 1
    talk._perform(talk.protocol.processed(2 * S + 4_000))
    assert outline(talk.json())[1:] == [("Update", "Red-ish,")]


def test_every_word_is_in_the_ends_of_turns() -> None:
    words = said(12, pause_every=4)
    talk = listen(words)
    for _ in range(50):
        talk.send(silence(0.3))
        talk.run()
    talk.send({"type": "CloseStream"}, b"ignored")
    assert talk.queue[-1] == Finish()
    talk.run()
    ends = [message for message in talk.json("TurnInfo") if message["event"] == "EndOfTurn"]
    assert [end["turn_index"] for end in ends] == [0, 1, 2]
    assert " ".join(end["transcript"] for end in ends) == talk.text == join_words(list(talk.heard))
    assert len(talk.heard) == len(words)
    assert [message["sequence_id"] for message in talk.json()] == list(range(len(talk.json())))
    assert talk.close == Close()


def test_a_turn_without_pauses_ends_some_time() -> None:
    """Each message has the whole turn: after hours without a pause it would be megabytes, several times a second."""
    talk = listen(hears=True)
    for number in range(50):
        talk._perform(talk.protocol.events([Confirmed(number, number * S, (replace(A, text=" so."),) * 100)]))
    talk._perform(talk.protocol.events([End(50, 50 * S, 50 * S)]))
    ends = [message for message in talk.json("TurnInfo") if message["event"] == "EndOfTurn"]
    assert [len(end["words"]) for end in ends] == [1_000] * 5
    assert {(end["trigger"], end["end_of_turn_confidence"]) for end in ends} == {("timeout", 0.0)}
    assert max(map(len, talk.replies)) < 2**18


def test_the_rest_of_a_turn_is_said_before_the_end() -> None:
    talk = listen(hears=True)
    left = tell(talk, Confirmed(0, 2 * S, (A,)), End(1, 3 * S, 3 * S))
    assert outline(left) == [("StartOfTurn", "Red-ish,"), ("EndOfTurn", "Red-ish,")]
    talk = listen(hears=True)
    left = tell(talk, Confirmed(0, 2 * S, (A,)), Error(1, 3 * S, "broken", True))
    assert [message.get("event", message["type"]) for message in left] == ["StartOfTurn", "EndOfTurn", "Error"]
    assert talk.close is not None


def test_thresholds_of_the_address_become_those_of_the_recipe() -> None:
    assert asked().changes == {
        "turn_end": "smart-turn", "turn_threshold": 0.7, "turn_eager": 0.0, "turn_timeout_s": 5.0,
    }  # fmt: skip
    chosen = asked(eot_threshold="0.9", eager_eot_threshold="0.35", eot_timeout_ms="7500").changes
    assert (chosen["turn_threshold"], chosen["turn_eager"], chosen["turn_timeout_s"]) == (0.9, 0.35, 7.5)


@each_row(
    ("query", "expected"),
    [
        ({"eot_threshold": "0.4"}, r"eot_threshold between 0\.5 and 1; got 0\.4"),
        ({"eager_eot_threshold": "0.95"}, r"eager_eot_threshold between 0\.3 and 0\.9; got 0\.95"),
        ({"eager_eot_threshold": "0.8"}, r"eager_eot_threshold of at most eot_threshold \(0\.7\); got 0\.8"),
        ({"eot_timeout_ms": "100"}, "eot_timeout_ms between 500 and 60000; got 100"),
        ({"eot_timeout_ms": "soon"}, "eot_timeout_ms to be a number"),
        ({"language_hint": "xx"}, "expected a language that is served"),
        ({"encoding": "mp3"}, "expected encoding to be one of"),
    ],
)
def test_impossible_settings_are_refused(query: dict[str, Any], expected: str) -> None:
    with pytest.raises(ProtocolError, match=expected):
        listen(**query)


@each_row(
    ("query", "language"),
    [
        ({}, "en"),
        ({"model": "flux-general-multi"}, DETECT),
        ({"model": "flux-general-multi", "language_hint": "de-AT"}, "de"),
        ({"model": "flux-general-multi", "language_hint": ["de", "fr"]}, DETECT),
        ({"model": "base"}, None),
    ],
)
def test_the_language_is_that_of_the_model_or_the_hint(query: dict[str, Any], language: str | None) -> None:
    assert asked(**query).language == language


def test_thresholds_and_terms_change_while_somebody_speaks() -> None:
    talk = listen(hears=True, keyterm=["Ebbe"])
    assert talk.asked().keyterms == ("Ebbe",)
    before = len(talk.queue)
    talk.send({"type": "Configure", "thresholds": {"eot_threshold": 0.8}, "keyterms": ["Ebbe", "Flut"]})
    success = talk.json("ConfigureSuccess")[0]
    assert success["thresholds"] == {"eot_threshold": 0.8, "eot_timeout_ms": 5000}
    assert success["keyterms"] == ["Ebbe", "Flut"]
    (change,) = list(talk.queue)[before:]
    expected = {"turn_threshold": 0.8, "turn_eager": 0.0, "turn_timeout_s": 5.0, "keyterms": ("Ebbe", "Flut")}
    assert change == Configure(expected)
    talk.send({"type": "Configure", "thresholds": {"eager_eot_threshold": 0.85}, "keyterms": ["Watt"]})
    failure = talk.json("ConfigureFailure")[0]
    assert "expected eager_eot_threshold of at most eot_threshold (0.8)" in failure["description"]
    assert len(talk.queue) == before + 1  # and the terms are as they were
    talk.send({"type": "Configure", "language_hints": ["en"]})
    assert talk.queue[-1] == Configure({"language": "en", "languages": ()})
    assert talk.json("ConfigureSuccess")[-1]["language_hints"] == ["en"]


def test_hints_stay_until_others_come_and_an_empty_list_takes_them_back() -> None:
    talk = listen(hears=True, model="flux-general-multi", language_hint=["de"])
    before = len(talk.queue)
    talk.send({"type": "Configure", "keyterms": [], "language_hints": None})
    assert talk.json("ConfigureSuccess")[-1]["language_hints"] == ["de"]
    assert len(talk.queue) == before
    talk.send({"type": "Configure", "language_hints": []})
    assert talk.queue[-1] == Configure({"language": DETECT, "languages": ()})
    assert "language_hints" not in talk.json("ConfigureSuccess")[-1]


def test_what_has_no_effect_is_a_warning() -> None:
    """Above all where numbers were to be blacked out."""
    talk = listen(hears=True, redact="numbers", numerals="true", profanity_filter="false", token="secret")
    talk.run()
    assert [message["type"] for message in talk.json()] == ["Connected", "Warning"]
    warning = talk.json("Warning")[0]
    assert warning["code"] == "UNSUPPORTED_PARAMETER"
    assert warning["description"] == "fields without effect: numerals, redact"
    assert warning["sequence_id"] == 1
    talk.send({"type": "Configure", "numerals": True})
    assert talk.json()[-1]["description"] == "fields without effect: numerals"
    assert talk.json()[-2]["type"] == "ConfigureSuccess"


def test_a_server_that_hears_no_turns_says_so_and_ends_them_in_pauses() -> None:
    talk = listen(said(4), eager_eot_threshold="0.4")
    assert talk.asked().changes == {}
    talk.run()
    (warning,) = talk.json("Warning")
    assert warning["code"] == "NO_TURN_MODEL"
    assert "whispertide models pull smart-turn" in warning["description"]
    for _ in range(10):
        talk.send(silence(0.5))
        talk.run()
    events = [event for event, _ in outline(talk.json())]
    assert "EndOfTurn" in events
    assert "EagerEndOfTurn" not in events
    talk.send({"type": "Configure", "thresholds": {"eot_threshold": 0.8}})
    assert not talk.queue


def test_other_messages_are_refused_by_name() -> None:
    talk = listen()
    talk.send({"type": "KeepAlive"}, {"type": "Finalize"})
    (problem,) = talk.problems
    assert problem.message == "expected a type among CloseStream, ForceEndTurn, Configure; got Finalize"
    assert talk.json("Warning")[-1]["code"] == "BAD_REQUEST"
    assert talk.close is None
