"""OpenAI's REST interface on loopback: its client package, its formats, and files that are none."""

import asyncio
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rest_client import events_of, post, rest
from served import OfflineModel, keyed, limited, multilingual, served, wav
from sounds import make_wav
from whispertide.errors import AudioError
from whispertide.options import LONGEST_TERM, MOST_TERMS, DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.bounds import MOST_PROMPT
from whispertide.server.serving import assemble
from whispertide.server.transcription_form import TranscriptionRequest
from whispertide.types import OfflineSegment

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


def stereo(seconds: float, channels: int = 2) -> bytes:
    return make_wav(np.zeros((round(16_000 * seconds), channels), np.float32), 16_000, "s16")


@pytest.mark.slow
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


@pytest.mark.parametrize("between_commas", [False, True])
async def test_a_list_may_have_as_many_terms_as_anywhere(between_commas: bool) -> None:
    terms = [f"{number:04}{'ß' * (LONGEST_TERM - 4)}" for number in range(MOST_TERMS)]
    fields = {"keyterms": ",".join(terms)} if between_commas else {"keyterms[]": terms}
    model = OfflineModel()
    async with rest(limited(upload=100_000), model=model) as client:
        answer = await post(client, wav(3), prompt="ß" * MOST_PROMPT, **fields)
        assert answer.status_code == 200, answer.text
        assert model.offline.offline_options[-1].keyterms == tuple(terms)
        refused = await post(client, wav(3), keyterms=[*terms, "one more"])
        assert (refused.status_code, "at most 500 key terms" in refused.text) == (400, True)


async def test_fields_are_bounded_together() -> None:
    """They lie in memory, and a form may have many."""
    async with rest() as client:
        answer = await post(client, wav(1), x=["y" * 1_000] * 300)
        assert answer.status_code == 400
        assert "bytes in its other fields" in answer.json()["error"]["message"]


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
        ("POST", "/inference", 404, "nothing is at /inference; got POST"),
        ("POST", "/v1/listen", 426, "expected a WebSocket at /v1/listen; got POST"),
        ("GET", "/ws", 426, "expected a WebSocket at /ws; got GET"),
    ],
)
async def test_what_is_not_there_is_told_in_openais_shape(method: str, path: str, status: int, told: str) -> None:
    async with rest() as client:
        answer = await client.request(method, path)
        assert answer.status_code == status
        assert told in answer.json()["error"]["message"]
        assert status != 405 or "/v1" not in path or answer.headers["allow"]


@pytest.mark.slow
@given(
    data=st.one_of(st.binary(max_size=300), st.binary(max_size=60).map(lambda tail: wav(0.1)[:60] + tail)),
    fields=st.dictionaries(
        st.sampled_from(FIELDS),
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
