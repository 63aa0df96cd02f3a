"""The channels of a microphone apart: a session each, a line each, in a real Chromium with a device that has two."""

import wave
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headless_chromium import SLOW_IN_CHROMIUM, Page, page
from served import TEXT
from served_page import FAKE_MICROPHONE, STATE, reload, start_anew

pytestmark = SLOW_IN_CHROMIUM

RATE = 48_000
LINES = "[...document.querySelectorAll('#transcript .paragraph')]"
SAID = f"{LINES}.map((row) => [row.querySelector('input.voice').value, row.querySelector('p').innerText.toLowerCase()])"
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


def said(tab: Page) -> dict[str, list[str]]:
    """The words of each speaker, in the order of their lines."""
    words = defaultdict[str, list[str]](list)
    for name, text in tab.evaluate(SAID):
        words[name] += text.replace(",", "").replace(".", "").replace("!", "").split()
    return dict(words)


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
    apart.evaluate("""(() => {
      window.sockets = [];
      window.WebSocket = class extends WebSocket { constructor(...all) { super(...all); sockets.push(this); } };
    })()""")
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
    assert apart.text("#problem-text").startswith("It has 2, and 8 were to be kept apart.")
    apart.wait(f"{STATE} === 'ready'")
