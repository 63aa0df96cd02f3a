"""The whole server on loopback: sessions from the first word to the last, and everything that can go wrong."""

import asyncio
import base64
import json
import signal
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from served import SECONDS, SILENCE, TEXT, KnowingModel, client, complete, keyed, limited, say_everything, served
from slow_rows import slow_but
from whispertide.events import Confirmed, Error
from whispertide.recipes.catalogue import ABOUT, get_recipe
from whispertide.server.hub import Hub
from whispertide.server.options import Address
from whispertide.server.serving import Server


async def test_a_session_says_every_word_once() -> None:
    async with served() as (server, _), client(server) as one:
        hello = await one.until("hello")
        assert hello["models"] == [{"name": "nano.en", "languages": ["en"], "caution": "", "translates": False}]
        assert (hello["language"], hello["task"]) == (None, "transcribe")
        assert {"name": "tide", "about": ABOUT["tide"]} in hello["recipes"]
        await say_everything(one)
        assert await one.rest() == 1000
        assert one.text == TEXT
        assert complete(one.events)
        assert one.said("session")[0]["model"] == "nano.en"
        assert one.said("end")[0]["duration"] == SECONDS


@pytest.mark.parametrize("portion", slow_but([1, 333, 3201, 64_000], 3201))
async def test_portions_do_not_matter(portion: int) -> None:
    async with served(model=KnowingModel()) as (server, _), client(server) as one:
        seconds = 0.02 if portion == 1 else SECONDS  # one byte a message is enough to split samples
        if portion == 1:
            await one.send(SILENCE * 10)
        await say_everything(one, seconds=seconds, portion=portion)
        await one.rest()
        assert complete(one.events)
        assert one.text[:8] == TEXT[:8]


async def test_flush_confirms_and_goes_on() -> None:
    async with served() as (server, _), client(server) as one:
        await one.send(bytes(68_800), {"type": "flush"})  # the fourth word ends at 2.1 s
        await one.until("flushed")
        heard = one.text
        assert heard == TEXT[:4]
        await one.send({"type": "flush"})  # nothing was said in between
        await one.until("flushed")
        assert one.text == heard
        await say_everything(one, seconds=SECONDS - 2.15)
        await one.rest()
        assert complete(one.events)
        assert one.text[-4:] == TEXT[-4:]


async def test_clear_drops_what_is_not_confirmed() -> None:
    async with served() as (server, _), client(server) as one:
        await one.send(SILENCE, {"type": "clear"})
        await one.until("cleared")
        await one.send({"type": "finish"})
        assert await one.rest() == 1000
        assert complete(one.events)
        assert len(one.text) <= 1


async def test_a_protocol_is_told_what_was_heard_and_not_what_came() -> None:
    """Deepgram's `UtteranceEnd`, for a recording that comes at once and ends with silence: its pauses are shorter."""
    path = "/v1/listen?encoding=linear16&sample_rate=16000&utterance_end_ms=2500"
    async with served(model=KnowingModel(round_s=0.01)) as (server, _), client(server, path=path) as one:
        await one.send(*[SILENCE] * round(SECONDS + 3))
        end = await one.until("UtteranceEnd")
        words = [word for said in one.said("Results") for word in said["channel"]["alternatives"][0]["words"]]
        assert [word["word"] for word in words] == TEXT
        assert end["last_word_end"] == words[-1]["end"]


