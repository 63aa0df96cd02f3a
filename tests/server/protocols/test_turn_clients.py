"""Deepgram's Flux client and OpenAI's `semantic_vad`, their SDKs unmodified, against a server that hears turns.

The words and the answers of what hears turns are told, so that these are tests of the messages alone.
"""

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oracle import make_gate, plain
from served import TEXT, KnowingModel, WatchedOracle, in_thread, served
from told_turns import ToldEar
from whispertide.options import DecodeOptions
from whispertide.recipes.recipe import Recipe
from whispertide.server import opening
from whispertide.server.hub import Hub
from whispertide.server.serving import Server
from whispertide.session import Session
from whispertide.streaming.turn_gate import TurnGate

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FIRST, SECOND, THIRD = TEXT[:5], TEXT[5:10], TEXT[10:]
UNTIL_S = 10.2  # right after the last word
# Unsure in the first pause of 2.1 s, sure in the second.
ANSWERS = (0.5, 0.55, 0.5, 0.5, 0.95)


class HearingModel(KnowingModel):
    """The model, with a gate that hears turns where the recipe says so."""

    def session(
        self, recipe: Recipe, *, options: DecodeOptions | None = None, vad: bool | None = None, live: bool = False
    ) -> Session:
        gate = make_gate(self.words)
        judged = TurnGate(gate, ToldEar(ANSWERS), recipe.schedule.turn_limits)
        hears = recipe.schedule.turn_end == "smart-turn"
        return Session(recipe, WatchedOracle(self.words, self), judged if hears else gate, options=options, live=live)


@pytest.fixture(scope="module")
def hearing() -> Iterator[tuple[Server, Hub]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "find_smart_turn", lambda: Path("smart-turn.onnx"))
        with in_thread(served(model=HearingModel())) as server:
            yield server


def said(transcript: str) -> list[str]:
    return [plain(word) for word in transcript.split()]


def pieces(rate: int) -> Iterator[bytes]:
    total = round(UNTIL_S * rate) * 2
    step = rate // 5 * 2
    for at in range(0, total, step):
        yield bytes(min(step, total - at))


def test_flux(hearing: tuple[Server, Hub]) -> None:
    deepgram = pytest.importorskip("deepgram", reason="Deepgram's SDK is not installed: pip install deepgram-sdk")
    environment = pytest.importorskip("deepgram.environment").DeepgramClientEnvironment
    message_event = pytest.importorskip("deepgram.core.events").EventType.MESSAGE
    types = pytest.importorskip("deepgram.listen.v2.types")
    address = f"127.0.0.1:{hearing[0].port}"
    places = {"base": f"http://{address}", "production": f"ws://{address}", "agent": f"ws://{address}"}
    client = deepgram.DeepgramClient(
        api_key="anything", environment=environment(**places, agent_rest=f"http://{address}")
    )
    messages: list[Any] = []
    with client.listen.v2.connect(
        model="flux-general-en", encoding="linear16", sample_rate="48000", eot_threshold="0.8",
        eager_eot_threshold="0.4", eot_timeout_ms="9000", keyterm=["winter", "tide"],
    ) as connection:  # fmt: skip
        connection.on(message_event, messages.append)
        listener = threading.Thread(target=connection.start_listening)
        listener.start()
        connection.send_configure({"type": "Configure", "thresholds": {"eot_threshold": 0.9}, "keyterms": ["ebb"]})
        for piece in pieces(48_000):
            connection.send_media(piece)
        connection.send_force_end_turn()
        connection.send_close_stream()
        listener.join(60)
        assert not listener.is_alive()
    assert isinstance(messages[0], types.ListenV2Connected)
    assert [message.sequence_id for message in messages] == list(range(len(messages)))
    (success,) = [message for message in messages if isinstance(message, types.ListenV2ConfigureSuccess)]
    assert (success.thresholds.eot_threshold, success.thresholds.eager_eot_threshold) == (0.9, 0.4)
    infos = [message for message in messages if isinstance(message, types.ListenV2TurnInfo)]
    changes = [(info.event, info.turn_index) for info in infos if info.event != "Update"]
    assert changes == [
        ("StartOfTurn", 0), ("EagerEndOfTurn", 0), ("TurnResumed", 0), ("EagerEndOfTurn", 0), ("EndOfTurn", 0),
        ("StartOfTurn", 1), ("EndOfTurn", 1),
    ]  # fmt: skip
    eager = [info.transcript for info in infos if info.event == "EagerEndOfTurn"]
    ends = [info for info in infos if info.event == "EndOfTurn"]
    assert [said(text) for text in eager] == [FIRST, FIRST + SECOND]
    assert ends[0].transcript == eager[1]
    assert said(ends[1].transcript) == THIRD
    assert [end.trigger for end in ends] == ["model", "manual"]
    assert (ends[0].end_of_turn_confidence, len(ends[0].words)) == (0.95, 10)
    assert all(0 <= word.start <= word.end <= UNTIL_S for end in ends for word in end.words)


def test_semantic_vad(hearing: tuple[Server, Hub]) -> None:
    openai = pytest.importorskip("openai", reason="OpenAI's SDK is not installed: pip install openai[realtime]")
    address = f"127.0.0.1:{hearing[0].port}/v1"
    client = openai.OpenAI(api_key="sk-x", base_url=f"http://{address}", websocket_base_url=f"ws://{address}")
    events: list[Any] = []
    with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        detection = {"type": "semantic_vad", "eagerness": "low"}
        connection.session.update(session={"type": "transcription", "audio": {"input": {"turn_detection": detection}}})
        for piece in pieces(24_000):
            connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())
        connection.input_audio_buffer.commit()
        while sum(event.type.endswith(".completed") for event in events) < 2:
            events.append(connection.recv())
            assert events[-1].type != "error"
    updated = next(event for event in events if event.type == "session.updated")
    assert updated.session.audio.input.turn_detection.eagerness == "low"
    completed = [event.transcript for event in events if event.type.endswith(".completed")]
    assert [said(text) for text in completed] == [FIRST + SECOND, THIRD]
