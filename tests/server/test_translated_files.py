"""Files over REST with a translation of their sentences: in every format, streamed, and what cannot be had."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import numpy as np
import pytest

from rest_client import events_of
from scripted_translator import ScriptedTranslator
from served import OfflineModel, limited, served, wav, web_client
from sounds import make_wav
from whispertide.server.options import TranslationAccess
from whispertide.translation.translator import TranslatorError


@asynccontextmanager
async def rest(translator: ScriptedTranslator | None, *languages: str) -> AsyncIterator[httpx.AsyncClient]:
    offered = None if translator is None else TranslationAccess(translator, languages or ("fr", "de"), corrects=True)
    async with (
        served(replace(limited(), translation=offered), OfflineModel()) as (server, _),
        web_client(server) as web,
    ):
        yield web


async def post(web: httpx.AsyncClient, **fields: str) -> httpx.Response:
    return await web.post("/v1/audio/transcriptions", files={"file": ("talk.wav", wav(2))}, data=fields)


@pytest.mark.parametrize("form", ["json", "verbose_json"])
async def test_a_translation_stands_next_to_the_text(form: str) -> None:
    async with rest(ScriptedTranslator()) as web:
        answer = (await post(web, translate_to="French", correct="true", response_format=form)).json()
        (translation,), (correction,) = answer["translations"], answer["corrections"]
        assert translation["language"] == "fr"
        assert translation["text"] == f"FR: {answer['text'].upper()}"
        assert correction["text"] == answer["text"].upper()
        assert 0 <= translation["start"] < translation["end"] <= 2
        plain = (await post(web, response_format=form)).json()
        assert not {"translations", "corrections"} & plain.keys()
        assert plain["text"] == answer["text"]


@pytest.mark.parametrize("form", ["text", "srt", "vtt"])
async def test_a_single_text_is_the_translation(form: str) -> None:
    async with rest(ScriptedTranslator()) as web:
        answer = await post(web, translate_to="fr", response_format=form)
        assert "FR: WORD0" in answer.text
        assert "word0" not in answer.text


async def test_a_streamed_answer_ends_with_it() -> None:
    async with rest(ScriptedTranslator()) as web:
        answer = await post(web, translate_to="fr", stream="true")
        events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        assert events[-1]["type"] == "transcript.text.done"
        assert events[-1]["translations"][0]["text"].startswith("FR: WORD0")


async def in_stereo(web: httpx.AsyncClient, **fields: str) -> httpx.Response:
    sound = make_wav(np.zeros((32_000, 2), np.float32), 16_000, "s16")
    fields = {"multichannel": "true", "translate_to": "fr", **fields}
    return await web.post("/v1/audio/transcriptions", files={"file": ("call.wav", sound)}, data=fields)


async def test_a_translation_of_channels_names_the_speakers() -> None:
    """Only the transcript did."""
    async with rest(ScriptedTranslator()) as web:
        for form, names in (("json", [1, 2]), ("verbose_json", [1, 2]), ("diarized_json", ["A", "B"])):
            answer = (await in_stereo(web, correct="true", response_format=form)).json()
            for made in (answer["translations"], answer["corrections"]):
                assert [one["speaker"] for one in made] == names
        vtt = (await in_stereo(web, response_format="vtt")).text
        assert all(f"<v Speaker {number}>FR: WORD0" in vtt for number in (1, 2))
        streamed = await in_stereo(web, response_format="diarized_json", stream="true")
        assert [one["speaker"] for one in events_of(streamed)[-1]["translations"]] == ["A", "B"]


async def test_what_fails_is_a_warning_and_the_text_is_there(caplog: pytest.LogCaptureFixture) -> None:
    async with rest(ScriptedTranslator(problems=[TranslatorError("wrong key sk-1", "lasting")])) as web:
        answer = await post(web, translate_to="fr")
        assert answer.json()["text"].startswith("word0")
        warning = answer.headers["x-whispertide-warning"]
        assert "translations fail" in warning
        assert "sk-1" not in warning, "clients did not choose the translator"
    assert "wrong key sk-1" in [line.__dict__.get("problem") for line in caplog.records]


async def test_a_recording_in_the_language_is_its_own_translation() -> None:
    """It was an empty answer."""
    async with rest(ScriptedTranslator(knows=("en", "fr", None)), "en") as web:
        answer = await post(web, translate_to="en", response_format="text")
        assert answer.text == (await post(web, response_format="text")).text


async def test_no_thread_waits_for_a_translator() -> None:
    """Those that there are have other things to do: other files, and the server's own."""
    translator = ScriptedTranslator(gate=threading.Event())
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with rest(translator) as web:
        waits = asyncio.create_task(post(web, translate_to="fr"))
        while not translator.began.is_set():
            await asyncio.sleep(0.01)
        async with asyncio.timeout(60):
            assert (await post(web)).json()["text"].startswith("word0")
        assert translator.gate is not None
        translator.gate.set()
        assert (await waits).json()["translations"]


@pytest.mark.parametrize(
    ("offers", "fields", "told"),
    [
        (True, {"translate_to": "it"}, "expected a language among fr, de on this server; got 'it'"),
        (True, {"translate_to": "Elvish"}, "Elvish"),
        (False, {"translate_to": "fr"}, "got 'fr': leave out translate_to, or start the server with --translate-to"),
        (False, {"correct": "true"}, "expected no corrections on this server: leave out correct, or start"),
    ],
)
async def test_what_a_server_does_not_offer_is_refused(offers: bool, fields: dict[str, str], told: str) -> None:
    async with rest(ScriptedTranslator() if offers else None) as web:
        answer = await post(web, **fields)
        assert answer.status_code == 400
        assert told in answer.json()["error"]["message"]
