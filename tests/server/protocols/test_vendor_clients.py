"""The other services' own clients, unmodified, against the server with the bundled model.

Each test compares what the client has in the end with what the session on the server confirmed, and that with a local
session that is given the same audio, flushes and rounds.
"""

import asyncio
import base64
import gc
import importlib.util
import json
import re
import socket
import subprocess
import sys
import threading
import time
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import whispertide
from reference import remembering
from served import in_thread
from vendor_server import PACE, PATIENCE_S, Served, pcm, pieces, wait_for
from watcher import Watcher
from whispertide.audio.file import load_audio
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.hub import Hub
from whispertide.server.options import Limits, ServerOptions, Work
from whispertide.server.protocols.base import Flush
from whispertide.server.protocols.lines import JsonLinesProtocol, TextLinesProtocol
from whispertide.server.protocols.wyoming import WyomingProtocol
from whispertide.server.serving import run_server
from whispertide.server.tcp import TcpListener
from whispertide.types import SAMPLE_RATE, FloatArray

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "protocols.md"
CLIP = Path(__file__).parents[2] / "clips" / "winter.flac"
RECIPE = get_recipe("whisper-streaming").replace(search="greedy", framing="bare", step_s=1.5)


@pytest.fixture(autouse=True)
def _their_rubbish() -> Iterator[None]:
    """A client that leaves its socket to the garbage collector is told here, and not in a later test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    model = whispertide.load("nano.en", threads=1)
    remembering(model.model)  # `replayed` hears the same windows
    served = Served(model, Watcher())

    @asynccontextmanager
    async def opened() -> AsyncIterator[Served]:
        options = ServerOptions(Limits(stall_s=600.0), Work(workers=1, degrade=False))  # a slow machine is fine
        hub = Hub({"nano.en": model}, RECIPE, options, version="test", record=served.watcher.opened)
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(run_server(hub))
            served.port = server.port
            for kind in (WyomingProtocol, TextLinesProtocol, JsonLinesProtocol):
                listener = TcpListener(hub, kind)
                served.tcp[kind.name] = await listener.start()
                stack.push_async_callback(listener.stop)
            yield served

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whispertide.server.load.HIGH", float("inf"))  # a slow machine would refuse the next client
        # an unlikely text is not tried again at other temperatures, which takes most of the time
        patch.setattr("whispertide.decoding.fallback.needs_fallback", lambda *_: False)
        with in_thread(opened()) as served:
            yield served


@pytest.fixture(scope="module")
def clip() -> FloatArray:
    return np.concatenate([load_audio(CLIP), np.zeros(SAMPLE_RATE, np.float32)])


# --- OpenAI -----------------------------------------------------------------------------------------------------------


DELTA = "conversation.item.input_audio_transcription.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"


def openai_client(served: Served) -> Any:
    openai = pytest.importorskip("openai", reason="OpenAI's SDK is not installed: pip install openai[realtime]")
    pytest.importorskip("websockets")
    address = f"127.0.0.1:{served.port}/v1"
    return openai.OpenAI(api_key="sk-anything", base_url=f"http://{address}", websocket_base_url=f"ws://{address}")


def receive_until(connection: Any, kind: str, events: list[Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        events.append(connection.recv())
        assert events[-1].type != "error", events[-1]
        if events[-1].type == kind:
            return events[-1]
    raise AssertionError(f"no {kind} in time")


def append(connection: Any, data: bytes, bytes_per_s: int) -> None:
    for piece in pieces(data, bytes_per_s):
        connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())


def test_openai_realtime_with_live_deltas(served: Served, clip: FloatArray) -> None:
    data = pcm(clip, 24_000)
    events: list[Any] = []
    with openai_client(served).realtime.connect(extra_query={"intent": "transcription"}) as connection:
        assert receive_until(connection, "session.created", events).session.type == "transcription"
        transcription = {"model": "gpt-4o-transcribe", "language": "en"}
        source = {"format": {"type": "audio/pcm", "rate": 24_000}, "transcription": transcription}
        connection.session.update(
            session={"type": "transcription", "audio": {"input": {**source, "turn_detection": None}}}
        )
        updated = receive_until(connection, "session.updated", events)
        assert updated.session.audio.input.turn_detection is None
        for piece in pieces(data, 48_000, 1.1):  # a round each, however slow the machine is
            append(connection, piece, 48_000)
            wait_for(lambda: served.is_settled)
        connection.input_audio_buffer.commit()
        done = receive_until(connection, COMPLETED, events)
    kinds = [event.type for event in events]
    assert kinds.index(DELTA) < kinds.index("input_audio_buffer.committed")  # while the speaker was still talking
    assert "".join(event.delta for event in events if event.type == DELTA) == done.transcript
    assert done.usage.type == "duration"
    served.check(done.transcript)


def test_openai_realtime_where_the_server_detects_turns(served: Served, clip: FloatArray) -> None:
    data = pcm(clip, 24_000)
    events: list[Any] = []
    with openai_client(served).realtime.connect(extra_query={"intent": "transcription"}) as connection:
        append(connection, data + bytes(2 * 48_000), 48_000)
        receive_until(connection, "input_audio_buffer.speech_stopped", events)
        receive_until(connection, COMPLETED, events)
        connection.input_audio_buffer.commit()
        committed = [event for event in events if event.type == "input_audio_buffer.committed"]
        committed.append(receive_until(connection, "input_audio_buffer.committed", events))
        while sum(event.type == COMPLETED for event in events) < len({event.item_id for event in committed}):
            receive_until(connection, COMPLETED, events)
    texts = [event.transcript for event in events if event.type == COMPLETED]
    assert "input_audio_buffer.speech_started" in {event.type for event in events}
    served.check(" ".join(filter(None, texts)))


def test_openai_realtime_as_older_clients_speak_it(served: Served, clip: FloatArray) -> None:
    events: list[Any] = []
    client = openai_client(served)
    if not hasattr(client.beta, "realtime"):
        pytest.skip("this version of OpenAI's SDK has no beta client")
    with client.beta.realtime.connect(
        model="whisper-1", extra_query={"intent": "transcription"}, extra_headers={"OpenAI-Beta": "realtime=v1"}
    ) as connection:
        receive_until(connection, "transcription_session.created", events)
        connection.transcription_session.update(
            session={
                "input_audio_format": "pcm16",
                "input_audio_transcription": {"model": "whisper-1", "language": "en"},
                "turn_detection": None,
            }
        )
        receive_until(connection, "transcription_session.updated", events)
        append(connection, pcm(clip, 24_000), 48_000)
        connection.input_audio_buffer.commit()
        done = receive_until(connection, COMPLETED, events)
    assert "conversation.item.created" in {event.type for event in events}
    served.check(done.transcript)


# --- Deepgram ---------------------------------------------------------------------------------------------------------


def deepgram_client(port: int) -> tuple[Any, Any]:
    """A client of Deepgram's SDK for this server, and the name of its event for a message."""
    deepgram = pytest.importorskip("deepgram", reason="Deepgram's SDK is not installed: pip install deepgram-sdk")
    environment = pytest.importorskip("deepgram.environment").DeepgramClientEnvironment
    address = f"127.0.0.1:{port}"
    places = {"base": f"http://{address}", "production": f"ws://{address}", "agent": f"ws://{address}"}
    client = deepgram.DeepgramClient(
        api_key="anything", environment=environment(**places, agent_rest=f"http://{address}")
    )
    return client, pytest.importorskip("deepgram.core.events").EventType.MESSAGE


