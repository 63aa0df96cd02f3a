"""OpenAI's REST interface on loopback: its client package, its formats, and files that are none."""

import asyncio
import errno
import io
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from served import OfflineModel, keyed, limited, logged_errors, multilingual, served, wav, web_client
from sounds import make_wav
from whispertide.decoding.longform import OfflineSegment
from whispertide.errors import AudioError
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.options import Access, ServerOptions
from whispertide.server.serving import assemble
from whispertide.server.transcription_answers import render
from whispertide.server.transcription_form import TranscriptionRequest

FIELDS = (
    "model",
    "language",
    "prompt",
    "response_format",
    "temperature",
    "stream",
    "timestamp_granularities[]",
    "file",
)


@asynccontextmanager
async def rest(
    options: ServerOptions | None = None, model: OfflineModel | dict[str, Any] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    async with served(options, model or OfflineModel()) as (server, _), web_client(server) as client:
        yield client


async def post(client: httpx.AsyncClient, data: bytes, name: str = "a.wav", **fields: Any) -> httpx.Response:
    return await client.post("/v1/audio/transcriptions", files={"file": (name, data)}, data=fields)


def stereo(seconds: float, channels: int = 2) -> bytes:
    return make_wav(np.zeros((round(16_000 * seconds), channels), np.float32), 16_000, "s16")


async def test_each_channel_is_a_speaker() -> None:
    async with rest() as client:
        answer = (await post(client, stereo(3), response_format="diarized_json", multichannel="true")).json()
        said = [(segment["start"], segment["speaker"]) for segment in answer["segments"]]
        assert said == [(0, "A"), (0, "B"), (2, "A"), (2, "B")]
        assert [segment["id"] for segment in answer["segments"]] == [f"seg_{number:03d}" for number in range(4)]
        assert (answer["duration"], answer["usage"]["seconds"]) == (3, 3)
        vtt = await post(client, stereo(3), response_format="vtt", multichannel="true")
        assert "<v Speaker 2>word0" in vtt.text
        streamed = await post(client, stereo(3), response_format="diarized_json", multichannel="true", stream="true")
        told = [event for event in events_of(streamed) if event["type"] == "transcript.text.segment"]
        assert told == answer["segments"]


@pytest.mark.parametrize(
    ("data", "fields", "status", "told"),
    [
        (wav(3), {}, 400, "expected two channels or more, to keep them apart; it has one"),
        (stereo(1, 9), {}, 400, "at most 8 channels"),
        (stereo(3), {"speakers": "2"}, 400, "got both"),
        (stereo(3), {"multichannel": "perhaps"}, 400, "multichannel"),
        (stereo(8), {}, 413, "at most 5 s of audio in a file, in each of 2 channels"),
    ],
)
async def test_channels_that_cannot_be_kept_apart(data: bytes, fields: dict[str, str], status: int, told: str) -> None:
    async with rest(limited(upload_s=10)) as client:
        answer = await post(client, data, **{"multichannel": "true", **fields})
        assert (answer.status_code, told in answer.text) == (status, True), answer.text


@pytest.mark.slow
async def test_the_formats() -> None:
    async with rest() as client:
        answer = (await post(client, wav(3), model="whisper-1")).json()
        assert answer == {
            "text": "word0 word1 word2 word3 word4 word5",
            "usage": {"type": "duration", "seconds": 3},
        }
        text = await post(client, wav(3), response_format="text")
        assert text.text == "word0 word1 word2 word3 word4 word5\n"
        srt = await post(client, wav(3), response_format="srt")
        assert srt.text.startswith("1\n00:00:00,000 --> 00:00:01,900\nword0 word1 word2 word3\n")
        vtt = await post(client, wav(3), response_format="vtt")
        assert vtt.text.startswith("WEBVTT\n")
        assert vtt.headers["content-type"].startswith("text/vtt")
        both: dict[str, Any] = {"timestamp_granularities[]": ["word", "segment"]}
        verbose = (await post(client, wav(3), response_format="verbose_json", **both)).json()
        assert (verbose["task"], verbose["language"], verbose["duration"]) == ("transcribe", "english", 3)
        assert verbose["words"][1] == {"word": "word1", "start": 0.5, "end": 0.9}
        assert [segment["id"] for segment in verbose["segments"]] == [0, 1]
        assert verbose["segments"][1]["start"] == 2
        plain = (await post(client, wav(3), response_format="verbose_json")).json()
        assert "words" not in plain


@pytest.mark.slow
async def test_the_client_of_openai() -> None:
    openai = pytest.importorskip("openai")
    async with served(keyed("a-secret-key"), OfflineModel()) as (server, _):
        address = f"http://127.0.0.1:{server.port}/v1"
        client = openai.AsyncOpenAI(api_key="a-secret-key", base_url=address, max_retries=0)
        async with client:
            assert [model.id for model in (await client.models.list()).data] == ["nano.en"]
            assert (await client.models.retrieve("nano.en")).id == "nano.en"
            create = client.audio.transcriptions.create
            answer = await create(file=("a.wav", wav(3)), model="nano.en", language="en", prompt="Tide", temperature=0)
            assert answer.text == "word0 word1 word2 word3 word4 word5"
            verbose = await create(
                file=("a.wav", wav(3)),
                model="nano.en",
                response_format="verbose_json",
                timestamp_granularities=["word", "segment"],
            )
            assert [word.word for word in verbose.words] == [f"word{n}" for n in range(6)]
            assert verbose.segments[0].avg_logprob == -0.2
            stream = await create(file=("a.wav", wav(3)), model="nano.en", stream=True)
            events = [event async for event in stream]
            assert [event.type for event in events[:-1]] == ["transcript.text.delta"] * 2
            assert events[-1].type == "transcript.text.done"
            assert "".join(event.delta for event in events[:-1]) == events[-1].text == answer.text
            with pytest.raises(openai.BadRequestError, match="response_format"):
                await create(file=("a.wav", wav(1)), model="nano.en", response_format="docx")
            with pytest.raises(openai.BadRequestError):
                await client.audio.translations.create(file=("a.wav", wav(1)), model="nano.en")
        wrong = openai.AsyncOpenAI(api_key="another-key", base_url=address, max_retries=0)
        async with wrong:
            with pytest.raises(openai.AuthenticationError):
                await wrong.models.list()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 400),
        (b"this is no audio", 400),
        (wav(1)[:20], 400),
        (wav(1, rate=1), 400),
        (bytes(100_000), 400),
        (b"RIFF\xff\xff\xff\xffWAVE" + bytes(64), 400),
    ],
)
async def test_files_that_are_no_audio(data: bytes, status: int) -> None:
    async with rest() as client:
        answer = await post(client, data)
        assert answer.status_code == status
        assert "Traceback" not in answer.text
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert answer.json()["error"]["code"] == "audio", "the page tells that from other refusals"
        assert "None" not in answer.json()["error"]["message"], "what has no name"
        assert (await post(client, wav(1))).status_code == 200


