"""Keys for a short time: what opens what, for how long, and how often."""

import asyncio
import base64
import gc
import json
import math
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from each_row import each_row
from served import SILENCE, TEXT, KnowingModel, client, in_thread, keyed, say_everything, served, web_client
from whispertide.recipes.catalogue import get_recipe
from whispertide.server import access as access_module
from whispertide.server.access import AccessControl, Authenticator, TemporaryKey, offered_keys
from whispertide.server.bounds import MOST_PROMPT
from whispertide.server.http_error import HttpError
from whispertide.server.options import Access, Address
from whispertide.server.serving import assemble, run_server

KEY = "a-secret-key"


def encoded(key: str) -> str:
    return "whispertide.key." + base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


# --- without sockets -------------------------------------------------------------------------------------------------


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_temporary_key_opens_its_protocol_until_its_time_is_over() -> None:
    clock = Clock()
    known = Authenticator(Access((KEY,)), clock)
    value, until = known.issue("ann", TemporaryKey("deepgram", "hello"), 60)
    assert until == 1060
    found = known.redeem(["x", value], "deepgram")
    assert found == (TemporaryKey("deepgram", "hello"), "ann", value)
    assert known.redeem([value], "native") is None
    assert known.owner([value]) is None, "a temporary key is no other key"
    clock.now = 1061
    assert known.redeem([value], "deepgram") is None
    assert not known._issued, "nor is it kept until somebody asks for another"


def test_nobodys_temporary_keys_push_out_those_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "_TEMPORARY", 7)
    known = Authenticator(Access(("key-of-ann", "key-of-bob")))
    what = TemporaryKey("deepgram")
    bobs, _ = known.issue("bob", what, 60)
    anns = [known.issue("ann", what, 60)[0] for _ in range(10)]
    assert known.redeem([bobs], "deepgram") == (what, "bob", bobs)
    assert [known.redeem([key], "deepgram") is not None for key in anns] == [False] * 7 + [True] * 3, "the newest"