@pytest.mark.parametrize("rate", [pytest.param(48_000, marks=pytest.mark.soak), 8_000])
def test_deepgram_live(served: Served, clip: FloatArray, rate: int) -> None:
    client, message_event = deepgram_client(served.port)
    data = pcm(clip, rate)
    messages: list[Any] = []
    with client.listen.v1.connect(
        model="nova-3", language="en-US", encoding="linear16", sample_rate=str(rate), interim_results="true",
        vad_events="true", utterance_end_ms="1000", smart_format="true", keyterm=["winter"],
    ) as connection:  # fmt: skip
        connection.on(message_event, messages.append)
        listener = threading.Thread(target=connection.start_listening)
        listener.start()
        for piece in pieces(data[: 6 * rate], 2 * rate):
            connection.send_media(piece)
        connection.send_keep_alive()
        connection.send_finalize()
        wait_for(lambda: any(getattr(message, "from_finalize", None) for message in messages))
        for piece in pieces(data[6 * rate :], 2 * rate):
            connection.send_media(piece)
        connection.send_close_stream()
        listener.join(PATIENCE_S)
        assert not listener.is_alive()
    finals = [message for message in messages if message.type == "Results" and message.is_final]
    assert messages[-1].type == "Metadata"
    assert messages[-1].duration == pytest.approx(len(clip) / SAMPLE_RATE, abs=0.01)
    assert "SpeechStarted" in {message.type for message in messages}
    words = [word for message in finals for word in message.channel.alternatives[0].words]
    assert all(0 <= word.start <= word.end <= len(clip) / SAMPLE_RATE + 0.01 for word in words)
    served.check(" ".join(filter(None, (message.channel.alternatives[0].transcript for message in finals))))