@pytest.mark.slow
async def test_a_small_file_that_holds_days() -> None:
    """A minute of silence in FLAC is 15 kB: the limit is on the audio, and decoding ends there."""
    av = pytest.importorskip("av")
    import numpy as np

    file = io.BytesIO()
    with av.open(file, "w", format="flac") as container:
        stream = container.add_stream("flac", rate=8_000, layout="mono")
        for _ in range(10):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 480_000), np.int16), format="s16", layout="mono")
            frame.sample_rate = 8_000
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)
    assert len(file.getvalue()) < 150_000
    async with rest(limited(upload_s=60)) as client:
        answer = await post(client, file.getvalue(), "bomb.flac")
        assert answer.status_code == 413
        assert "60 s" in answer.json()["error"]["message"]


async def test_a_file_that_is_cut_off_is_transcribed_with_a_warning() -> None:
    async with rest() as client:
        answer = await post(client, wav(2, promised=10**6))
        assert answer.json()["text"] == "word0 word1 word2 word3"
        assert "cut off" in answer.headers["x-whispertide-warning"]


async def test_the_model_that_can_write_it_and_what_is_usual() -> None:
    """Clients name a model of OpenAI's: the first one that is served may know English only."""
    small = OfflineModel(name="small")
    models = {"base.en": OfflineModel(), "small": multilingual(small, "en", "de")}
    options = replace(limited(), text=DecodeOptions(language="de", prompt="Ebbe"))
    async with rest(options, models) as client:
        plain = await post(client, wav(1), model="whisper-1", language="auto")
        german = await post(client, wav(1), model="whisper-1")
        detected = await post(client, wav(1), model="small", language="Auto")
        translated = await client.post("/v1/audio/translations", files={"file": wav(1)}, data={"prompt": "Flut"})
        named = await post(client, wav(1), model="base.en", language="de")
    answers = (plain, german, detected, translated)
    assert [answer.status_code for answer in (*answers, named)] == [200, 200, 200, 200, 400]
    answered = [answer.headers["x-whispertide-model"] for answer in answers]
    assert answered == ["base.en", "small", "small", "small"]
    seen = [(one.language, one.task, one.prompt) for one in small.offline.offline_options]
    assert seen == [("de", "transcribe", "Ebbe"), (None, "transcribe", "Ebbe"), ("de", "translate", "Flut")]