@pytest.mark.parametrize("character", ["a", "\N{GRINNING FACE}"])
def test_the_settings_of_temporary_keys_have_a_bound_in_bytes(character: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In equal shares, whatever a character takes; a key that is made is kept, be it larger than its share."""
    monkeypatch.setattr(access_module, "_SETTINGS", 200_000)
    known = Authenticator(Access(("key-of-ann", "key-of-bob")))
    bobs, _ = known.issue("bob", TemporaryKey("realtime", character * 9_000), 60)
    for length in (9_000, 16_000, 1, 5_000, 9_000) * 20:
        what = TemporaryKey("realtime", character * length)
        key, _ = known.issue("ann", what, 60)
        assert known.redeem([key], "realtime") == (what, "ann", key)
        of_ann = [one.size for one in known._issued.values() if one.owner == "ann"]
        assert sum(of_ann) <= 100_000
    assert len(of_ann) > 1
    assert known.redeem([bobs], "realtime") is not None
    huge, _ = known.issue("ann", TemporaryKey("realtime", character * 200_000), 60)
    assert known.redeem([huge], "realtime") is not None
    assert len(known._issued) == 2


def test_a_temporary_key_for_one_connection() -> None:
    known = Authenticator(Access((KEY,)))
    value, _ = known.issue("ann", TemporaryKey("assemblyai", once=True), 60)
    assert known.redeem([value], "native") is None
    assert known.redeem([value], "assemblyai") == known.redeem([value], "assemblyai") is not None
    known.spend(value)
    assert known.redeem([value], "assemblyai") is None


def refused(access: AccessControl, **asked: Any) -> int:
    with pytest.raises(HttpError) as refusal:
        access.check({}, **asked)
    return refusal.value.status


def test_a_full_server_spends_no_temporary_key() -> None:
    access = AccessControl(Authenticator(Access((KEY,))), keyed(KEY, connections=1))
    value, _ = access.authenticator.issue("ann", TemporaryKey("assemblyai", once=True, limit_s=60), 60)
    with access.connected():
        assert refused(access, query={"token": value}, protocol="assemblyai") == 503
    admitted = access.check({}, {"token": value}, protocol="assemblyai")
    assert (admitted.owner, admitted.limit_s) == ("ann", 60)
    assert access.check({"authorization": KEY}, {}, protocol="assemblyai").limit_s == math.inf
    assert refused(access, query={"token": value}) == 401, "nor does it open anything by HTTP"


@pytest.mark.parametrize("key", ["plain-key", "with spaces, commas; and = signs", "schlüssel"])
def test_any_key_can_be_a_subprotocol(key: str) -> None:
    assert list(offered_keys({}, {}, ("whispertide", encoded(key)))) == [key]


@each_row("text", ["", "%", "=", "a", "/w", "////"])
def test_subprotocols_that_are_no_key(text: str) -> None:
    assert KEY not in offered_keys({}, {}, ("whispertide.key." + text,))


# --- over sockets ----------------------------------------------------------------------------------------------------


async def test_a_page_brings_its_key_as_a_subprotocol() -> None:
    async with served(keyed(KEY)) as (server, _):
        offered: Any = ["whispertide", encoded(KEY)]
        async with client(server, subprotocols=offered) as one:
            assert one.socket.subprotocol == "whispertide", "a browser insists on an answer"
            await say_everything(one)
            assert await one.rest() == 1000
            assert one.text == TEXT
        for wrong in ([], ["whispertide"], ["whispertide", encoded("another-key")]):
            with pytest.raises(InvalidStatus) as refused:
                async with client(server, subprotocols=wrong or None):
                    pass
            assert refused.value.response.status_code == 401


async def test_assemblyai_tokens() -> None:
    async with served(keyed(KEY)) as (server, hub):
        address = f"127.0.0.1:{server.port}"
        async with web_client(server) as http:
            asked: dict[str, Any] = {"expires_in_seconds": 60, "max_session_duration_seconds": 60}
            assert (await http.get("/v3/token", params=asked)).status_code == 401
            http.headers["authorization"] = KEY
            for bad in (
                {},
                {"expires_in_seconds": 0},
                {"expires_in_seconds": 601},
                {"expires_in_seconds": "9" * 5000},
                {"expires_in_seconds": "²"},
                {"expires_in_seconds": 60, "max_session_duration_seconds": 59},
                {"expires_in_seconds": 60, "max_session_duration_seconds": "long"},
            ):
                answer = await http.get("/v3/token", params=bad)  # type: ignore[arg-type]
                assert answer.status_code == 400, bad
                assert "expected" in answer.json()["error"]["message"]
            made = (await http.get("/v3/token", params=asked)).json()
        assert made["expires_in_seconds"] == 60
        path = f"ws://{address}/v3/ws?sample_rate=16000&token={made['token']}"
        with pytest.raises(InvalidStatus) as refused:
            async with connect(path.replace("16000", "fast"), proxy=None):
                pass
        assert refused.value.response.status_code == 400, "and the token is good for another try"
        async with connect(path, proxy=None) as socket:
            begin = json.loads(await socket.recv())
            (live,) = hub.sessions.values()
            assert begin["type"] == "Begin"
            assert live.limit_s == 60
            with suppress(ConnectionClosed):
                for _ in range(62):
                    await socket.send(SILENCE)
                while True:
                    await socket.recv()
            assert socket.close_code == 3008, "as there"
            assert live.accepted == 60 * 16_000
        with pytest.raises(InvalidStatus) as refused:
            async with connect(path, proxy=None):
                pass
        assert refused.value.response.status_code == 401, "a token is good for one session"


@pytest.mark.parametrize(
    ("session", "told"),
    [
        ({"audio": {"input": {"format": {"type": "audio/bogus"}}}}, "audio format"),
        ({"audio": {"input": {"format": {"type": "audio/pcm", "rate": 1}}}}, "rate"),
        ({"audio": {"input": {"transcription": {"language": "de"}}}}, "language"),
        ({"audio": {"input": {"transcription": {"prompt": "x" * 20_000}}}}, "10000 characters"),
        ({"audio": []}, "audio to be an object"),
        ({"input_audio_format": "mp3"}, "audio format"),
        ({"turn_detection": {"type": "server_vad", "silence_duration_ms": "long"}}, "silence_duration_ms"),
        ({"instructions": "x" * 20_000}, "at most 16384 characters"),
        ({"nothing": "\N{LATIN SMALL LETTER E WITH ACUTE}" * 17_000}, "at most 16384 characters"),
    ],
)
async def test_no_key_for_a_session_that_cannot_be(session: dict[str, Any], told: str) -> None:
    """Whoever asks learns it, and not the page that gets the key."""
    headers = {"authorization": KEY}
    async with served(keyed(KEY)) as (server, _), web_client(server, headers=headers) as http:
        for path, asked in (("client_secrets", {"session": session}), ("transcription_sessions", session)):
            answer = await http.post(f"/v1/realtime/{path}", json=asked)
            assert answer.status_code == 400
            assert told in answer.json()["error"]["message"]


@asynccontextmanager
async def secure(certificate: tuple[Path, Path]) -> AsyncIterator[int]:
    models: Any = {"nano.en": KnowingModel()}
    hub, close = assemble(models, get_recipe("whisper-streaming"), keyed(KEY))
    async with run_server(hub, Address(port=0, certificate=certificate[0], key=certificate[1])) as server:
        yield server.port
    close()


@pytest.fixture(scope="module")
def secure_port(certificate: tuple[Path, Path]) -> Iterator[int]:
    """A server with TLS and a key, in a thread."""
    with in_thread(secure(certificate)) as port:
        yield port


def test_all_of_it_over_tls(secure_port: int, certificate: tuple[Path, Path]) -> None:
    async def run() -> list[str]:
        trusted = ssl.create_default_context(cafile=certificate[0])
        headers = {"Authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(verify=trusted, trust_env=False, headers=headers) as http:
            assert (await http.get(f"https://localhost:{secure_port}/v1/models")).status_code == 200
            with pytest.raises(httpx.HTTPError):
                await http.get(f"http://localhost:{secure_port}/v1/models")
        path = f"wss://localhost:{secure_port}/ws"
        async with connect(path, ssl=trusted, additional_headers=headers, proxy=None) as socket:
            for _ in range(11):
                await socket.send(SILENCE)
            await socket.send('{"type":"finish"}')
            messages = [json.loads(message) async for message in socket]
        words = [word for message in messages if message["type"] == "confirmed" for word in message["words"]]
        return [word["text"].strip(" ,.!").lower() for word in words]

    assert asyncio.run(run()) == TEXT


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_client_of_assemblyai_makes_a_token_and_uses_it(
    secure_port: int, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unmodified; it asks by https only."""
    sdk = pytest.importorskip("assemblyai.streaming.v3", reason="pip install assemblyai")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    host = f"localhost:{secure_port}"
    maker = sdk.StreamingClient(sdk.StreamingClientOptions(api_host=host, api_key=KEY))
    token = maker.create_temporary_token(expires_in_seconds=60, max_session_duration_seconds=600)
    del maker
    said: list[Any] = []
    problems: list[Any] = []
    page = sdk.StreamingClient(sdk.StreamingClientOptions(api_host=host, token=token))
    page.on(sdk.StreamingEvents.Turn, lambda _, event: said.append(event))
    page.on(sdk.StreamingEvents.Error, lambda _, error: problems.append(error))
    page.connect(sdk.StreamingParameters(sample_rate=16_000))
    page.stream(SILENCE for _ in range(11))
    page.disconnect(terminate=True)
    gc.collect()  # it leaves its sockets to the garbage collector, which would complain in a later test
    assert not problems
    text = " ".join(turn.transcript for turn in said if turn.end_of_turn)
    assert [word.strip(" ,.!").lower() for word in text.split()] == TEXT


@pytest.mark.parametrize("character", ["a", "\N{HIRAGANA LETTER A}", "\N{GRINNING FACE}"])
async def test_a_key_for_the_longest_prompt_of_any_script(character: str) -> None:
    session = {"turn_detection": None, "input_audio_transcription": {"prompt": character * MOST_PROMPT}}
    async with served(keyed(KEY)) as (server, _):
        headers = {"authorization": KEY, "content-type": "application/json"}
        async with web_client(server, headers=headers) as http:
            # As Python writes it by itself: all that is not ASCII is escaped.
            made = await http.post("/v1/realtime/transcription_sessions", content=json.dumps(session))
        assert made.status_code == 200, made.text
        key = made.json()["client_secret"]["value"]
        path = f"ws://127.0.0.1:{server.port}/v1/realtime?intent=transcription"
        async with connect(path, proxy=None, additional_headers={"authorization": f"Bearer {key}"}) as socket:
            while "updated" not in (told := json.loads(await socket.recv()))["type"]:
                pass
            assert told["session"]["input_audio_transcription"]["prompt"] == character * MOST_PROMPT


@pytest.mark.slow
async def test_whoever_makes_a_key_is_told_the_session() -> None:
    """As OpenAI's client wants it: with an id, its kind, and all of its settings."""
    response = pytest.importorskip("openai.types.realtime.realtime_transcription_session_create_response")
    asked = {"type": "transcription", "audio": {"input": {"turn_detection": None, "transcription": {"prompt": "Tide"}}}}
    headers = {"authorization": KEY}
    async with served(keyed(KEY)) as (server, _), web_client(server, headers=headers) as http:
        made = (await http.post("/v1/realtime/client_secrets", json={"session": asked})).json()
        older = (await http.post("/v1/realtime/transcription_sessions", json={"turn_detection": None})).json()
    read = response.RealtimeTranscriptionSessionCreateResponse.model_validate(made["session"], strict=True)
    assert read.id.startswith("sess_")
    assert (read.object, read.type) == ("realtime.transcription_session", "transcription")
    assert read.audio.input.transcription.prompt == "Tide"
    assert (older["object"], older["id"][:5]) == ("realtime.transcription_session", "sess_")
    assert (older["turn_detection"], older["input_audio_format"]) == (None, "pcm16")
    assert older["client_secret"]["value"].startswith("ek_")
