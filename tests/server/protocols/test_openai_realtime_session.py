"""OpenAI Realtime transcription: the session, what it may be set to, and what it answers."""

from typing import Any

import pytest

from openai_realtime_talk import COMMIT, MANUAL, append, connect, current, errors, update
from whispertide.server.protocols.base import Audio, Configure, Start
from whispertide.types import SAMPLE_RATE
from wire_conversation import said


def test_the_first_event_is_the_session() -> None:
    (created,) = connect(model="gpt-4o-transcribe").json()
    assert created == {
        "type": "session.created",
        "event_id": "event_c0ffee_1",
        "session": {
            "id": "sess_c0ffee",
            "object": "realtime.transcription_session",
            "expires_at": 1_700_003_600,
            "type": "transcription",
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": 24_000},
                    "transcription": {"model": "gpt-4o-transcribe", "language": None, "prompt": ""},
                    "noise_reduction": None,
                    "turn_detection": {
                        "type": "server_vad",
                        "threshold": 0.5,
                        "prefix_padding_ms": 300,
                        "silence_duration_ms": 500,
                    },
                }
            },
            "include": None,
        },
    }


def test_older_clients_get_the_older_shape() -> None:
    talk = connect(older=True)
    (created,) = talk.json()
    assert created["type"] == "transcription_session.created"
    assert created["session"]["input_audio_format"] == "pcm16"
    talk.send(
        {
            "type": "transcription_session.update",
            "session": {
                "input_audio_format": "g711_ulaw",
                "input_audio_transcription": {"model": "whisper-1", "language": "de", "prompt": "Ebbe"},
                "input_audio_noise_reduction": {"type": "near_field"},
                "turn_detection": {"type": "server_vad", "silence_duration_ms": 200},
                "include": ["item.input_audio_transcription.logprobs"],
            },
        }
    )
    (updated,) = talk.json("transcription_session.updated")
    session = updated["session"]
    assert session["input_audio_format"] == "g711_ulaw"
    assert session["input_audio_transcription"] == {"model": "whisper-1", "language": "de", "prompt": "Ebbe"}
    assert session["input_audio_noise_reduction"] is None
    assert session["turn_detection"]["silence_duration_ms"] == 200
    assert session["turn_detection"]["threshold"] == 0.5
    talk.send(append(1, 8_000, 1))
    chosen = talk.asked()
    assert (chosen.model, chosen.language, chosen.prompt) == ("whisper-1", "de", "Ebbe")
    assert chosen.changes == {"vad_pause_s": 0.2, "vad_turn_s": 0.0, "turn_end": "pause"}
    assert "session.created" in {reply["type"] for reply in connect(older=True, intent="other").json()}


def test_the_current_shape_sets_everything_too_and_leaves_the_rest() -> None:
    talk = connect()
    talk.send(current(transcription={"model": "base", "language": "fr-FR", "keywords": ["Ada"], "prompt": "Salut."}))
    talk.send(current(format={"type": "audio/pcma"}, noise_reduction={"type": "far_field"}))
    talk.send(current(turn_detection=None))
    *_, updated = talk.json("session.updated")
    assert updated["session"]["audio"]["input"] == {
        "format": {"type": "audio/pcma"},
        "transcription": {"model": "base", "language": "fr-FR", "prompt": "Salut.", "keywords": ["Ada"]},
        "noise_reduction": None,
        "turn_detection": None,
    }
    talk.send(append(1, 8_000, 1))
    assert (talk.asked().language, talk.asked().changes, talk.asked().keyterms) == ("fr", {}, ("Ada",))
    assert errors(talk) == []


def test_the_answer_is_the_session_in_force_and_no_error_for_what_is_not_done() -> None:
    """As their service answers an update. An `error` ends pipecat's client."""
    talk = connect()
    talk.send(current(noise_reduction={"type": "near_field"}))
    (updated,) = talk.json("session.updated")
    assert updated["session"]["audio"]["input"]["noise_reduction"] is None
    assert errors(talk) == []
    talk.send(current(noise_reduction="near_field"))
    assert "expected noise_reduction to be an object" in errors(talk)[0]["message"]