def test_deepgram_keeps_channels_apart(served: Served, clip: FloatArray) -> None:
    client, message_event = deepgram_client(served.port)
    late = np.concatenate([np.zeros(SAMPLE_RATE // 2, np.float32), clip])
    left = np.pad(clip, (0, len(late) - len(clip)))
    before, messages = len(served.watcher.sessions), list[Any]()
    with client.listen.v1.connect(
        model="nova-3", encoding="linear16", sample_rate="16000", channels="2", multichannel="true",
    ) as connection:  # fmt: skip
        connection.on(message_event, messages.append)
        listener = threading.Thread(target=connection.start_listening)
        listener.start()
        for piece in pieces(pcm(np.stack([left, late], axis=1)), 4 * SAMPLE_RATE):
            connection.send_media(piece)
        connection.send_close_stream()
        listener.join(PATIENCE_S)
        assert not listener.is_alive()
    assert (messages[-1].type, messages[-1].channels) == ("Metadata", 2)
    finals = [message for message in messages if message.type == "Results" and message.is_final]
    texts, starts = [], []
    for channel in (0, 1):
        heard = [message.channel.alternatives[0] for message in finals if message.channel_index == [channel, 2]]
        texts.append(" ".join(filter(None, (one.transcript for one in heard))))
        starts.append(next(word.start for one in heard for word in one.words))
    assert sorted(texts) == sorted(session.text for session in served.watcher.sessions[before:])
    assert all(len(text.split()) > 5 for text in texts)
    assert 0 < starts[1] - starts[0] < 2  # of the first word, which rounding may choose otherwise


def test_deepgram_as_the_page_has_it(served: Served, clip: FloatArray, tmp_path: Path) -> None:
    pytest.importorskip("deepgram", reason="Deepgram's SDK is not installed: pip install deepgram-sdk")
    (program,) = (text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "wave" in text)
    assert "127.0.0.1:8000" in program
    with wave.open(str(tmp_path / "talk.wav"), "wb") as talk:
        talk.setparams((1, 2, SAMPLE_RATE, 0, "NONE", "not compressed"))
        talk.writeframes(pcm(clip))
    done = subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:8000", f"127.0.0.1:{served.port}")],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    served.check(" ".join(done.stdout.split()))


def test_pipecat(served: Served, clip: FloatArray) -> None:
    """Its Deepgram service sends `Finalize` at every pause, and the stream goes on."""
    missing = "pipecat is not installed: pip install pipecat-ai[deepgram]"
    service = pytest.importorskip("pipecat.services.deepgram.stt", reason=missing)
    frames = pytest.importorskip("pipecat.frames.frames")
    testing = pytest.importorskip("pipecat.tests.utils")
    stt = service.DeepgramSTTService(
        api_key="anything", base_url=f"ws://127.0.0.1:{served.port}", sample_rate=SAMPLE_RATE
    )

    def talk() -> Iterator[Any]:
        data = pcm(clip)
        for number, half in enumerate((data[:96_000], data[96_000:]), 1):
            for piece in pieces(half, 32_000):
                yield frames.InputAudioRawFrame(audio=piece, sample_rate=SAMPLE_RATE, num_channels=1)
                yield testing.SleepFrame(sleep=0)
            yield frames.VADUserStoppedSpeakingFrame()
            while sum(isinstance(one, Flush) for one in served.watcher.sessions[-1].commands) < number or not (
                served.is_settled
            ):
                yield testing.SleepFrame(sleep=0.05)
            yield testing.SleepFrame(sleep=0.5)

    down, _ = asyncio.run(testing.run_test(stt, frames_to_send=talk(), start_timeout=PATIENCE_S))
    finals = [frame for frame in down if isinstance(frame, frames.TranscriptionFrame)]
    assert finals[-1] is not next(frame for frame in finals if frame.finalized), "words come after a Finalize, too"
    assert any(isinstance(frame, frames.InterimTranscriptionFrame) for frame in down)
    served.check(" ".join(frame.text for frame in finals))


# --- AssemblyAI -------------------------------------------------------------------------------------------------------


def test_assemblyai_streaming(served: Served, clip: FloatArray) -> None:
    missing = "AssemblyAI's SDK is not installed: pip install assemblyai"
    sdk = pytest.importorskip("assemblyai.streaming.v3", reason=missing)
    options = sdk.StreamingClientOptions(
        api_host=f"ws://127.0.0.1:{served.port}", api_key="anything", connect_timeout=10, terminate_timeout=PATIENCE_S
    )
    client = sdk.StreamingClient(options)
    events: list[Any] = []
    problems: list[Any] = []
    for kind in (sdk.StreamingEvents.Begin, sdk.StreamingEvents.Turn, sdk.StreamingEvents.Termination):
        client.on(kind, lambda _, event: events.append(event))
    client.on(sdk.StreamingEvents.Error, lambda _, error: problems.append(error))
    client.connect(sdk.StreamingParameters(sample_rate=16_000, format_turns=True, keyterms_prompt=["winter"]))
    data = pcm(clip)
    client.stream(pieces(data[:96_000], 32_000))
    client.force_endpoint()
    client.set_params(sdk.StreamingSessionParameters(max_turn_silence=900))
    client.keep_alive()
    client.stream(pieces(data[96_000:], 32_000))
    client.disconnect(terminate=True)
    assert problems == []
    assert (events[0].type, events[-1].type) == ("Begin", "Termination")
    assert events[-1].audio_duration_seconds == round(len(clip) / SAMPLE_RATE)
    turns = [event for event in events if event.type == "Turn"]
    served.check(" ".join(turn.transcript for turn in turns if turn.end_of_turn))


# --- Wyoming ----------------------------------------------------------------------------------------------------------


def test_wyoming(served: Served, clip: FloatArray) -> None:
    asr = pytest.importorskip("wyoming.asr", reason="the Wyoming package is not installed: pip install wyoming")
    audio, info = pytest.importorskip("wyoming.audio"), pytest.importorskip("wyoming.info")
    connect = pytest.importorskip("wyoming.client").AsyncTcpClient
    form = {"rate": 16_000, "width": 2, "channels": 1}

    async def talk() -> list[Any]:
        async with connect("127.0.0.1", served.tcp["wyoming"]) as client:
            await client.write_event(info.Describe().event())
            event = await client.read_event()
            assert event is not None
            (program,) = info.Info.from_event(event).asr
            assert program.supports_transcript_streaming
            assert program.models[0].name == "nano.en"
            await client.write_event(asr.Transcribe(language="en").event())
            await client.write_event(audio.AudioStart(**form).event())
            data = pcm(clip)
            for at in range(0, len(data), 2_048):
                await client.write_event(audio.AudioChunk(**form, audio=data[at : at + 2_048]).event())
            await client.write_event(audio.AudioStop().event())
            events: list[Any] = []
            while not events or not asr.TranscriptStop.is_type(events[-1].type):
                events.append(await asyncio.wait_for(client.read_event(), PATIENCE_S))
            return events

    events = asyncio.run(talk())
    assert asr.TranscriptStart.is_type(events[0].type)
    (text,) = [asr.Transcript.from_event(event).text for event in events if asr.Transcript.is_type(event.type)]
    chunks = [asr.TranscriptChunk.from_event(event).text for event in events if asr.TranscriptChunk.is_type(event.type)]
    assert "".join(chunks) == text
    served.check(text)


# --- WhisperLive ------------------------------------------------------------------------------------------------------


def test_whisperlive(served: Served, clip: FloatArray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client imports the microphone library even where it needs no microphone."""
    pytest.importorskip("websocket", reason="websocket-client is not installed")
    if importlib.util.find_spec("pyaudio") is None:
        monkeypatch.setitem(sys.modules, "pyaudio", ModuleType("pyaudio"))
    live = pytest.importorskip("whisper_live.client", reason="no whisper-live: see docs/reference/protocols.md")
    partial: list[str] = []
    with live.StreamingTranscriptionClient(
        "127.0.0.1", served.port, lang="en", on_partial_transcript=lambda text, _: partial.append(text)
    ) as client:
        for piece in pieces(pcm(clip), 32_000, 0.25):
            client.send(piece)
        client.close(timeout=PATIENCE_S)
    assert partial
    served.check("".join(segment["text"] for segment in client.transcript).strip())


# --- WhisperLiveKit ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["full", "diff"])
def test_whisperlivekit(served: Served, clip: FloatArray, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client reads files with the program ffmpeg; here it is given the samples."""
    missing = "WhisperLiveKit is not installed: pip install whisperlivekit"
    client = pytest.importorskip("whisperlivekit.test_client", reason=missing)
    monkeypatch.setattr(client, "load_audio_pcm", lambda *_: pcm(clip))
    address = f"ws://127.0.0.1:{served.port}/asr?language=en"
    result = asyncio.run(
        client.transcribe_audio("winter.flac", address, chunk_duration=0.25, speed=PACE, timeout=PATIENCE_S, mode=mode)
    )
    assert any(state["buffer_transcription"] for state in result.responses)
    assert result.responses[-1]["buffer_transcription"] == ""
    assert all(set(line) == {"speaker", "text", "start", "end"} for line in result.lines)
    served.check(" ".join(result.text.split()))


# --- raw TCP ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lines", "json-lines"])
def test_raw_tcp(served: Served, clip: FloatArray, kind: str) -> None:
    """As `nc` and the originals' clients speak it: send, close that direction, read to the end."""
    with socket.create_connection(("127.0.0.1", served.tcp[kind]), timeout=PATIENCE_S) as raw:
        raw.sendall(pcm(clip))
        raw.shutdown(socket.SHUT_WR)
        lines = raw.makefile(encoding="utf-8").read().splitlines()
    if kind == "lines":
        texts = [line.split(" ", 2)[2] for line in lines]
    else:
        texts = [json.loads(line)["text"] for line in lines]
    served.check("".join(texts).strip())
