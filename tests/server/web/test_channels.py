"""The channels of a microphone apart: a session each, a line each, in a real Chromium with a device that has two."""

import json
import re
import wave
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from websockets.sync.client import connect

from chat_server import chat_server
from headless_chromium import SLOW_IN_CHROMIUM, Page, page
from served import TEXT, OfflineModel, limited
from served_page import FAKE_MICROPHONE, STATE, reload, serving, start_anew
from whispertide.server.options import TranslationAccess
from whispertide.translation.opening import open_translator

pytestmark = SLOW_IN_CHROMIUM

RATE = 48_000
LINES = "[...document.querySelectorAll('#transcript .paragraph')]"
SAID = f"{LINES}.map((row) => [row.querySelector('input.voice').value, row.querySelector('p').innerText.toLowerCase()])"
SECOND = (
    f"{LINES}.map((row) => [row.querySelector('input.voice').value, row.querySelector('.second')?.innerText ?? ''])"
)
BIG_SECOND = "document.getElementById('big-second').textContent"
KEPT_SOCKETS = """(() => {
  window.sockets = [];
  window.WebSocket = class extends WebSocket { constructor(...all) { super(...all); sockets.push(this); } };
})()"""
# `loud`: of each session, in the order in which they were begun, the loudest sample that it was given.
WATCHED = """import("/socket.js").then(({ LiveSession }) => {
  window.loud = new Map();
  const { push } = LiveSession.prototype;
  LiveSession.prototype.push = function (samples) {
    loud.set(this, Math.max(loud.get(this) ?? 0, ...samples.map(Math.abs)));
    push.call(this, samples);
  };
})"""