async def test_settings_and_configuration() -> None:
    async with served() as (server, hub), client(server) as one:
        await one.send({"type": "start", "changes": {"step_s": 0.5}, "rate": 8000, "format": "f32le"})
        session = await one.until("session")
        live = hub.sessions[session["session"]]
        assert live.asked_recipe.schedule.step_s == 0.5
        await one.send(bytes(32_000), {"type": "configure", "changes": {"step_s": 2, "prompt": "Tide"}})
        await one.send({"type": "configure", "changes": {"nonsense": 1}}, {"type": "flush"})
        await one.until("flushed")
        assert (live.asked_recipe.schedule.step_s, live.asked_options.prompt) == (2, "Tide")
        (refusal,) = one.said("error")
        assert "nonsense" in refusal["message"]
        assert not refusal["fatal"]
        assert live.taken == 16_000  # also what the resampler held back


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"type": "start", "model": "large"}, "expected a model among nano.en"),
        ({"type": "start", "recipe": "nothing"}, "expected a recipe"),
        ({"type": "start", "changes": {"step_s": -1}}, "step_s"),
        ({"type": "start", "changes": {"step_s": "x"}}, "step_s"),
        ({"type": "start", "task": "sing"}, "task"),
    ],
)
async def test_settings_that_cannot_be_are_refused(message: dict[str, object], words: str) -> None:
    async with served() as (server, hub), client(server) as one:
        await one.send(message)
        assert await one.rest() == 1008
        assert words in one.said("problem")[0]["message"]
        assert not hub.sessions


async def test_a_failing_model_ends_one_session_and_no_other() -> None:
    async with served() as (server, hub), client(server) as bad, client(server) as worse, client(server) as good:
        await bad.send({"type": "start", "prompt": "fail"})
        await worse.send({"type": "start", "prompt": "defect"})
        await asyncio.gather(*(one.send(SILENCE, SILENCE, SILENCE) for one in (bad, worse, good)))
        assert await bad.rest() == 1011
        assert await worse.rest() == 1011
        for one, words in ((bad, "decoder.onnx"), (worse, "the server made a mistake")):
            (failure,) = [event for event in one.events if isinstance(event, Error)]
            assert failure.fatal
            assert words in failure.message
            assert "Traceback" not in failure.message
            assert "ZeroDivision" not in failure.message
        await say_everything(good, seconds=SECONDS - 3)
        assert await good.rest() == 1000
        assert good.text == TEXT
        assert "whispertide_errors_total 2.0" in hub.metrics.render().decode()


@pytest.mark.slow
async def test_many_sessions_each_get_their_own_words() -> None:
    async with served() as (server, _):

        async def one_session(portion: int) -> list[str]:
            async with client(server) as one:
                await say_everything(one, portion=portion)
                assert await one.rest() == 1000
                assert complete(one.events)
                return one.text

        texts = await asyncio.gather(*(one_session(4_000 + 997 * number) for number in range(16)))
        assert all(text == TEXT for text in texts)


async def test_a_defect_is_told_as_the_servers_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that no test foresaw, in the code that writes: the client is told and the session's place is free."""
    async with served(limited(resume_s=0)) as (server, hub):
        async with client(server) as one:
            monkeypatch.setattr("whispertide.server.protocols.native.NativeProtocol.events", lambda *_: 1 / 0)
            with suppress(ConnectionClosed):
                await one.send(SILENCE, {"type": "finish"})
            assert await one.rest() == 1011
            assert "Zero" not in str(one.messages)
        async with asyncio.timeout(60):
            while hub.sessions:
                await asyncio.sleep(0.05)


