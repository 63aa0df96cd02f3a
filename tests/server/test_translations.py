"""Sessions are translated next to their captions, which wait for nothing; a client that comes back has it all."""

import asyncio
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chat_server import Answer, ChatServer, chat_server, fails, waits
from scripted_translator import ScriptedTranslator, until
from served import SECONDS, SILENCE, TEXT, client, complete, limited, say_everything, served, text_of
from shared_journal import accepted, back
from whispertide.errors import OptionError
from whispertide.events import Confirmed, Correction, End, Error, Event, Translation, TurnEnd
from whispertide.server import translations as module
from whispertide.server.options import ServerOptions, TranslationAccess
from whispertide.server.outbox import Entry
from whispertide.server.protocols.base import Settings
from whispertide.server.translations import LiveTranslation, Translations
from whispertide.translation.opening import open_translator
from whispertide.translation.translating import Translating
from whispertide.translation.translator import TranslationOptions
from whispertide.types import Word

FRENCH = {"type": "start", "translate_to": "fr"}


def offering(chat: ChatServer, **changes: Any) -> ServerOptions:
    access = TranslationAccess(open_translator(chat.url, "llm"), ("fr", "de"), corrects=True)
    return replace(limited(), translation=access, **changes)


def translations(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Translation)]


def plain(text: str) -> list[str]:
    """The words of a translation by the fake, as the model knows them."""
    return [word.strip(" ,.!").lower() for word in text.removeprefix("French: ").split()]


def translated_words(events: Sequence[Event]) -> list[str]:
    return [word for text in translations(events) for word in plain(text)]


def errors(events: Sequence[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, Error)]


async def test_a_client_that_asks_gets_translations_among_its_words() -> None:
    with chat_server() as chat:
        async with served(offering(chat)) as (server, _), client(server) as one:
            hello = await one.until("hello")
            assert (hello["translations"], hello["corrects"]) == (["fr", "de"], True)
            await one.send({**FRENCH, "correct": True})
            await say_everything(one)
            assert await one.rest() == 1000
        assert complete(one.events)
        assert one.text == TEXT
        assert translated_words(one.events) == TEXT
        corrected = [event.text for event in one.events if isinstance(event, Correction)]
        assert [word for text in corrected for word in plain(text)] == TEXT
        assert all(body["messages"][0]["content"].find(" English") > 0 for _, _, body in chat.requests)


async def test_who_does_not_ask_is_not_translated() -> None:
    with chat_server() as chat:
        async with served(offering(chat)) as (server, _), client(server) as one:
            await say_everything(one)
            await one.rest()
        assert complete(one.events)
        assert chat.requests == []


async def test_captions_wait_for_no_translation_and_the_end_does() -> None:
    release = threading.Event()
    with chat_server(*[waits(release)] * 20) as chat:
        async with served(offering(chat)) as (server, hub), client(server) as one:
            await one.send(FRENCH)
            await say_everything(one)
            while len(one.text) < len(TEXT):
                await one.until("confirmed")
            await one.until("turn_end")
            assert translations(one.events) == []
            await asyncio.sleep(0.05)
            (live,) = hub.sessions.values()
            assert live.waits_for_translations
            assert live.busy
            release.set()
            assert await one.rest() == 1000
    assert complete(one.events)
    assert translated_words(one.events) == TEXT


@pytest.mark.parametrize("problem", [fails(401, "no such key"), fails(404)])
async def test_a_failure_is_told_once_and_costs_no_caption(problem: Answer, caplog: pytest.LogCaptureFixture) -> None:
    with chat_server(*[problem] * 20) as chat:
        async with served(offering(chat)) as (server, _), client(server) as one:
            await one.send(FRENCH)
            await say_everything(one)
            assert await one.rest() == 1000
        assert len(chat.requests) == 1
    assert complete(one.events)
    assert one.text == TEXT
    first, *others = errors(one.events)
    assert first == "translations fail, captions continue: there are none in this session"
    (reason,) = [line.__dict__["problem"] for line in caplog.records if line.getMessage() == "translations fail"]
    assert reason.startswith(f"llm at {chat.url}"), "for the operator alone"
    assert all("no translation" in message for message in others)


