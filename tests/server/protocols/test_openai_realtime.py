"""OpenAI Realtime transcription, event by event, in the current and the older shape."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from openai_realtime_talk import (
    CLEAR,
    COMMIT,
    COMPLETED,
    DELTA,
    MANUAL,
    append,
    completed,
    connect,
    current,
    deltas,
    errors,
    update,
)
from whispertide.events import Confirmed, Error, SpeechStart, SpeechStop, TurnEnd
from whispertide.server.protocols.base import Audio, Clear, Close, Finish, Flush, Problem
from whispertide.server.protocols.openai_realtime import OpenAIRealtimeProtocol
from whispertide.types import Word
from wire_conversation import opening, said

# --- the server detects turns -----------------------------------------------------------------------------------------


def test_the_life_of_an_utterance() -> None:
    talk = connect()
    talk._perform(
        talk.protocol.events(
            [
                SpeechStart(0, 8_000, 4_000),
                Confirmed(1, 24_000, (Word(" Red", 8_000, 16_000),)),
                Confirmed(2, 40_000, (Word(" house.", 16_000, 24_000),)),
                SpeechStop(3, 40_000, 32_000),
                TurnEnd(4, 40_000, 32_000),
            ]
        )
    )
    item = "item_c0ffee_1"
    told = [{name: value for name, value in reply.items() if name != "event_id"} for reply in talk.json()[1:]]
    assert told[:4] == [
        {"type": "input_audio_buffer.speech_started", "audio_start_ms": 250, "item_id": item},
        {"type": DELTA, "item_id": item, "content_index": 0, "delta": "Red"},
        {"type": DELTA, "item_id": item, "content_index": 0, "delta": " house."},
        {"type": "input_audio_buffer.speech_stopped", "audio_end_ms": 2000, "item_id": item},
    ]
    assert told[4] == {"type": "input_audio_buffer.committed", "item_id": item, "previous_item_id": None}
    assert [event["type"] for event in told[5:7]] == ["conversation.item.added", "conversation.item.done"]
    assert told[5]["item"]["id"] == item
    assert told[7:] == [
        {
            "type": COMPLETED,
            "item_id": item,
            "content_index": 0,
            "transcript": "Red house.",
            "usage": {"type": "duration", "seconds": 1.75},
        }
    ]
    assert len({reply["event_id"] for reply in talk.json()}) == len(talk.json())


def test_utterances_are_items_that_follow_each_other_and_deltas_come_while_they_last() -> None:
    talk = connect(said(12, pause_every=6, every_s=0.6))
    for _ in range(60):
        talk.send(append(0.2))
        talk.step()
    talk.run()
    assert completed(talk) == list(deltas(talk).values())
    assert " ".join(completed(talk)) == talk.text
    assert len(talk.heard) == 12
    first, second = talk.json("input_audio_buffer.committed")
    assert (first["previous_item_id"], second["previous_item_id"]) == (None, first["item_id"])
    kinds = [reply["type"] for reply in talk.json()]
    assert kinds.index(DELTA) < kinds.index("input_audio_buffer.speech_stopped")


def test_log_probabilities_if_asked_for() -> None:
    talk = connect()
    talk.send(update(include=["item.input_audio_transcription.logprobs"]))
    talk._perform(talk.protocol.events([Confirmed(0, 1, (Word(" é", 0, 1, 0.5),))]))
    talk._perform(talk.protocol.events([Confirmed(1, 2, (Word(" a", 1, 2, 1.0),)), TurnEnd(2, 2, 2)]))
    first, second = talk.json(DELTA)
    assert first["logprobs"] == [{"token": " é", "logprob": -0.6931, "bytes": [32, 195, 169]}]
    (done,) = talk.json(COMPLETED)
    assert done["logprobs"] == [*first["logprobs"], *second["logprobs"]]
    other = connect()
    other._perform(other.protocol.events([Confirmed(0, 1, (Word(" a", 0, 1),)), TurnEnd(1, 1, 1)]))
    assert not any("logprobs" in reply for reply in other.json())


def test_a_commit_is_fine_while_the_server_detects_turns() -> None:
    talk = connect(said(10))
    talk.send(append(2.6), COMMIT)
    talk.run()
    talk.send(append(4.0), COMMIT)
    talk.run()
    assert completed(talk) == list(deltas(talk).values())
    assert " ".join(completed(talk)) == talk.text
    assert len(talk.json("input_audio_buffer.committed")) == len(completed(talk))


# --- the client commits -----------------------------------------------------------------------------------------------


def test_a_commit_is_an_item_whatever_pauses_are_in_it() -> None:
    talk = connect(said(9, pause_every=4))
    talk.send(MANUAL)
    for _ in range(50):
        talk.send(append(0.2))
        talk.step()
    assert completed(talk) == []
    assert talk.json(DELTA) != []
    talk.send({**COMMIT, "event_id": "mine"})
    talk.run()
    assert completed(talk) == [talk.text]
    assert list(deltas(talk).values()) == [talk.text]
    assert [reply["type"] for reply in talk.json() if "speech" in reply["type"]] == []
    (done,) = talk.json(COMPLETED)
    assert done["usage"] == {"type": "duration", "seconds": pytest.approx(10, abs=0.01)}


def test_commits_may_come_before_the_answers() -> None:
    talk = connect(said(16))
    talk.send(MANUAL, append(2.5), COMMIT, append(2.5), COMMIT, append(4), COMMIT)
    assert len(talk.json("input_audio_buffer.committed")) == 3
    talk.run()
    assert len(completed(talk)) == 3
    assert completed(talk) == list(deltas(talk).values())
    assert " ".join(completed(talk)) == talk.text


def test_a_commit_of_nothing_is_an_error() -> None:
    talk = connect()
    talk.send(MANUAL, {**COMMIT, "event_id": "mine"})
    assert [(error["code"], error["event_id"]) for error in errors(talk)] == [
        ("input_audio_buffer_commit_empty", "mine")
    ]
    talk.send(append(0.5), COMMIT, COMMIT)
    assert len(errors(talk)) == 2
    assert sum(isinstance(action, Flush) for action in talk.performed) == 1


def test_clear_forgets_what_was_not_confirmed() -> None:
    talk = connect(said(20))
    talk.send(MANUAL, CLEAR)
    assert talk.json("input_audio_buffer.cleared") != []
    talk.send(append(0.9), CLEAR)
    assert Clear() in talk.performed
    talk.run()
    assert len(talk.json("input_audio_buffer.cleared")) == 2
    talk.send(COMMIT)
    assert len(errors(talk)) == 1
    talk.send(append(3), COMMIT)
    talk.run()
    assert completed(talk) == [talk.text]
    assert "w0" not in talk.text


def test_cleared_audio_is_not_charged() -> None:
    talk = connect()
    talk.send(MANUAL, append(5), CLEAR, append(1), COMMIT)
    talk.run()
    assert [reply["usage"]["seconds"] for reply in talk.json(COMPLETED)] == [1.0]


def test_clear_in_an_utterance_leaves_no_item_open() -> None:
    for duration in (0.9, 3.0):  # without and with confirmed words
        talk = connect(said(20))
        for _ in range(round(duration / 0.3)):
            talk.send(append(0.3))
            talk.run()
        talk.send(CLEAR)
        talk.run()
        items = {reply["item_id"] for reply in talk.json("input_audio_buffer.committed")}
        assert items == {reply["item_id"] for reply in talk.json(COMPLETED)}
        talk.send(append(4), COMMIT)
        talk.run()
        assert " ".join(filter(None, completed(talk))) == talk.text


# --- trouble ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        "",
        "[]",
        {"type": None},
        {"type": ["session.update"]},
        {"type": "input_audio_buffer.append"},
        {"type": "input_audio_buffer.append", "audio": "not base64!"},
        {"type": "input_audio_buffer.append", "audio": "Ä"},
        {"type": "session.update", "session": "new"},
        {"type": "response.create"},
        {"type": "conversation.item.create", "item": {}},
        {"type": "be.nice"},
        b"\x00\x01\x02",
    ],
)
def test_events_that_cannot_be_used_are_errors_and_the_session_goes_on(message: Any) -> None:
    talk = connect(said(4))
    talk.send(MANUAL, append(1.2), message, append(1.3), COMMIT)
    talk.run()
    (error,) = errors(talk)
    assert "expected" in error["message"]
    assert completed(talk) == [talk.text] != [""]


def test_the_end_of_the_server_completes_what_was_said() -> None:
    talk = connect(said(20))
    talk.send(MANUAL)
    for _ in range(20):
        talk.send(append(0.3))
        talk.run()
    assert talk.heard
    talk.trouble(Problem("shutdown", "bye", True))
    assert completed(talk) == [talk.text]
    assert errors(talk)[0]["type"] == "server_error"


def test_a_failed_session_fails_its_item() -> None:
    talk = connect()
    talk._perform(
        talk.protocol.events([SpeechStart(0, 1, 0), Error(1, 2, "a hint", False), Error(2, 2, "broken", True)])
    )
    (failed,) = talk.json("conversation.item.input_audio_transcription.failed")
    assert (failed["item_id"], failed["error"]["message"]) == ("item_c0ffee_1", "broken")
    assert [error["message"] for error in errors(talk)] == ["a hint", "broken"]
    assert talk.close == Close(1011)


def test_browsers_offer_a_subprotocol() -> None:
    offered = replace(opening(), subprotocols=("realtime", "openai-insecure-api-key.abc"))
    assert OpenAIRealtimeProtocol(offered).subprotocol == "realtime"
    assert OpenAIRealtimeProtocol(opening()).subprotocol is None


@pytest.mark.slow
def test_their_sdk_parses_every_event() -> None:
    types = pytest.importorskip("openai.types.realtime.realtime_server_event")
    pydantic = pytest.importorskip("pydantic")
    adapter = pydantic.TypeAdapter(types.RealtimeServerEvent)
    talk = connect(said(12, pause_every=6))
    talk.send(update(include=["item.input_audio_transcription.logprobs"]))
    for _ in range(40):
        talk.send(append(0.2))
        talk.step()
    talk.send("nonsense", CLEAR)
    talk.run()
    for reply in talk.json():
        adapter.validate_python(reply)


CONTROL = st.sampled_from([COMMIT, MANUAL, current(turn_detection={"type": "server_vad"}), {"type": "x"}, "{"])


@quick(25)
@given(st.lists(st.one_of(st.floats(0, 0.7), st.none(), CONTROL), max_size=30), st.integers(0, 99), st.integers(0, 6))
def test_no_word_is_lost_whatever_is_sent_when(steps: list[Any], seed: int, pauses: int) -> None:
    talk = connect(said(14, pause_every=pauses), seed)
    talk.play(steps, append)
    talk.send(MANUAL, append(0.1), COMMIT)
    talk.run()
    commits = len(talk.json("input_audio_buffer.committed"))
    assert len(completed(talk)) == commits
    assert " ".join(filter(None, completed(talk))) == talk.text
    texts = deltas(talk)
    assert {reply["item_id"]: reply["transcript"] for reply in talk.json(COMPLETED)} == {
        reply["item_id"]: texts.get(reply["item_id"], "") for reply in talk.json("input_audio_buffer.committed")
    }


@quick(20)
@given(st.lists(st.one_of(st.floats(0, 0.7), st.none(), CONTROL, st.just(CLEAR)), max_size=30), st.integers(0, 99))
def test_with_clears_every_confirmed_word_is_in_a_completed_item(steps: list[Any], seed: int) -> None:
    talk = connect(said(14, pause_every=4), seed)
    talk.play(steps, append)
    talk.send(MANUAL, append(0.1), COMMIT)
    talk.run()
    assert " ".join(filter(None, completed(talk))) == talk.text
    assert len(completed(talk)) == len(talk.json("input_audio_buffer.committed"))


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("transcription", [{"prompt": "x" * 10_001}, {"prompt": "x", "keywords": ["y" * 10_000]}])
def test_a_prompt_that_is_too_long_is_refused_at_once(transcription: dict[str, Any], begun: bool) -> None:
    """Not told to be set, and refused with the first audio."""
    talk = connect(said(3))
    talk.send(current(transcription={"prompt": "Tide."}), *([append(0.5)] if begun else ()))
    told = len(talk.json("session.updated"))
    talk.send(current(transcription=transcription), append(2.0))
    talk.run()
    (error,) = errors(talk)
    assert "at most" in error["message"]
    assert len(talk.json("session.updated")) == told
    assert talk.asked().prompt == "Tide."


def test_a_session_that_gets_too_long_ends_as_theirs_does() -> None:
    talk = connect(said(3))
    talk.send(append(2.0))
    talk.trouble(Problem("too_long", "that was long", False))
    talk.queue.append(Finish())
    talk.run()
    assert " ".join(completed(talk)) == talk.text != ""
    assert (talk.json()[-1]["type"], errors(talk)[-1]["code"]) == ("error", "session_expired")
    assert talk.close == Close(1001, "that was long")


# --- long appends -----------------------------------------------------------------------------------------------------


def test_a_long_append_is_decoded_once_and_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = bytes(range(256)) * 600
    audio = base64.b64encode(raw).decode()
    message = json.dumps({"audio": audio, "event_id": "e1", "type": "input_audio_buffer.append"})
    decoded: list[int] = []

    def counted(decode: Callable[..., Any]) -> Callable[..., Any]:
        def count(text: str, **more: Any) -> Any:
            decoded.append(len(text))
            return decode(text, **more)

        return count

    monkeypatch.setattr(json, "loads", counted(json.loads))
    monkeypatch.setattr(base64, "b64decode", counted(base64.b64decode))
    talk, whole = connect(), connect()
    parts = list(talk.protocol.pieces(message))
    talk.send(*parts)
    assert decoded == [len(message), len(audio)]  # characters
    monkeypatch.undo()
    assert len(parts) == 5
    assert max(map(len, parts)) <= 32_000
    whole.send(message)
    heard, expected = (
        np.concatenate([one.samples for one in each.performed if isinstance(one, Audio)]) for each in (talk, whole)
    )
    np.testing.assert_array_equal(heard, expected)


def test_the_bytes_of_a_message_are_no_audio() -> None:
    """Only what was decoded here is: a client's binary message is JSON, as a text is."""
    talk = connect()
    talk.send(bytes(32_000))
    assert [error["code"] for error in errors(talk)] == ["invalid_json"]
    assert talk.session is None


@pytest.mark.parametrize("audio", ["A" * 60_000 + "!", "AA==" + "A" * 60_000, ["A"] * 1000, None])
def test_nothing_is_taken_of_a_long_append_that_cannot_be_used(audio: Any) -> None:
    message = json.dumps({"type": "input_audio_buffer.append", "audio": audio, "event_id": "e1" * 30_000})
    talk = connect()
    talk.send(*talk.protocol.pieces(message))
    assert len(errors(talk)) == 1
    assert talk.session is None