def test_after_the_first_audio_the_answer_has_the_pause_that_is_in_force() -> None:
    talk = connect()
    talk.send(current(turn_detection={"type": "server_vad", "silence_duration_ms": 700}), append(1))
    assert talk.asked().changes["vad_pause_s"] == 0.7
    talk.send(current(turn_detection={"type": "server_vad", "silence_duration_ms": 200, "threshold": 0.9}))
    talk.send(MANUAL, current(turn_detection={"type": "server_vad", "silence_duration_ms": 100}))
    talk.send(current(turn_detection={"type": "semantic_vad"}))
    _, first, manual, again, semantic = talk.json("session.updated")
    told = [each["session"]["audio"]["input"]["turn_detection"] for each in (first, manual, again, semantic)]
    assert told[1] is None, "the client may commit from now on"
    assert [(each["type"], each["silence_duration_ms"]) for each in told if each] == [("server_vad", 700)] * 3
    assert told[0]["threshold"] == 0.9
    assert not [action for action in talk.performed if isinstance(action, Configure)]
    assert errors(talk) == []


def test_several_languages_are_those_that_may_be_detected() -> None:
    talk = connect()
    talk.send(current(transcription={"languages": ["fr-FR", "de"]}), append(1))
    assert (talk.asked().language, talk.asked().languages) == (None, ("fr", "de"))
    talk.send(current(transcription={"languages": ["de"], "keywords": ["Ada"]}))
    (change,) = (action for action in talk.performed if isinstance(action, Configure))
    assert change == Configure({"language": "de", "languages": (), "prompt": "", "keyterms": ("Ada",)})


def test_the_session_starts_with_the_first_audio() -> None:
    talk = connect()
    talk.send(MANUAL, current(transcription={"language": "de"}))
    assert not any(isinstance(action, Start) for action in talk.performed)
    talk.send(append(0.1), append(0.1), current(transcription={"language": "fr"}), current(transcription=None))
    assert sum(isinstance(action, Start) for action in talk.performed) == 1
    assert [action for action in talk.performed if isinstance(action, Configure)] == [
        Configure({"language": "fr", "languages": (), "prompt": "", "keyterms": ()})
    ]


@pytest.mark.parametrize(
    ("form", "rate", "width"),
    [
        ({"type": "audio/pcm"}, 24_000, 2),
        ({"type": "audio/pcm", "rate": 16_000}, 16_000, 2),
        ({"type": "audio/pcm", "rate": 48_000}, 48_000, 2),
        ({"type": "audio/pcmu"}, 8_000, 1),
        ({"type": "audio/pcma"}, 8_000, 1),
    ],
)
def test_audio_formats(form: dict[str, Any], rate: int, width: int) -> None:
    talk = connect()
    talk.send(MANUAL, current(format=form), append(1.5, rate, width), COMMIT)
    total = sum(len(action.samples) for action in talk.performed if isinstance(action, Audio))
    assert abs(total - 1.5 * SAMPLE_RATE) <= 1


@pytest.mark.parametrize(
    "session",
    [
        {"audio": {"input": {"format": {"type": "audio/mp3"}}}},
        {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 1}}}},
        {"audio": {"input": {"transcription": {"language": "tlh"}}}},
        {"audio": {"input": {"transcription": {"prompt": 7}}}},
        {"audio": {"input": {"transcription": "whisper-1"}}},
        {"audio": {"input": {"turn_detection": {"type": "telepathy"}}}},
        {"audio": {"input": {"turn_detection": {"silence_duration_ms": "long"}}}},
        {"audio": []},
        {"input_audio_format": "mp3"},
        {"include": "everything"},
    ],
)
def test_an_update_that_cannot_be_is_an_error_and_changes_nothing(session: dict[str, Any]) -> None:
    talk = connect(said(3))
    talk.send({**update(**session), "event_id": "mine"})
    (error,) = errors(talk)
    assert (error["type"], error["event_id"]) == ("invalid_request_error", "mine")
    assert "expected" in error["message"]
    talk.send(current())
    assert talk.json("session.updated")[0]["session"] == talk.json("session.created")[0]["session"]