async def test_the_end_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.1)
    never = threading.Event()
    with chat_server(*[waits(never)] * 20) as chat:
        async with served(offering(chat)) as (server, _), client(server) as one:
            await one.send(FRENCH)
            await say_everything(one)
            assert await one.rest() == 1000
        never.set()
    assert complete(one.events)
    assert one.text == TEXT
    assert "no translation" in errors(one.events)[-1]


@pytest.mark.parametrize(
    ("start", "kind", "message"),
    [
        ({"translate_to": "es"}, "bad_setting", "expected a language among fr, de on this server; got 'es'"),
        ({"translate_to": "klingon"}, "bad_setting", "klingon"),
        ({"translate_to": 5}, "bad_request", '"translate_to" to be a string'),
        ({"correct": "yes"}, "bad_request", '"correct" to be true or false'),
        ({"correct": None}, "bad_request", '"correct" to be true or false'),
    ],
)
async def test_what_is_not_offered_is_refused(start: dict[str, Any], kind: str, message: str) -> None:
    with chat_server() as chat:
        async with served(offering(chat)) as (server, hub), client(server) as one:
            await one.send({"type": "start", **start})
            problem = await one.until("problem")
            assert problem["kind"] == kind
            assert message in problem["message"]
            assert not hub.sessions
        assert chat.requests == []


@pytest.mark.parametrize("start", [{"translate_to": "fr"}, {"correct": True}])
async def test_a_server_without_a_translator_says_so(start: dict[str, Any]) -> None:
    async with served() as (server, _), client(server) as one:
        assert (await one.until("hello"))["translations"] == []
        await one.send({"type": "start", **start})
        assert "on this server" in (await one.until("problem"))["message"]


async def test_the_address_can_ask_for_it_and_a_name_is_as_good_as_a_code() -> None:
    with chat_server() as chat:
        async with served(offering(chat)) as (server, _), client(server, "?translate_to=French&correct=no") as one:
            await say_everything(one)
            await one.rest()
    assert translated_words(one.events) == TEXT
    assert not any(isinstance(event, Correction) for event in one.events)


async def test_a_client_that_comes_back_misses_no_translation() -> None:
    with chat_server() as chat:
        async with served(offering(chat)) as (server, _):
            async with client(server) as one:
                await one.send(FRENCH)
                await one.until("session")
                await one.send(*[SILENCE] * 5)
                await accepted(one, 60_000)
                one.socket.transport.abort()
                await one.rest()
            async with client(server, back(one)) as again:
                received = (await again.until("session"))["received"]
                await again.send(bytes(2 * (round(SECONDS * 16_000) - received)), {"type": "finish"})
                await again.rest()
    events = [*one.events, *again.events]
    assert complete(events)
    assert text_of(events) == TEXT
    assert translated_words(events) == TEXT


async def test_after_a_restart_what_nobody_has_is_translated(tmp_path: Path) -> None:
    never = threading.Event()
    with chat_server(*[waits(never)] * 2) as chat:
        async with served(offering(chat, journal=str(tmp_path))) as (server, hub), client(server) as one:
            await one.send(FRENCH)
            await say_everything(one)
            while len(one.text) < len(TEXT):
                await one.until("confirmed")
            await one.until("turn_end")
            await asyncio.sleep(0.1)
            (live,) = hub.sessions.values()
            assert live.waits_for_translations, "also its end is not lost"
        chat.answers.clear()
        async with served(offering(chat, journal=str(tmp_path))) as (server, _), client(server, back(one)) as again:
            await again.rest()
        never.set()
    events = [*one.events, *again.events]
    assert complete(events)
    assert translated_words(events) == TEXT


