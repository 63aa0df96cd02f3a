"""The page to watch, and the part of the live page that makes its address, in a real Chromium."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from headless_chromium import SLOW_IN_CHROMIUM, Page
from served import SILENCE, TEXT
from served_page import STATE
from whispertide.server.captions import Captions

pytestmark = SLOW_IN_CHROMIUM

SHOWN = "document.getElementById('text').innerText.toLowerCase()"
KEPT_SOCKETS = """
  window.sockets = [];
  window.WebSocket = class extends WebSocket { constructor(...all) { super(...all); sockets.push(this); } };
"""


class Speaker:
    """A session that speaks at an address to watch."""

    def __init__(self, address: str, socket: Connection) -> None:
        self.address = address
        self.socket = socket
        self.made: dict[str, Any] = {}

    def start(self) -> None:
        """Open the session and let it speak at its address."""
        self.socket.send('{"type":"start"}')
        while (message := json.loads(self.socket.recv()))["type"] != "session":
            pass
        asked = {"session": message["session"], "secret": self.made.get("secret")}
        self.made = httpx.post(f"{self.address}v1/watch", json=asked, trust_env=False).json()

    def say(self, seconds: int) -> None:
        for _ in range(seconds):
            self.socket.send(SILENCE)

    @property
    def url(self) -> str:
        return self.address + str(self.made["path"])


@contextmanager
def speaking(address: str) -> Iterator[Speaker]:
    with connect(address.replace("http", "ws") + "ws", proxy=None) as socket:
        speaker = Speaker(address, socket)
        speaker.start()
        yield speaker


@pytest.fixture
def viewer(browser: Page) -> Iterator[Page]:
    """A tab; afterwards: nothing went wrong inside."""
    browser.complaints.clear()
    yield browser
    browser.command("Emulation.clearDeviceMetricsOverride")
    assert not browser.complaints


def words(tab: Page) -> list[str]:
    return [word.strip(" ,.!").lower() for word in str(tab.evaluate(SHOWN)).split()]


def colour(tab: Page, selector: str, name: str) -> str:
    return str(tab.evaluate(f"getComputedStyle(document.querySelector({selector!r})).{name}"))


def test_a_phone_reads_along_and_joins_late(viewer: Page, address: str) -> None:
    viewer.size(390, 844, mobile=True)
    with speaking(address) as speaker:
        speaker.say(6)
        viewer.go(speaker.url)
        viewer.wait(f"{SHOWN}.includes('w3')")
        assert viewer.evaluate("document.documentElement.scrollWidth") == 390
        speaker.say(5)
        speaker.socket.send('{"type":"finish"}')
        pausing = "document.getElementById('state').textContent === 'The speaker is pausing'"
        viewer.wait(f"{SHOWN}.includes('w11') && {pausing}")
        assert words(viewer) == TEXT
        assert viewer.evaluate("document.querySelectorAll('#text p').length") == 3, "a paragraph after each pause"
        before = viewer.evaluate("parseFloat(getComputedStyle(document.getElementById('window')).fontSize)")
        viewer.click("#larger")
        assert viewer.evaluate("parseFloat(getComputedStyle(document.getElementById('window')).fontSize)") > before
        viewer.evaluate("localStorage.clear()")


def test_an_overlay_is_captions_and_nothing_else(viewer: Page, address: str) -> None:
    viewer.size(1920, 1080)
    with speaking(address) as speaker:
        viewer.go(f"{speaker.url}?background=transparent&lines=2&size=1.5&text=ffe000&position=top&align=center")
        speaker.say(6)
        viewer.wait(f"{SHOWN}.includes('w3')")
        for part in ("html", "body", "#window"):
            assert colour(viewer, part, "backgroundColor") == "rgba(0, 0, 0, 0)", part
        assert colour(viewer, ".line", "color") == "rgb(255, 224, 0)"
        assert colour(viewer, ".line", "backgroundColor") == "rgba(0, 0, 0, 0.72)"
        assert colour(viewer, "footer", "display") == "none"
        box = viewer.evaluate("document.getElementById('window').getBoundingClientRect().toJSON()")
        size = viewer.evaluate("parseFloat(getComputedStyle(document.getElementById('window')).fontSize)")
        assert size == 1.5 * 54
        assert abs(box["height"] - 2 * 1.44 * size) < 2
        assert box["top"] < 100
        viewer.go(f"{speaker.url}?background=transparent&plate=none&guess=none&lines=3&hide=1")
        viewer.wait("Boolean(document.querySelector('.bare .line'))")
        assert "w" in str(viewer.evaluate(SHOWN))
        assert viewer.evaluate("document.querySelector('.guess')?.textContent ?? ''") == ""
        viewer.wait("Boolean(document.querySelector('.gone'))")


def test_obs_shows_what_lies_below_by_itself(viewer: Page, address: str) -> None:
    script = viewer.command("Page.addScriptToEvaluateOnNewDocument", source="window.obsstudio = {}")
    try:
        with speaking(address) as speaker:
            viewer.go(speaker.url)
            viewer.wait("Boolean(document.querySelector('.strip'))")
            assert colour(viewer, "html", "backgroundColor") == "rgba(0, 0, 0, 0)"
    finally:
        viewer.command("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("lines=many", "expected lines from 1 to 20; got lines=many"),
        ("size=-1&background=transparent", "expected size from 0.3 to 5; got size=-1"),
        ("text=reddish", "expected text to be a colour such as ffe000 or white; got text=reddish"),
        ("position=left", "expected position among bottom, middle, top; got position=left"),
        ("fontsize=2", "expected options among text, guess,"),
    ],
)
def test_an_address_that_asks_for_nonsense_says_so(viewer: Page, address: str, query: str, told: str) -> None:
    viewer.go(f"{address}watch/any?{query}")
    assert told in viewer.text("#state")


def test_a_connection_that_breaks_costs_no_word(viewer: Page, address: str) -> None:
    script = viewer.command("Page.addScriptToEvaluateOnNewDocument", source=KEPT_SOCKETS)
    try:
        with speaking(address) as speaker:
            viewer.go(speaker.url)
            speaker.say(4)
            viewer.wait(f"{SHOWN}.includes('w1')")
            viewer.evaluate("sockets.at(-1).close()")
            speaker.say(7)
            speaker.socket.send('{"type":"finish"}')
            viewer.wait(f"sockets.length === 2 && {SHOWN}.includes('w11')")
            assert words(viewer) == TEXT
            answer = httpx.post(
                f"{address}v1/watch/end", json={"secret": speaker.made["secret"]}, trust_env=False
            ).json()
            assert answer == {"ended": True}
            viewer.wait("document.getElementById('state').textContent === 'The speaker has ended this address'")
            assert words(viewer) == TEXT, "what was read stays"
    finally:
        viewer.command("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])


def test_the_speaker_is_told_when_the_server_drops_their_address(tab: Page, address: str) -> None:
    tab.click("#share-show")
    tab.click("#share-open")
    tab.wait("Boolean(document.querySelector('#share-code svg'))")
    url = str(tab.evaluate("document.getElementById('share-address').value"))
    tab.evaluate("document.getElementById('share').close()")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Captions, "take", broken)
        tab.click("#record")
        tab.wait("document.getElementById('problem-title').checkVisibility()")
    assert tab.text("#problem-title") == "Viewers can no longer read the captions"
    assert tab.evaluate(f"{STATE}") == "live", "the captions go on"
    assert tab.evaluate("document.getElementById('share-show').getAttribute('aria-pressed')") == "false"
    tab.click("#share-show")
    tab.click("#share-open")
    tab.wait("document.getElementById('share-end').checkVisibility()")
    assert tab.evaluate("document.getElementById('share-address').value") == url, "viewers have it already"
    tab.click("#share-end")
    tab.wait("document.getElementById('share-open').checkVisibility()")
    tab.evaluate("document.getElementById('share').close()")


def broken(*_: object) -> bool:
    raise KeyError("a defect")


SLOWLY_MADE = """(() => {  // an address is asked for once more, and ended before the answer is there
  const { fetch } = window;
  const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  window.answered = 0;
  window.fetch = async (url, asked) => {
    const answer = await fetch(url, asked);
    if (String(url).endsWith("v1/watch")) await after(300);
    after(100).then(() => window.answered++);
    return answer;
  };
})()"""


def test_the_live_page_makes_an_address_and_ends_it(tab: Page, address: str) -> None:
    assert tab.evaluate("document.getElementById('share-show').getAttribute('aria-pressed')") == "false"
    tab.click("#share-show")
    assert not tab.evaluate("document.getElementById('share-made').checkVisibility()"), "nothing is shared before"
    tab.click("#share-open")
    tab.wait("Boolean(document.querySelector('#share-code svg'))")
    url = str(tab.evaluate("document.getElementById('share-address').value"))
    assert url.startswith(f"{address}watch/")
    assert tab.evaluate("document.getElementById('share-overlay').value") == f"{url}?background=transparent"
    assert tab.evaluate("document.getElementById('share-near').checkVisibility()"), "phones do not know localhost"
    assert tab.evaluate("document.getElementById('share-show').getAttribute('aria-pressed')") == "true"
    tab.evaluate("navigator.clipboard.writeText = async (text) => void (window.copied = text)")
    tab.click("[data-copies=share-address]")
    assert tab.evaluate("window.copied") == url
    tab.evaluate("document.getElementById('share').close()")
    with connect(url.replace("http", "ws"), proxy=None) as socket:
        for expected in ("w0", "w0"):  # two recordings, at one address
            tab.click("#record")
            text = ""
            while expected not in text.lower():
                text += json.loads(socket.recv(timeout=30))["text"]
            tab.click("#record")
            tab.wait(f"{STATE} === 'ready'")
    tab.evaluate(SLOWLY_MADE)
    tab.evaluate("for (const id of ['share-show', 'share-end']) document.getElementById(id).click()")
    tab.wait("window.answered === 2")
    tab.wait("document.getElementById('share-open').checkVisibility()")
    tab.evaluate("document.getElementById('share').close()")
    assert httpx.post(f"{address}v1/watch", json={}, trust_env=False).json()["path"] not in url
    assert tab.evaluate("sessionStorage.getItem('whispertide.watch')") is None