@pytest.mark.parametrize(
    ("several", "audio_s", "asked", "told"),
    [(True, 1, "de", "german"), (True, 0, "de", "german"), (True, 1, "auto", "english"), (False, 0, "", "english")],
)
async def test_the_language_is_that_of_a_document(several: bool, audio_s: float, asked: str, told: str) -> None:
    """Asked for, heard (the model hears English), or the only one."""
    model = multilingual(OfflineModel(), "en", "de") if several else OfflineModel()
    async with rest(model=model) as client:
        answer = await post(client, wav(audio_s), response_format="verbose_json", language=asked)
        assert answer.json()["language"] == told


async def test_fields_without_effect_are_named() -> None:
    async with rest() as client:
        answer = await post(client, wav(1), **{"beam_size": "5", "include[]": "logprobs", "prompt": "Ebbe"})
        assert json.loads(answer.headers["x-whispertide-warning"]) == "fields without effect: beam_size, include[]"
        both = await post(client, wav(2, promised=10**6), best_of="5")
        told = json.loads(both.headers["x-whispertide-warning"])
        assert told.startswith("fields without effect: best_of; ")
        assert "cut off" in told
        streamed = await post(client, wav(1), best_of="5", stream="true")
        assert streamed.headers["x-whispertide-model"] == "nano.en"
        assert "best_of" in streamed.headers["x-whispertide-warning"]
        assert "best_of" in streamed.text.splitlines()[-2]
        known: dict[str, Any] = {"timestamp_granularities[]": "word", "temperature": "0", "language": "en"}
        answer = await post(client, wav(1), model="x", response_format="json", **known)
        assert "x-whispertide-warning" not in answer.headers


async def test_lists_are_between_commas_or_repeated() -> None:
    model = multilingual(OfflineModel(), "en", "de", "fr")
    async with rest(model=model) as client:
        first = await post(client, wav(1), **{"languages": "German, fr", "keyterms": "Ada", "hotwords": "Ebbe,Flut"})
        lists: dict[str, Any] = {"keyterms[]": ["Ada", "Ebbe, Flut"], "languages": ""}
        second = await post(client, wav(1), **lists)
    assert [answer.status_code for answer in (first, second)] == [200, 200]
    assert "x-whispertide-warning" not in first.headers
    asked = [(one.languages, one.keyterms) for one in model.offline.offline_options]
    assert asked == [(("de", "fr"), ("Ada", "Ebbe", "Flut")), ((), ("Ada", "Ebbe", "Flut"))]


def test_headers_hold_whatever_names_there_are() -> None:
    """A model may be a folder of any name, a field anything: both are shortened and in ASCII."""
    name, ignored = "Modelle/größe\r\n", ("é" * 99,) * 32
    request = TranscriptionRequest(io.BytesIO(), name, "json", frozenset(), False, DecodeOptions(), ignored)
    headers = request.headers("cut off")
    assert headers["x-whispertide-model"] == "Modelle/gr%C3%B6%C3%9Fe%0D%0A"
    assert headers["x-whispertide-warning"].isascii()
    assert len(headers["x-whispertide-warning"]) < 2_500
    assert json.loads(headers["x-whispertide-warning"]).endswith("27 more; cut off")


async def test_a_file_that_is_too_large() -> None:
    async with rest(limited(upload=100_000)) as client:
        assert (await post(client, wav(2))).status_code == 200
        assert (await post(client, wav(20))).status_code == 413