async def test_after_a_restart_without_a_translator_the_client_is_told(tmp_path: Path) -> None:
    never = threading.Event()
    with chat_server(*[waits(never)] * 2) as chat:
        async with served(offering(chat, journal=str(tmp_path))) as (server, _), client(server) as one:
            await one.send(FRENCH)
            await say_everything(one)
            while len(one.text) < len(TEXT):
                await one.until("confirmed")
            await asyncio.sleep(0.1)
        never.set()
    async with served(replace(limited(), journal=str(tmp_path))) as (server, _), client(server, back(one)) as again:
        await again.rest()
    assert complete([*one.events, *again.events])
    assert "this server no longer has one" in errors(again.events)[0]


async def test_a_session_that_is_dropped_asks_for_nothing_more() -> None:
    release = threading.Event()
    with chat_server(waits(release)) as chat:
        async with served(offering(chat)) as (server, hub), client(server) as one:
            await one.send(FRENCH)
            await one.until("session")
            (live,) = hub.sessions.values()
            await one.send(*[SILENCE] * 9)
            while not chat.requests:
                await asyncio.sleep(0.01)
            await one.send({"type": "abandon"})
            await one.rest()
            assert live.translation is not None
            assert live.translation.stream.is_done
            release.set()
        assert len(chat.requests) == 1


async def test_whisperlivekit_clients_get_it_in_their_lines() -> None:
    with chat_server() as chat:
        async with served(offering(chat)) as (server, _), client(server, path="/asr") as one:
            await one.send(*[SILENCE] * round(SECONDS), b"")
            async with asyncio.timeout(60):
                states = [json.loads(message) async for message in one.socket]
    lines = [line for line in states[-2]["lines"] if line["speaker"] == 1]
    assert [word for line in lines for word in plain(line["text"])] == TEXT
    # Of several sentences that waited, the first one's line has the translation.
    translated = " ".join(line.get("translation", "") for line in lines).replace("French: ", "")
    assert plain(translated) == TEXT
    assert states[-1] == {"type": "ready_to_stop"}


# --- one session's translation, without a server ----------------------------------------------------------------------


def confirmed(text: str) -> Confirmed:
    return Confirmed(0, 16_000, (Word(f" {text}", 0, 16_000),))


def live(translator: ScriptedTranslator) -> LiveTranslation:
    return LiveTranslation(Translating(translator, TranslationOptions("fr"), language="en"))


def test_entries_keep_their_order_and_the_end_comes_last() -> None:
    translator = ScriptedTranslator(gate=threading.Event())
    translation = live(translator)
    entries: list[Entry] = [confirmed("One."), TurnEnd(1, 16_000, 16_000), "flushed"]
    assert translation.add(entries) == entries
    end = End(2, 16_000, 16_000)
    assert translation.add([end]) == []
    assert translation.snapshot().end == end
    assert not translation.has_news
    assert translator.gate is not None
    translator.gate.set()
    until(lambda: translation.has_news)
    assert translation.add([]) == [Translation(0, 16_000, 0, 16_000, "fr", "FR: ONE."), end]
    assert not translation.has_news


def test_without_anything_to_translate_the_end_waits_for_nothing() -> None:
    end = End(0, 0, 0)
    assert live(ScriptedTranslator()).add([end]) == [end]


def test_a_session_that_failed_waits_for_nothing() -> None:
    translator = ScriptedTranslator(gate=threading.Event())
    translation = live(translator)
    error = Error(3, 0, "the graph failed", fatal=True)
    assert translation.add([confirmed("One."), error])[1:] == [error]
    assert translation.stream.is_done
    assert translator.gate is not None
    translator.gate.set()


def test_what_the_operator_offers_has_to_be_possible() -> None:
    with pytest.raises(OptionError, match="expected a language among"):
        Translations(ScriptedTranslator(), ("it",))
    with pytest.raises(OptionError):
        Translations(ScriptedTranslator(knows=("fr",)), ("fr",), corrects=True)
    offered = Translations(ScriptedTranslator(), ("fr",))
    offered.check(Settings(translate_to="fr-CA"))
    with pytest.raises(OptionError, match="no corrections on this server"):
        offered.check(Settings(correct=True))
    offered.close()
    assert isinstance(offered.translator, ScriptedTranslator)
    assert offered.translator.closed
