"""OpenAI's `semantic_vad`: an item ends where the speaker is done, not in each pause."""

from dataclasses import replace
from typing import Any

from each_row import each_row
from whispertide.events import Confirmed, Event, SpeechStart, SpeechStop, TurnEnd
from whispertide.server.protocols.base import Configure, Start
from whispertide.server.protocols.openai_realtime import OpenAIRealtimeProtocol
from whispertide.types import SAMPLE_RATE, Word
from wire_conversation import Conversation, opening

S = SAMPLE_RATE
A, B = Word(" Well,", S, S + 8_000), Word(" done.", 3 * S, 3 * S + 8_000)
APPEND = {"type": "input_audio_buffer.append", "audio": "AAAA"}


def talk_of(*, hears: bool = True) -> Conversation:
    asked = opening(intent="transcription")
    return Conversation(OpenAIRealtimeProtocol(replace(asked, server=replace(asked.server, hears_turns=hears))))


def update(talk: Conversation, **detection: Any) -> Any:
    """The turn detection that the server says it has then."""
    changed = {"audio": {"input": {"turn_detection": {"type": "semantic_vad"} | detection}}}
    talk.send({"type": "session.update", "session": changed})
    *_, answer = talk.json()
    return answer["session"]["audio"]["input"]["turn_detection"] if "session" in answer else answer["error"]


def started(talk: Conversation) -> Start:
    talk.send(APPEND)
    (start,) = [action for action in talk.performed if isinstance(action, Start)]
    return start


@each_row(
    ("eagerness", "threshold", "timeout_s"),
    [("low", 0.8, 8.0), ("medium", 0.5, 4.0), ("auto", 0.5, 4.0), (None, 0.5, 4.0), ("high", 0.3, 2.0)],
)
def test_eagerness_is_a_threshold_and_a_timeout(eagerness: str | None, threshold: float, timeout_s: float) -> None:
    talk = talk_of()
    answer = update(talk, **({} if eagerness is None else {"eagerness": eagerness}))
    assert answer == {"type": "semantic_vad", "eagerness": eagerness or "auto"}
    assert started(talk).settings.changes == {
        "turn_end": "smart-turn", "turn_threshold": threshold, "turn_timeout_s": timeout_s,
    }  # fmt: skip


def test_an_unknown_eagerness_is_refused() -> None:
    assert (
        "expected eagerness to be one of low, medium, auto, high; got wild"
        in update(talk_of(), eagerness="wild")["message"]
    )


def test_eagerness_changes_while_the_session_runs() -> None:
    talk = talk_of()
    update(talk)
    started(talk)
    update(talk, eagerness="low")
    assert talk.queue[-1] == Configure({"turn_end": "smart-turn", "turn_threshold": 0.8, "turn_timeout_s": 8.0})


def test_after_the_first_audio_the_answer_has_what_ends_turns() -> None:
    """A session that began with pauses goes on with them, and one that hears turns goes on to."""
    talk = talk_of()
    started(talk)
    for eagerness in ("low", "high"):
        assert update(talk, eagerness=eagerness)["type"] == "server_vad"
    assert not [action for action in talk.performed if isinstance(action, Configure)]

    talk = talk_of()
    update(talk, eagerness="low")
    started(talk)
    assert update(talk, type="server_vad", silence_duration_ms=200) == {"type": "semantic_vad", "eagerness": "low"}
    talk.send({"type": "session.update", "session": {"audio": {"input": {"turn_detection": None}}}})
    assert not [action for action in talk.performed if isinstance(action, Configure)]
    assert update(talk, eagerness="high")["eagerness"] == "high"
    assert talk.queue[-1] == Configure({"turn_end": "smart-turn", "turn_threshold": 0.3, "turn_timeout_s": 2.0})


def test_where_nothing_hears_turns_the_answer_says_what_ends_them() -> None:
    talk = talk_of(hears=False)
    answer = update(talk, eagerness="low")
    assert (answer["type"], answer["silence_duration_ms"]) == ("server_vad", 500)
    assert started(talk).settings.changes == {"vad_pause_s": 0.5, "vad_turn_s": 0.0, "turn_end": "pause"}


def test_an_item_ends_with_the_turn_and_not_in_its_pauses() -> None:
    talk = talk_of()
    update(talk)
    started(talk)
    before = len(talk.replies)
    events: list[Event] = [
        SpeechStart(0, S, S), Confirmed(1, 2 * S, (A,)), SpeechStop(2, 2 * S, 2 * S),
        SpeechStart(3, 3 * S, 3 * S), Confirmed(4, 4 * S, (B,)), SpeechStop(5, 4 * S, 4 * S),
        TurnEnd(6, 4 * S, 4 * S, eager=True, confidence=0.4), TurnEnd(7, 5 * S, 4 * S, confidence=0.9),
    ]  # fmt: skip
    for event in events:
        talk._perform(talk.protocol.events([event]))
    sent = talk.json()[before:]
    assert [message["type"].rpartition(".")[2] for message in sent] == [
        "speech_started", "delta", "delta", "speech_stopped", "committed", "added", "done", "completed",
    ]  # fmt: skip
    assert sent[3]["audio_end_ms"] == 4_000
    assert sent[-1]["transcript"] == "Well, done."