@pytest.mark.parametrize(
    "fields",
    [
        {"languages": "en,klingon"},
        {"keyterms": "x" * 101},
        {"response_format": "x"},
        {"temperature": "hot"},
        {"temperature": "7"},
        {"language": "klingon"},
        {"stream": "perhaps"},
        {"timestamp_granularities[]": "phoneme"},
        {"prompt": "x" * 10_001},
    ],
)
async def test_fields_that_cannot_be(fields: dict[str, str]) -> None:
    async with rest() as client:
        answer = await post(client, wav(1), **fields)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith(("expected", "unknown", "Whisper"))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"{}", "application/json"),
        (b"", "multipart/form-data"),
        (b"--x\r\n", "multipart/form-data; boundary=x"),
        (
            b"--x\r\nContent-Disposition: form-data; name=file\r\n\r\nhello\r\n--x--\r\n",
            "multipart/form-data; boundary=x",
        ),
        (b"\xff\xfe", "multipart/form-data; boundary=\xff"),
    ],
)
async def test_bodies_that_are_no_form(content: bytes, kind: str) -> None:
    async with rest() as client:
        headers = {"content-type": kind.encode("latin-1")}
        answer = await client.post("/v1/audio/transcriptions", content=content, headers=headers)  # type: ignore[arg-type]
        assert answer.status_code == 400
        assert "error" in answer.json()


@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data; boundary=x; charset=punycode",
        "multipart/form-data; boundary=x; charset=utf-8; charset=punycode",
        "multipart/form-data; xcharset=utf-8; boundary=x; charset=punycode",
        'multipart/form-data; boundary="charset=utf-8"; charset=punycode',
    ],
)
async def test_fields_in_an_encoding_that_may_take_hours(kind: str) -> None:
    """Whatever else the type says: what counts is how the form would be read."""
    async with rest() as client:
        answer = await client.post("/v1/audio/transcriptions", content=b"--x--", headers={"content-type": kind})
        assert answer.status_code == 400
        assert "got fields in 'punycode'. Send UTF-8" in answer.json()["error"]["message"]


async def test_names_of_files_are_not_used() -> None:
    async with rest() as client:
        answer = await post(client, wav(1), "../../../../etc/passwd\x00.wav")
        assert answer.status_code == 200
        for path in ("/../../pyproject.toml", "/%2e%2e/%2e%2e/pyproject.toml", "/..%5c..%5cpyproject.toml"):
            assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "told"),
    [
        ("GET", "/v1/audio/transcriptions", 405, "expected POST for /v1/audio/transcriptions; got GET"),
        ("POST", "/v1/models", 405, "for /v1/models; got POST"),
        ("GET", "/v1/chat/completions", 404, "nothing is at /v1/chat/completions; got GET"),
        ("GET", "/nothing.html", 404, "nothing is at /nothing.html; got GET"),
        ("POST", "/index.html", 405, "for /index.html; got POST"),
    ],
)
async def test_what_is_not_there_is_told_in_openais_shape(method: str, path: str, status: int, told: str) -> None:
    async with rest() as client:
        answer = await client.request(method, path)
        assert answer.status_code == status
        assert told in answer.json()["error"]["message"]
        assert status != 405 or "/v1" not in path or answer.headers["allow"]


