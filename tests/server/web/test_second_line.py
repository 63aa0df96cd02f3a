"""The second line of the page and of those who watch: translations, and what the user chooses among them."""

import json
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from websockets.sync.client import connect

from chat_server import ChatServer, chat_server
from headless_chromium import SLOW_IN_CHROMIUM, Page
from served import SILENCE, TEXT, OfflineModel, limited, sun, wav
from served_page import STATE, drop, reload, serving, start_anew
from whispertide.server.options import TranslationAccess
from whispertide.translation.opening import open_translator

pytestmark = SLOW_IN_CHROMIUM

SECOND = "[...document.querySelectorAll('.paragraph .second')].map((line) => line.innerText).join(' ')"
LISTEN = """(() => {
  const { send } = WebSocket.prototype;
  window.said = [];
  WebSocket.prototype.send = function (data) { said.push(data); send.call(this, data); };
})()"""


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with chat_server() as chat:
        yield chat


@pytest.fixture
def translating(browser: Page, chat: ChatServer) -> Iterator[Page]:
    """The page of a server that translates, ready."""
    access = TranslationAccess(open_translator(chat.url, "llm"), ("fr", "de"), corrects=True)
    browser.complaints.clear()
    with serving(replace(limited(), translation=access), OfflineModel()) as address:
        browser.go(address)
        browser.wait(f"{STATE} === 'ready'")
        yield browser
        start_anew(browser)
    assert not browser.complaints


def plain(text: str) -> list[str]:
    return [word.strip(" ,.!").lower() for word in text.replace("French: ", "").replace("German: ", "").split()]


def test_translations_stand_under_their_paragraphs_and_survive_a_reload(translating: Page) -> None:
    drop(translating, wav(11))
    translating.wait(f"{SECOND}.toLowerCase().includes('w11')")
    assert plain(str(translating.evaluate(SECOND))) == TEXT
    assert translating.evaluate("document.querySelector('.second span').lang") == "fr"
    assert "W11" in str(translating.evaluate("document.querySelector('#big-second').textContent")).upper()
    reload(translating)
    assert plain(str(translating.evaluate(SECOND))) == TEXT


def test_the_user_chooses_the_language_or_none(translating: Page) -> None:
    translating.click("#settings-open")
    options = "[...document.querySelector('[name=second]').options].map((option) => option.text)"
    assert translating.evaluate(options) == ["None", "French", "German", "Corrected"]
    translating.evaluate("document.getElementById('settings').close()")
    translating.evaluate(LISTEN)
    for chosen, asked in (("de", {"translate_to": "de"}), ("corrected", {"correct": True}), ("", {})):
        translating.evaluate(f"""(() => {{
          const field = document.querySelector("[name=second]");
          field.value = {chosen!r};
          field.dispatchEvent(new Event("change", {{ bubbles: true }}));
          said.length = 0;
        }})()""")
        drop(translating, wav(2))
        translating.wait(f"said.length && {STATE} === 'ready'")
        start = json.loads(str(translating.evaluate("said.find((data) => String(data).includes('\"start\"'))")))
        assert {key: start[key] for key in start.keys() & {"translate_to", "correct"}} == asked


def test_without_a_translator_there_is_nothing_to_choose(tab: Page) -> None:
    tab.click("#settings-open")
    assert not tab.evaluate("document.querySelector('[name=second]').checkVisibility()")
    tab.evaluate("document.getElementById('settings').close()")


def test_whoever_watches_reads_the_newest_translation(translating: Page) -> None:
    address = str(translating.evaluate("location.href"))
    with connect(address.replace("http", "ws") + "ws", proxy=None) as socket:
        socket.send('{"type":"start","translate_to":"fr"}')
        while (message := json.loads(socket.recv()))["type"] != "session":
            pass
        made = httpx.post(f"{address}v1/watch", json={"session": message["session"]}, trust_env=False).json()
        translating.go(address + made["path"])
        for _ in range(11):
            socket.send(SILENCE)
        socket.send('{"type":"finish"}')
        translating.wait("document.querySelector('#text .second')?.innerText.toLowerCase().includes('w11')")
        assert translating.evaluate("document.getElementById('text').lastChild.className") == "second"
    translating.go(address)
    translating.wait(f"{STATE} === 'ready'")


def test_whoever_watches_channels_reads_whose_sentence_it_is(translating: Page) -> None:
    address = str(translating.evaluate("location.href"))
    with connect(address.replace("http", "ws") + "ws?multichannel=true&channels=2", proxy=None) as socket:
        socket.send('{"type":"start","translate_to":"fr"}')
        sessions: list[str] = []
        while len(sessions) < 2:
            if (message := json.loads(socket.recv()))["type"] == "session":
                sessions.append(message["session"])
        made = httpx.post(f"{address}v1/watch", json={"session": sessions}, trust_env=False).json()
        translating.go(address + made["path"])
        for _ in range(11):
            socket.send(2 * SILENCE)
        socket.send('{"type":"finish"}')
        translating.wait("/^Speaker [12]: French: .*W11/.test(document.querySelector('#text .second')?.innerText)")
    translating.go(address)
    translating.wait(f"{STATE} === 'ready'")


def test_a_file_that_the_server_reads_is_translated_as_well(translating: Page) -> None:
    drop(translating, sun(3))
    translating.wait(f"{SECOND}.includes('French: WORD0')")