@pytest.fixture(scope="module")
def stereo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tone on the left, nothing on the right."""
    path = tmp_path_factory.mktemp("device") / "stereo.wav"
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(10 * RATE) / RATE)
    with wave.open(str(path), "wb") as file:
        file.setparams((2, 2, RATE, 0, "NONE", ""))
        file.writeframes((np.stack([tone, np.zeros_like(tone)], axis=1) * 32_767).astype("<i2").tobytes())
    return path


@pytest.fixture(scope="module")
def interface(stereo: Path) -> Iterator[Page]:
    with page(*FAKE_MICROPHONE, f"--use-file-for-fake-audio-capture={stereo}") as opened:
        yield opened


@pytest.fixture
def apart(interface: Page, address: str) -> Iterator[Page]:
    """The page, ready, with two channels chosen. Afterwards: nothing went wrong inside."""
    interface.complaints.clear()
    interface.go(address)
    interface.wait(f"{STATE} === 'ready'")
    choose(interface, 2)
    interface.evaluate(WATCHED)
    yield interface
    start_anew(interface)
    assert not interface.complaints


def choose(tab: Page, count: int) -> None:
    tab.evaluate(f"""(() => {{
      const select = document.querySelector('[name=channels]');
      select.value = '{count}';
      select.dispatchEvent(new Event('change', {{ bubbles: true }}));
    }})()""")


def said(tab: Page, lines: str = SAID) -> dict[str, list[str]]:
    """The words of each speaker, in the order of their lines."""
    words = defaultdict[str, list[str]](list)
    for name, text in tab.evaluate(lines):
        words[name] += plain(text)
    return dict(words)


def plain(text: str) -> list[str]:
    for mark in (",", ".", "!", "French: "):
        text = text.replace(mark, "")
    return text.lower().split()


def shared(tab: Page) -> str:
    """Make an address to watch."""
    tab.click("#share-show")
    tab.click("#share-open")
    tab.wait("Boolean(document.querySelector('#share-code svg'))")
    tab.evaluate("document.getElementById('share').close()")
    return str(tab.evaluate("document.getElementById('share-address').value"))


def name_second(tab: Page, text: str) -> None:
    """Type the name of the second speaker."""
    tab.evaluate(f"""(() => {{
      const field = document.querySelector('input[data-speaker="2"]');
      field.value = {text!r};
      field.dispatchEvent(new Event("change", {{ bubbles: true }}));
    }})()""")


def test_each_channel_is_a_speaker_with_a_line_of_its_own_also_after_a_reload(apart: Page) -> None:
    apart.click("#record")
    apart.wait(f"document.querySelectorAll('.word').length === {2 * len(TEXT)}")
    apart.click("#record")
    apart.wait(f"{STATE} === 'ready'")
    assert said(apart) == {"Speaker 1": TEXT, "Speaker 2": TEXT}
    left, right = apart.evaluate("[...loud.values()]")
    assert left > 5_000
    assert right < 50
    reload(apart)
    assert said(apart) == {"Speaker 1": TEXT, "Speaker 2": TEXT}
    assert apart.evaluate("document.querySelector('[name=channels]').value") == "2"


def test_a_connection_that_breaks_costs_one_channel_no_word(apart: Page) -> None:
    apart.evaluate(KEPT_SOCKETS)
    apart.click("#record")
    apart.wait("document.querySelectorAll('.word').length > 6")
    apart.evaluate("sockets[1].close()")
    apart.wait(f"sockets.length === 3 && document.querySelectorAll('.word').length === {2 * len(TEXT)}")
    apart.click("#record")
    apart.wait(f"{STATE} === 'ready'")
    assert said(apart) == {"Speaker 1": TEXT, "Speaker 2": TEXT}


def test_a_microphone_with_fewer_channels_says_so(apart: Page) -> None:
    choose(apart, 8)
    apart.click("#record")
    apart.wait("document.getElementById('problem-title').checkVisibility()")
    assert apart.text("#problem-title") == "The microphone has too few channels"
    assert apart.text("#problem-text").startswith("It has 2; the settings ask for 8.")
    apart.wait(f"{STATE} === 'ready'")


def test_each_channel_has_a_second_line_and_viewers_read_all_with_the_names_that_were_typed(interface: Page) -> None:
    interface.complaints.clear()
    with chat_server() as chat:
        access = TranslationAccess(open_translator(chat.url, "llm"), ("fr",))
        with serving(replace(limited(), translation=access), OfflineModel()) as address:
            interface.go(address)
            interface.wait(f"{STATE} === 'ready'")
            choose(interface, 2)
            url = shared(interface)
            interface.evaluate(KEPT_SOCKETS)
            interface.click("#record")
            interface.wait("document.querySelectorAll('.word').length > 6")
            name_second(interface, "Bo")
            interface.evaluate("sockets[1].close()")  # what comes back is the same session, and has the same names
            interface.wait(f"sockets.length === 3 && document.querySelectorAll('.word').length === {2 * len(TEXT)}")
            interface.click("#record")
            interface.wait(f"{STATE} === 'ready'")
            assert said(interface) == said(interface, SECOND) == {"Speaker 1": TEXT, "Bo": TEXT}
            assert re.match("(Speaker 1|Bo): French: ", interface.evaluate(BIG_SECOND))
            late_viewer_reads_both(url)
            reload(interface)
            assert said(interface, SECOND) == {"Speaker 1": TEXT, "Bo": TEXT}
            start_anew(interface)
    assert not interface.complaints


def late_viewer_reads_both(url: str) -> None:
    with connect(url.replace("http", "ws", 1), proxy=None) as socket:
        read = json.loads(socket.recv())
    assert read["names"] == {"1": "Speaker 1", "2": "Bo"}
    assert "W11" in read["second"]
    assert read["second_speaker"] in (1, 2)
    words = defaultdict[int, list[str]](list)
    for speaker, line in zip(read["speakers"], read["text"].split("\n"), strict=True):
        words[speaker] += plain(line)
    for speaker in (1, 2):
        assert words[speaker][-3:] == TEXT[-3:]
        assert words[speaker] == TEXT[-len(words[speaker]) :], "what was said before anybody could read it is not shown"