class Held(OfflineModel):
    """Begins with a file, and goes on when it may."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def transcribe_segments(self, audio: Any, **settings: Any) -> Iterator[OfflineSegment]:
        self.begun.set()
        assert self.go.wait(60)
        yield from super().transcribe_segments(audio, **settings)


async def test_more_files_than_there_is_room_for() -> None:
    model = Held()
    async with rest(limited(offline=1), model) as client:
        first = asyncio.create_task(post(client, wav(4)))
        assert await asyncio.to_thread(model.begun.wait, 60)
        others = [await post(client, wav(1), stream=stream) for stream in ("false", "true")]
        model.go.set()
        assert [other.status_code for other in others] == [429, 429]
        assert all(other.headers["retry-after"] for other in others)
        assert (await first).status_code == 200


async def test_a_file_that_finds_no_place_when_it_is_there_was_refused() -> None:
    """There was room for it when it began to come."""
    model = Held()
    form = httpx.Request("POST", "http://x", files={"file": ("a.wav", wav(1))})
    content = form.read()
    async with served(limited(offline=1, stall_s=60), model) as (server, hub):
        rest_of_it = asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield content[:100]
            await rest_of_it.wait()
            yield content[100:]

        async with web_client(server) as client:
            headers = {"content-type": form.headers["content-type"]}
            second = client.post("/v1/audio/transcriptions", content=slowly(), headers=headers)
            refused = asyncio.create_task(second)
            async with asyncio.timeout(60):
                while not hub.files:
                    await asyncio.sleep(0.01)
            first = asyncio.create_task(post(client, wav(1)))
            assert await asyncio.to_thread(model.begun.wait, 60)
            rest_of_it.set()
            assert (await refused).status_code == 429
            model.go.set()
            assert (await first).status_code == 200
        outcomes = {
            sample.labels["outcome"]: sample.value
            for metric in hub.metrics.uploads.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        }
        assert outcomes == {"refused": 1, "done": 1}


@pytest.mark.slow
async def test_a_file_whose_client_has_left_is_not_transcribed() -> None:
    """Three long files that nobody waits for any more must not make an honest one wait."""
    model = OfflineModel(delay_s=0.5)
    async with served(limited(offline=4), model) as (server, _):
        for stream in ("false", "true"):
            async with web_client(server) as client:
                model.offline.offline_options.clear()
                left = [asyncio.create_task(post(client, wav(100), stream=stream)) for _ in range(3)]
                while not model.offline.offline_options:  # one of them is being transcribed
                    await asyncio.sleep(0.05)
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)
            async with web_client(server) as client:
                async with asyncio.timeout(60):  # the three take 75 s
                    # On a busy machine the server learns only after a moment that they have left.
                    while (answer := await post(client, wav(2))).status_code == 429:
                        await asyncio.sleep(0.1)
                assert answer.status_code == 200


async def test_a_full_disk_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with rest() as client:
        with monkeypatch.context() as patch:
            patch.setattr("starlette.datastructures.UploadFile.write", full)
            answer = await post(client, wav(1))
            assert (answer.status_code, answer.headers["retry-after"]) == (507, "60")
        assert (await post(client, wav(1))).status_code == 200


async def test_a_name_that_points_here_reads_nothing_without_a_key() -> None:
    """DNS rebinding: a page on a name of its own that resolves to this machine is of the same origin."""
    paths = ("/metrics", "/v1/models", "/v3/token?expires_in_seconds=60")
    async with rest() as client:
        for path in paths:
            answer = await client.get(path, headers={"host": "evil.example:8000"})
            assert answer.status_code == 403
            assert "evil.example" in answer.json()["error"]["message"]
            for host in ("127.0.0.1:8000", "[::1]:8000", "localhost", "whispertide:8000", "192.168.1.7"):
                assert (await client.get(path, headers={"host": host})).status_code == 200
    async with rest(keyed("a-secret-key")) as client:
        key = {"authorization": "Bearer a-secret-key", "host": "speech.example.org"}
        assert (await client.get("/v1/models", headers=key)).status_code == 200
    async with rest(replace(limited(), access=Access(origins=("https://speech.example.org",)))) as client:
        answer = await client.get("/v1/models", headers={"host": "speech.example.org"})
        assert answer.status_code == 200


async def test_a_page_of_an_allowed_origin_may_send_files() -> None:
    """A browser asks first (CORS), and shows the page only what the server names."""
    page, path = "https://speech.example.org", "/v1/audio/transcriptions"
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,x-api-key"}
    options = replace(limited(), access=Access(("a-secret-key",), origins=(f"{page}/",)))
    async with rest(options) as client:
        first = await client.options(path, headers={"origin": page, **asked})
        assert first.status_code == 200
        assert first.headers["access-control-allow-origin"] == page
        assert {"GET", "POST"} == set(first.headers["access-control-allow-methods"].split(", "))
        client.headers["origin"] = page
        for key, status in (("a-secret-key", 200), ("another-key", 401)):
            client.headers["authorization"] = f"Bearer {key}"
            answer = await post(client, wav(1))
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == page
            assert answer.headers["access-control-expose-headers"] == "x-whispertide-model, x-whispertide-warning"
        other = await client.options(path, headers={"origin": "https://evil.example", **asked})
        assert other.status_code == 400
        assert "access-control-allow-origin" not in other.headers
    async with rest() as client:
        answer = await client.options(path, headers={"origin": page, **asked})
        assert "access-control-allow-origin" not in answer.headers


async def test_slow_requests_are_cut_off() -> None:
    async with served(limited(stall_s=0.3), OfflineModel()) as (server, _):
        for head in (
            b"GET / HTTP/1.1\r\n",
            b"",
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n--x",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(head)
            async with asyncio.timeout(60):
                answer = await reader.read()
            assert answer == b"" or b" 408 " in answer
            writer.close()


async def test_a_server_whose_places_are_all_taken_is_not_ready() -> None:
    async with (
        rest(limited(sessions=1)) as client,
        connect(f"{client.base_url}".replace("http", "ws") + "/ws", proxy=None) as one,
    ):
        await one.send(bytes(3200))
        assert json.loads(await one.recv())["type"] == "hello"
        assert json.loads(await one.recv())["type"] == "session"
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "full"})


async def test_the_other_pages() -> None:
    async with rest() as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        metrics = await client.get("/metrics")
        assert "whispertide_sessions 0.0" in metrics.text
        description = (await client.get("/openapi.json")).json()
        assert description["openapi"].startswith("3.1")
        docs = await client.get("/docs")
        assert "/v1/audio/transcriptions" in docs.text
        assert "http" not in docs.text.replace("HTTP", "")  # nothing is fetched from elsewhere
        assert docs.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in docs.headers["content-security-policy"]
        for path in description["paths"]:
            method = "post" if "post" in description["paths"][path] else "get"
            assert (await client.request(method, path.replace("{model}", "nano.en"))).status_code in (200, 400)


async def test_pages_of_other_hosts_and_people_without_keys() -> None:
    async with rest() as client:
        evil = await client.post("/v1/audio/transcriptions", headers={"origin": "https://evil.example"})
        assert evil.status_code == 403
    async with rest(keyed("a-secret-key")) as client:
        for path in ("/v1/models", "/metrics"):
            assert (await client.get(path)).status_code == 401
        assert (await client.get("/healthz")).status_code == 200


async def test_too_many_requests() -> None:
    async with rest(limited(requests=3)) as client:
        codes = [(await client.get("/v1/models")).status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]


@pytest.mark.slow
@given(
    data=st.one_of(st.binary(max_size=300), st.binary(max_size=60).map(lambda tail: wav(0.1)[:60] + tail)),
    fields=st.dictionaries(
        st.sampled_from(
            [
                "model",
                "language",
                "prompt",
                "response_format",
                "temperature",
                "stream",
                "timestamp_granularities[]",
                "file",
            ]
        ),
        st.one_of(st.text(max_size=12), st.sampled_from(["true", "en", "srt", "nan", "1e999", "-1", "word"])),
        max_size=5,
    ),
    name=st.text(max_size=20),
)
def test_any_form(data: bytes, fields: dict[str, str], name: str) -> None:
    """Straight into the application, without sockets: an answer in the right shape, whatever comes."""
    from whispertide.server.app import make_app

    async def body() -> None:
        models: Any = {"nano.en": OfflineModel()}
        hub, _ = assemble(models, get_recipe("whisper-streaming"), limited())
        transport = httpx.ASGITransport(make_app(hub))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            files = {"file": (name or "x", data)}
            answer = await client.post("/v1/audio/transcriptions", files=files, data=fields)
            assert answer.status_code in (200, 400, 413)
            assert "Traceback" not in answer.text
            if answer.status_code != 200:
                assert answer.json()["error"]["message"]

    asyncio.run(body())


async def test_keys_for_a_short_time() -> None:
    """What a page gets opens the realtime protocol with the settings it was made with, and nothing else."""
    from websockets.asyncio.client import connect

    async with served(keyed("a-secret-key"), OfflineModel()) as (server, _):
        address = f"http://127.0.0.1:{server.port}"
        headers = {"authorization": "Bearer a-secret-key"}
        async with web_client(server) as client:
            asked = {"session": {"type": "transcription", "audio": {"input": {"turn_detection": None}}}}
            url = "/v1/realtime/client_secrets"
            assert (await client.post(url, json=asked)).status_code == 401
            made = (await client.post(url, json=asked, headers=headers)).json()
            assert made["value"].startswith("ek_")
            old = (await client.post("/v1/realtime/transcription_sessions", json={}, headers=headers)).json()
            assert old["client_secret"]["value"].startswith("ek_")
            bad_bodies: list[Any] = [[], {"session": 1}, {"expires_after": {"seconds": 1e9}}]
            for bad in bad_bodies:
                assert (await client.post(url, json=bad, headers=headers)).status_code == 400
            models = await client.get("/v1/models", headers={"authorization": f"Bearer {made['value']}"})
            assert models.status_code == 401
        path = address.replace("http", "ws") + "/v1/realtime?intent=transcription"
        subprotocols: Any = ["realtime", f"openai-insecure-api-key.{made['value']}"]
        async with connect(path, subprotocols=subprotocols, proxy=None) as socket:
            async with asyncio.timeout(60):
                created, updated = [json.loads(await socket.recv()) for _ in range(2)]
            assert created["type"] == "session.created"
            assert updated["type"] == "session.updated"
            assert updated["session"]["audio"]["input"]["turn_detection"] is None


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """What was streamed."""
    return events_in(answer.text.splitlines())


def events_in(lines: Sequence[str]) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in lines if line]


async def lines_of(client: httpx.AsyncClient, data: bytes, begun: asyncio.Event) -> list[str]:
    """The lines of a streamed transcription; `begun` is set with the first."""
    lines, files = [], {"file": ("a.wav", data)}
    async with client.stream("POST", "/v1/audio/transcriptions", files=files, data={"stream": "true"}) as answer:
        async for line in answer.aiter_lines():
            lines.append(line)
            begun.set()
    return lines


@pytest.mark.parametrize("drain_s", [30.0, 0.2])
def test_the_end_waits_for_files_and_then_says_so(drain_s: float) -> None:
    """One is streamed, one waits and one is still coming. Nothing is logged as an error."""
    model = OfflineModel(delay_s=1.0)  # so slow that all three are there before one is done, on any machine
    form = b"--x\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n" + wav(2) + b"\r\n--x--\r\n"
    head = (
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: " + str(len(form)).encode() + b"\r\n\r\n"
    )

    async def body() -> None:
        async with served(replace(limited(stall_s=120), drain_s=drain_s), model) as (server, hub):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            async with web_client(server) as client:
                writer.write(head + form[:1000])
                begun = asyncio.Event()
                streamed = asyncio.create_task(lines_of(client, wav(40), begun))
                await begun.wait()
                waiting = asyncio.create_task(post(client, wav(4)))
                async with asyncio.timeout(60):
                    while hub.files < 3:
                        await asyncio.sleep(0.01)
                model.offline.delay_s = 0.1
                server.should_exit = True
                if drain_s > 1:
                    writer.write(form[1000:])
                last, waited = events_in(await streamed)[-1], await waiting
                coming = await reader.read()
            writer.close()
        if drain_s > 1:
            assert last["type"] == "transcript.text.done"
            assert waited.status_code == 200
            assert coming.startswith(b"HTTP/1.1 200 ")
        else:
            assert (last["type"], last["error"]["type"]) == ("error", "server_error")
            assert (waited.status_code, waited.headers["retry-after"]) == (503, "5")
            assert "stopping" in waited.json()["error"]["message"]
            assert coming.startswith(b"HTTP/1.1 503 ")

    with logged_errors() as errors:
        asyncio.run(body())
    assert not errors


async def test_streaming_a_file_that_is_none() -> None:
    async with rest() as client:
        answer = await post(client, b"no audio", stream="true")
        assert answer.status_code == 400
        assert "audio" in answer.json()["error"]["message"]
        good = events_of(await post(client, wav(3), stream="true"))
        assert [event["type"] for event in good] == ["transcript.text.delta"] * 2 + ["transcript.text.done"]
        assert "".join(event.get("delta", "") for event in good) == good[-1]["text"] != ""


async def test_streaming_a_file_that_fails_later() -> None:
    class Failing(OfflineModel):
        def transcribe_segments(self, audio: Any, **settings: Any) -> Iterator[OfflineSegment]:
            yield next(super().transcribe_segments(audio, **settings))
            raise AudioError("expected audio to the end; got something else")

    async with rest(model=Failing()) as client:
        answer = await post(client, wav(4), stream="true")
        assert answer.status_code == 200
        delta, error = events_of(answer)
        assert (delta["type"], error["type"]) == ("transcript.text.delta", "error")
        assert "to the end" in error["error"]["message"]


@pytest.mark.parametrize("format_", ["srt", "json"])
async def test_others_are_served_while_an_answer_is_written(format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaking two hours of words into subtitles takes seconds."""
    written = threading.Event()

    def slow(*arguments: Any) -> Any:
        assert written.wait(30)
        return render(*arguments)

    monkeypatch.setattr("whispertide.server.rest.render", slow)
    async with rest() as client:
        answer = asyncio.create_task(post(client, wav(3), response_format=format_))
        assert (await client.get("/healthz", timeout=20)).status_code == 200
        await asyncio.sleep(0.3)
        assert (await client.get("/healthz", timeout=20)).status_code == 200
        written.set()
        assert "word0" in (await answer).text