async def test_a_defect_outside_of_the_session_ends_it_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a round, in what numbers its events: the client waited for ever, and the session kept its place."""
    async with served(limited(resume_s=0)) as (server, hub):
        async with client(server) as one:
            monkeypatch.setattr("whispertide.server.live.Session.forget", lambda _: 1 / 0)
            with suppress(ConnectionClosed):
                await one.send(SILENCE, {"type": "finish"})
            assert await one.rest() == 1011
            assert "the server made a mistake" in one.said("error")[0]["message"]
        async with asyncio.timeout(60):
            while hub.sessions:
                await asyncio.sleep(0.05)
    (session,) = [message["session"] for message in one.said("session")]
    assert session not in "".join(record.getMessage() for record in caplog.records), "whoever knows it may resume it"


# --- who may connect -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"additional_headers": {"Authorization": "Bearer right-key"}},
        {"additional_headers": {"Authorization": "Token right-key"}},
        {"additional_headers": {"Authorization": "right-key"}},
        {"query": "?api_key=right-key"},
    ],
)
async def test_a_right_key_opens(settings: dict[str, object]) -> None:
    options = keyed("right-key", "other-key")
    async with served(options) as (server, _), client(server, **settings) as one:  # type: ignore[arg-type]
        await say_everything(one)
        assert await one.rest() == 1000


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer right-key2"}])
async def test_no_key_or_a_wrong_one_does_not(headers: dict[str, str]) -> None:
    async with served(keyed("right-key")) as (server, hub):
        with pytest.raises(InvalidStatus) as refused:
            async with client(server, additional_headers=headers):
                pass
        assert refused.value.response.status_code == 401
        assert not hub.connections


async def test_pages_of_other_hosts_may_not_connect() -> None:
    async with served() as (server, _):
        with pytest.raises(InvalidStatus) as refused:
            async with client(server, origin="https://evil.example"):
                pass
        assert refused.value.response.status_code == 403
        async with client(server, origin=f"http://127.0.0.1:{server.port}") as one:
            await one.until("hello")


async def test_paths_that_are_none() -> None:
    async with served() as (server, _):
        for path in ("/nothing", "/ws/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"):
            with pytest.raises(InvalidStatus) as refused:
                async with client(server, path=path):
                    pass
            assert refused.value.response.status_code == 404


# --- the end ---------------------------------------------------------------------------------------------------------


async def test_a_server_that_stops_lets_everybody_have_their_words() -> None:
    async with served() as (server, hub), client(server) as one, client(server) as idle:
        for _ in range(4):
            await one.send(SILENCE)
        await idle.until("hello")
        while not hub.sessions or next(iter(hub.sessions.values())).accepted < 4 * 16_000:
            await asyncio.sleep(0.01)
        server.should_exit = True
        assert await one.rest() == 1012
        assert complete(one.events)
        assert one.text == TEXT[:5]
        assert await idle.rest() == 1012
        assert idle.said("problem")[0]["kind"] == "shutdown"


async def test_while_it_stops_there_are_no_new_sessions() -> None:
    slow = KnowingModel(round_s=0.5)
    async with served(model=slow) as (server, hub), client(server) as one, client(server) as late:
        await late.until("hello")
        for _ in range(4):
            await one.send(SILENCE)
        await one.until("session")
        hub.begin_drain()
        await late.send(SILENCE)
        assert await late.rest() == 1012
        assert await one.rest() == 1012


async def test_a_session_that_its_client_ends_while_the_server_stops_is_over() -> None:
    async with served(model=KnowingModel(round_s=0.2)) as (server, hub), client(server) as one:
        await say_everything(one)
        while not any(live.finishing for live in hub.sessions.values()):
            await asyncio.sleep(0.01)
        hub.begin_drain()
        assert await one.rest() == 1000
        assert one.text == TEXT


APPEND = {"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(4 * 48_000)).decode()}
PCM = bytes(4 * 32_000)
TURN = ("StartOfTurn", "EndOfTurn")


@pytest.mark.parametrize(
    ("address", "messages", "last"),
    [
        ("/v1/realtime?intent=transcription", [APPEND], "w4"),
        ("/v1/listen?encoding=linear16&sample_rate=16000", [PCM], "Metadata"),
        ("/v1/listen?encoding=linear16&sample_rate=16000&channels=2&multichannel=true", [2 * PCM], "Metadata"),
        ("/v2/listen?model=flux-general-en&encoding=linear16&sample_rate=16000", [PCM], "EndOfTurn"),
        ("/v3/ws?sample_rate=16000", [PCM], "Termination"),
        ("/?", [{"uid": "me", "language": "en", "model": "nano.en", "audio_format": "int16"}, PCM], "DISCONNECT"),
        ("/asr?", [PCM], "ready_to_stop"),
    ],
)
async def test_clients_of_every_service_are_told_that_the_server_stops(
    address: str, messages: list[Any], last: str
) -> None:
    """After their last words. On 1000 they take it for the end, and do not come back; many take 1001 for it as well."""
    async with served() as (server, hub), client(server, path=address) as one:
        await one.send(*messages)
        while not hub.sessions or min(live.accepted for live in hub.sessions.values()) < 3.5 * 16_000:
            await asyncio.sleep(0.01)
        server.should_exit = True
        assert await one.rest() == 1012
        assert "w4" in json.dumps(one.messages)
        # Flux may send an update after it: the time goes on, in a turn that nobody has begun.
        assert last in json.dumps(one.messages[-3:])
        turns = {what: {one["turn_index"] for one in one.messages if one.get("event") == what} for what in TURN}
        assert turns["StartOfTurn"] == turns["EndOfTurn"]


async def test_the_first_word_of_the_confirmed_text_comes_before_the_end() -> None:
    async with served() as (server, _), client(server) as one:
        for _ in range(4):
            await one.send(SILENCE)
            await asyncio.sleep(0.05)
        await one.until("confirmed")
        assert [event for event in one.events if isinstance(event, Confirmed)]


# --- signals ---------------------------------------------------------------------------------------------------------


def make_server() -> Server:
    hub = Hub({"nano.en": KnowingModel()}, get_recipe("whisper-streaming"), limited())  # type: ignore[dict-item]
    return Server(hub, Address(port=0))


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signal on this system")
@pytest.mark.usefixtures("terminal")
def test_a_terminal_that_closes_ends_the_server_in_good_order() -> None:
    """It may say so twice, which is no reason to leave out the last words."""
    server, before = make_server(), signal.getsignal(signal.SIGHUP)
    with server.capture_signals():
        for _ in range(2):
            signal.raise_signal(signal.SIGHUP)
            assert server.should_exit
            assert not server.force_exit
        signal.raise_signal(signal.SIGTERM)
        assert server.force_exit
    assert signal.getsignal(signal.SIGHUP) == before


@pytest.mark.parametrize("connected", [False, True])
def test_a_second_signal_ends_the_server_at_once_and_says_so(caplog: pytest.LogCaptureFixture, connected: bool) -> None:
    """Without errors, and what sessions in progress have to write at the end is written (`Hub.stop`)."""
    server = make_server()

    async def serve() -> None:
        ended = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        async with client(server) if connected else nullcontext() as one:
            if one is not None:
                await one.send(SILENCE)
                await one.until("session")
            for _ in range(2):
                server.handle_exit(signal.SIGTERM, None)
            await asyncio.wait_for(ended, 60)

    with caplog.at_level("INFO"):
        asyncio.run(serve())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    assert "stopped at once: a second signal came" in caplog.messages
    with pytest.raises(RuntimeError, match="after shutdown"):  # no worker is left
        server.hub.scheduler._hurried.submit(int)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signal on this system")
def test_a_server_that_is_to_outlive_its_terminal_does() -> None:
    server, before = make_server(), signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with server.capture_signals():
            signal.raise_signal(signal.SIGHUP)
            assert not server.should_exit
    finally:
        signal.signal(signal.SIGHUP, before)


# --- figures ---------------------------------------------------------------------------------------------------------


async def test_metrics() -> None:
    async with served(keyed("a-long-key")) as (server, hub):
        headers = {"Authorization": "Bearer a-long-key"}
        with pytest.raises(InvalidStatus):
            async with client(server):
                pass
        async with client(server, additional_headers=headers) as one:
            await one.send(SILENCE)
            await one.until("session")
            live = figures(hub)
            assert live["whispertide_sessions"] == 1
            assert live['whispertide_connections{protocol="native"}'] == 1
            await say_everything(one, seconds=SECONDS - 1)
            assert await one.rest() == 1000
        async with asyncio.timeout(60):
            while hub.connections:
                await asyncio.sleep(0.01)
        done = figures(hub)
        assert done['whispertide_sessions_opened_total{protocol="native"}'] == 1
        assert done['whispertide_connections{protocol="native"}'] == 0
        assert done['whispertide_refused_total{reason="key"}'] == 1
        assert done["whispertide_audio_seconds_total"] == pytest.approx(SECONDS)
        assert done["whispertide_rounds_total"] == done["whispertide_round_seconds_count"] > 0
        assert done["whispertide_wait_seconds_count"] == done["whispertide_rounds_total"]
        assert done["whispertide_confirmed_latency_seconds_count"] == len(TEXT)
        assert done["whispertide_errors_total"] == 0
        assert "whispertide_lag_seconds" in done


def figures(hub: Hub) -> dict[str, float]:
    lines = [line for line in hub.metrics.render().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
