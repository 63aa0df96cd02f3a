"""Starting and stopping: prompts that stay open, devices that go, sound that sleeps, and what the page says of it."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from headless_chromium import SLOW_IN_CHROMIUM, Page
from served import OfflineModel, limited, sun, wav
from served_page import STATE, drop, drop_all, serving, start_anew
from whispertide.server.app import make_app
from whispertide.server.hub import Hub

pytestmark = SLOW_IN_CHROMIUM

IDLE = f"{STATE} === 'ready' && !document.querySelector('#record.running')"
# `stream`: what the page was given. `session`: what it has with the server, which never ends by itself.
WATCHED = """import("/socket.js").then(({ LiveSession }) => {
  const { getUserMedia } = navigator.mediaDevices;
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    window.wanted = wanted;
    return (window.stream = await getUserMedia.call(navigator.mediaDevices, wanted));
  };
  const { addEventListener } = LiveSession.prototype;
  LiveSession.prototype.addEventListener = function (...given) {
    window.session = this;
    addEventListener.apply(this, given);
  };
})"""
# The worklet loads when a test calls `load`.
LATE_WORKLET = """(() => {
  const { addModule } = AudioWorklet.prototype;
  AudioWorklet.prototype.addModule = async function (url) {
    await new Promise((resolve) => (window.load = resolve));
    return addModule.call(this, url);
  };
})()"""
# How many locks hold the screen.
LOCKS = """(() => {
  window.locks = 0;
  const request = async () => (locks++, { release: async () => locks-- });
  Object.defineProperty(navigator, "wakeLock", { value: { request } });
})()"""
SILENT = "stream.getTracks().every(({ readyState }) => readyState === 'ended')"


@pytest.fixture
def watched(tab: Page) -> Page:
    tab.evaluate(WATCHED)
    return tab


@pytest.fixture
def live(watched: Page) -> Page:
    watched.press("r")
    watched.wait(f"{STATE} === 'live' && document.querySelectorAll('.word').length >= 3")
    return watched


def told(tab: Page, kind: str, detail: dict[str, object]) -> None:
    """As if the session had said so."""
    tab.evaluate(f"session.dispatchEvent(new CustomEvent({kind!r}, {{ detail: {json.dumps(detail)} }})), 0")


def test_stop_while_the_browser_asks(tab: Page) -> None:
    tab.evaluate("""(() => {
      const { getUserMedia } = navigator.mediaDevices;
      const answer = new Promise((resolve) => (window.allow = resolve));
      navigator.mediaDevices.getUserMedia = async (wanted) => {
        window.asked = true;
        await answer;
        return (window.stream = await getUserMedia.call(navigator.mediaDevices, wanted));
      };
    })()""")
    tab.press("r")
    tab.wait("window.asked")
    tab.press("r")
    tab.wait(IDLE)
    tab.evaluate("allow()")
    tab.wait(f"window.stream && {SILENT}")
    assert tab.evaluate(IDLE)


@pytest.fixture
def unreached(browser: Page, address: str) -> Iterator[Page]:
    """The page, which could not reach the server at first: whatever is begun now asks again before."""
    away = """window.WebSocket = class extends WebSocket {
      static isAway = true;
      constructor(...given) {
        if (!window.WebSocket.isAway) return super(...given);
        const none = { close() {} };
        setTimeout(() => none.onclose());
        return none;
      }
    }"""
    script = browser.command("Page.addScriptToEvaluateOnNewDocument", source=away)
    try:
        browser.go(address)
        browser.wait(f"{STATE} === 'off'")
    finally:
        browser.command("Page.removeScriptToEvaluateOnNewDocument", **script)
    browser.evaluate("WebSocket.isAway = false")
    yield browser
    start_anew(browser)


def test_stop_before_the_sound_has_started(tab: Page) -> None:
    """The worklet still loads, and the sound that it would be for is closed: nothing is wrong with the server."""
    tab.evaluate(LATE_WORKLET)
    tab.click("#record")
    tab.wait(f"{STATE} === 'live' && Boolean(window.load)")
    tab.click("#record")
    tab.wait(IDLE)
    tab.evaluate("load()")
    tab.evaluate("new Promise((resolve) => setTimeout(resolve, 100))")
    assert tab.evaluate(IDLE)
    assert not tab.evaluate("document.querySelector('#problem').checkVisibility()")


def test_two_starts_while_the_server_is_asked_are_one(unreached: Page) -> None:
    """Whoever presses twice has one microphone open, and one session."""
    unreached.evaluate("""(() => {
      const { getUserMedia } = navigator.mediaDevices;
      window.asked = 0;
      navigator.mediaDevices.getUserMedia = (wanted) => (asked++, getUserMedia.call(navigator.mediaDevices, wanted));
      for (let press = 0; press < 2; press++) document.getElementById("record").click();
    })()""")
    unreached.wait(f"{STATE} === 'live' && document.querySelectorAll('.word').length >= 3")
    assert unreached.evaluate("asked") == 1


def test_of_two_files_while_the_server_is_asked_the_first_is_read(unreached: Page) -> None:
    unreached.evaluate("window.drops = [], window.dispatchEvent = (event) => drops.push(event), 0")
    drop(unreached, wav(12))
    drop(unreached, wav(5))
    unreached.evaluate("delete window.dispatchEvent, drops.forEach((event) => dispatchEvent(event))")
    unreached.wait(f"document.querySelectorAll('.word').length >= 5 && {IDLE}")
    assert unreached.evaluate("document.querySelectorAll('.word').length") == 12


def test_the_microphone_that_was_chosen_also_after_a_reload(watched: Page, address: str) -> None:
    """One that is not there any more is no obstacle."""
    watched.evaluate("localStorage.setItem('whispertide', JSON.stringify({ microphone: 'of-yesterday' }))")
    watched.go(address)
    watched.wait(f"{STATE} === 'ready'")
    watched.evaluate(WATCHED)
    watched.press("r")
    watched.wait(f"{STATE} === 'live'")
    assert watched.evaluate("wanted.audio.deviceId") == "of-yesterday"


def test_a_microphone_that_is_unplugged(live: Page) -> None:
    live.evaluate("stream.getTracks()[0].dispatchEvent(new Event('ended'))")
    live.wait(IDLE)
    assert live.text("#problem-title") == "The microphone was disconnected"
    assert live.evaluate("document.querySelectorAll('.word').length") >= 3
    live.click("#problem-action")
    live.wait(f"{STATE} === 'live'")


def test_sound_that_went_to_sleep_is_woken(tab: Page) -> None:
    tab.evaluate("""window.AudioContext = class extends AudioContext {
      constructor() { super(); window.context = this; }
    }, 0""")
    tab.press("r")
    tab.wait(f"{STATE} === 'live' && window.context?.state === 'running'")
    tab.evaluate("context.suspend()")
    tab.wait("context.state === 'running'")


def test_the_screen_stays_on_when_the_page_is_seen_again(tab: Page) -> None:
    tab.evaluate(LOCKS)
    tab.press("r")
    tab.wait("window.locks === 1")
    tab.evaluate("window.locks = 0, document.dispatchEvent(new Event('visibilitychange')), 0")  # it was taken back
    tab.wait("window.locks === 1")
    tab.press("r")
    tab.wait(f"{IDLE} && locks === 0")


def test_the_screen_is_asked_for_once_where_the_sound_starts_late(tab: Page) -> None:
    """Of two locks the first would stay when the recording is over."""
    tab.evaluate(LATE_WORKLET)
    tab.evaluate(LOCKS)
    tab.press("r")
    tab.wait(f"{STATE} === 'live' && Boolean(window.load)")
    tab.evaluate("document.dispatchEvent(new Event('visibilitychange')), load()")
    tab.wait("locks > 0 && document.getElementById('record').style.getPropertyValue('--level') !== '0'")  # it is heard
    tab.press("r")
    tab.wait(IDLE)
    assert tab.evaluate("locks") == 0


def test_another_session_of_the_server_has_voices_of_its_own(live: Page) -> None:
    """It was too long, or the server lost it: nobody knows who its first voice is. One that is resumed is the same."""

    def heard(text: str, at: float) -> None:
        word = {"text": text, "start": at, "end": at + 0.5, "probability": 1, "speaker": 1}
        told(live, "event", {"type": "confirmed", "at": at + 1, "words": [word]})

    heard(" Hello.", 60)
    live.evaluate("""(() => {
      const field = document.querySelector("input.voice");
      field.value = "Ann";
      field.dispatchEvent(new Event("change", { bubbles: true }));
    })()""")
    told(live, "state", {"state": "live"})
    heard(" Again.", 70)
    live.evaluate("session.details = { ...session.details, session: 'another' }, 0")
    told(live, "state", {"state": "live"})
    heard(" Hi.", 80)
    names = live.evaluate("[...document.querySelectorAll('input.voice')].map(({ value }) => value)")
    assert names == ["Ann", "Ann", "Speaker 2"]


def test_sound_is_shared_only_where_browsers_can(tab: Page) -> None:
    can = "import('/microphone.js').then(({ canShareSound }) => canShareSound())"
    assert tab.evaluate(can)
    tab.evaluate("navigator.mediaDevices.getSupportedConstraints = () => ({ echoCancellation: true }), 0")
    assert not tab.evaluate(can)


def test_after_stop_nobody_listens(live: Page) -> None:
    live.evaluate("session.finish = () => 0")  # the last words take long
    live.press("r")
    told(live, "event", {"type": "lag", "at": 1, "behind": 6})
    assert live.text("#status-text") == "Finishing"
    told(live, "state", {"state": "away"})
    assert live.text("#status-text") == "Reconnecting: nothing is lost"


def test_a_new_transcript_begins_at_0(live: Page) -> None:
    live.evaluate("window.confirm = () => true")
    live.click("#clear")
    live.wait(SILENT)
    assert live.text("#time") == "0:00"


def test_one_flash_after_another(live: Page) -> None:
    live.press("r")
    live.wait(IDLE)
    state = live.text("#status-text")
    live.evaluate("navigator.clipboard.writeText = async () => 0")
    live.press("c")
    live.wait("document.getElementById('status-text').textContent === 'Copied'")
    live.click("#theme")
    assert live.text("#status-text").startswith("Appearance")
    live.wait(f"document.getElementById('status-text').textContent === {state!r}")


def test_copying_without_a_clipboard(live: Page) -> None:
    """Behind the big captions nothing can be selected."""
    live.evaluate("navigator.clipboard.writeText = async () => { throw new Error() }")
    live.evaluate("document.execCommand = () => (window.selected = document.activeElement.value, window.works)")
    live.press("b")
    for works, text in ((True, "Copied"), (False, "The browser does not allow copying")):
        live.evaluate(f"window.works = {json.dumps(works)}")
        live.press("c")
        live.wait(f"document.getElementById('status-text').textContent === {text!r}")
        assert "w0" in live.evaluate("selected").lower()


def test_the_language_of_the_words(live: Page) -> None:
    spoken = "['transcript', 'log', 'big-text'].map((id) => document.getElementById(id).lang)"
    assert live.evaluate(spoken) == ["en"] * 3  # the settings'
    told(live, "event", {"type": "language", "at": 1, "language": "ar"})
    assert live.evaluate(spoken) == ["ar"] * 3
    texts = "[...document.querySelectorAll('.paragraph p, #log p, #big-text')].map(({ dir }) => dir)"
    assert set(live.evaluate(texts)) == {"auto"}


def test_a_weak_guess_of_the_language_is_told(live: Page) -> None:
    told(live, "event", {"type": "language", "at": 1, "language": "el", "probability": 0.5})
    assert live.evaluate("document.getElementById('problem').hidden")
    told(live, "event", {"type": "language", "at": 1, "language": "el", "probability": 0.43})
    assert live.text("#problem-title") == "The language is uncertain"
    assert live.text("#problem-text").startswith("Greek, 43 %.")


@pytest.mark.parametrize(("seconds", "words", "probability", "hint"), [
    (6, 5, 0.6, True),
    (5.9, 5, 0.6, False),  # too little voice to judge by
    (6, 30, 0.6, False),
    (6, 30, 0.4, True),
    (6, 0, 0.0, True),
])  # fmt: skip
def test_a_model_of_english_says_that_it_may_be_another_language(
    tab: Page, seconds: float, words: int, probability: float, hint: bool
) -> None:
    """By the bounds of the command line, and once; a pause is no voice."""
    word = {"text": " so", "start": 0, "end": 1, "probability": probability}
    events: list[dict[str, object]] = [
        {"type": "speech_start", "at": 1, "start": 0},
        {"type": "speech_stop", "at": 1, "end": 1},
        {"type": "confirmed", "at": 2, "words": [word] * words},
        {"type": "speech_start", "at": 60, "start": 60},
        {"type": "lag", "at": 59 + seconds, "behind": 0, "level": 0},
        {"type": "lag", "at": 59 + seconds, "behind": 0, "level": 0},
    ]
    told = tab.evaluate(f"""import("/hints.js").then(({{ Hints }}) => {{
      const hints = new Hints({{ name: "tiny.en", languages: ["en"] }});
      return {json.dumps(events)}.map((event) => hints.take(event)?.kind ?? null);
    }})""")
    assert told == [None] * 4 + ["only-english" if hint else None, None]


def test_of_other_models_nothing_is_said(tab: Page) -> None:
    told = tab.evaluate("""import("/hints.js").then(({ Hints }) => {
      const hints = new Hints({ name: "base", languages: ["de", "en"] });
      const voice = [{ type: "speech_start", at: 1, start: 0 }, { type: "lag", at: 60 }];
      return voice.map((event) => hints.take(event));
    })""")
    assert told == [None, None]


# --- files -----------------------------------------------------------------------------------------------------------


def test_of_a_file_screen_readers_hear_little(tab: Page) -> None:
    tab.evaluate("""window.said = [], new MutationObserver(() =>
      said.push(document.getElementById("status-text").textContent)
    ).observe(document.getElementById("status-text"), { childList: true })""")
    drop(tab, wav(12))
    tab.wait(f"document.querySelectorAll('.word').length === 12 && {IDLE}")
    shares = {text.split(", ")[1] for text in tab.evaluate("said") if "%" in text}
    assert shares <= {"0 %", "25 %", "50 %", "75 %", "100 %"}
    drop(tab, sun(12))
    tab.wait(f"document.querySelectorAll('.word').length > 12 && {IDLE}")
    assert tab.evaluate("document.getElementById('log').lastChild.textContent") == "The recording is transcribed"


def test_several_files_are_read_one_after_another(tab: Page) -> None:
    """One by the browser, one by the server, and one that is none, which is named."""
    drop_all(tab, {"first.wav": wav(12), "second.au": sun(12), "list.txt": b"no sound", "last.wav": wav(12)})
    tab.wait(f"document.querySelectorAll('.word').length === 12 + 24 + 12 && {IDLE}")
    assert tab.text("#problem-title") == "Not transcribed: list.txt"
    assert "no sound" in tab.text("#problem-text")
    assert tab.evaluate("document.getElementById('chooser').multiple")


def test_a_folder_is_no_recording_and_the_next_file_is_read(tab: Page, tmp_path: Path) -> None:
    folder, talk = tmp_path / "talks", tmp_path / "talk.wav"
    folder.mkdir()
    talk.write_bytes(wav(12))
    chooser = tab.command("Runtime.evaluate", expression="document.getElementById('chooser')")["result"]["objectId"]
    tab.command("DOM.setFileInputFiles", files=[str(folder), str(talk)], objectId=chooser)
    tab.wait(f"document.querySelectorAll('.word').length === 12 && {IDLE}")
    assert tab.text("#problem-title") == "Not transcribed: talks"
    assert "It is a folder" in tab.text("#problem-text")


def test_what_the_server_reads_is_kept_with_its_language_and_as_a_whole(tab: Page) -> None:
    """As in the files of the command line (docs/reference/cli.md): no recipe has a part in it."""
    drop(tab, sun(12))
    tab.wait(f"document.querySelectorAll('.word').length === 24 && {IDLE}")
    tab.evaluate("dispatchEvent(new Event('pagehide')), 0")
    kept = json.loads(tab.evaluate("sessionStorage.getItem('whispertide.transcript')"))
    assert (kept["about"]["recipe"], kept["transcript"]["language"]) == ("offline", "en")


def test_whoever_stops_reading_stops_it_for_all_files(tab: Page) -> None:
    tab.evaluate("window.fetch = () => new Promise(() => 0)")
    drop_all(tab, {"first.au": sun(12), "second.wav": wav(12)})
    status = "The server is transcribing the file, then 1 more"
    tab.wait(f"document.getElementById('status-text').textContent === {status!r}")
    tab.click("#record")
    tab.wait(IDLE)
    assert tab.evaluate("document.querySelectorAll('.word').length") == 0


def test_after_a_server_that_was_full_all_that_is_left_is_read(tab: Page) -> None:
    tab.evaluate("""window.asked = fetch, window.fetch = async () => new Response("{}", { status: 503 })""")
    drop_all(tab, {"first.au": sun(12), "second.wav": wav(12)})
    tab.wait("document.querySelector('#problem-title').innerText === 'The server is full'")
    tab.evaluate("window.fetch = asked")
    tab.click("#problem-action")
    tab.wait(f"document.querySelectorAll('.word').length === 24 + 12 && {IDLE}")


def test_the_page_below_a_path_of_a_proxy(browser: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for nothing outside of it, live or for files."""

    def below(hub: Hub) -> Starlette:
        app = make_app(hub)
        return Starlette(routes=[Mount("/speech", app)], lifespan=app.router.lifespan_context)

    monkeypatch.setattr("whispertide.server.serving.make_app", below)
    with serving(model=OfflineModel()) as address:
        browser.requests.clear()
        browser.go(f"{address}speech/")
        browser.wait(f"{STATE} === 'ready'")
        drop_all(browser, {"first.wav": wav(12), "second.au": sun(12)})
        browser.wait(f"document.querySelectorAll('.word').length === 12 + 24 && {IDLE}")
        asked = [url.partition("://")[2] for url in browser.requests if not url.startswith(("blob:", "data:"))]
        browser.go(f"{address}speech/docs")
        assert browser.evaluate("document.styleSheets[0].cssRules.length")
        assert browser.evaluate("document.querySelector('a').href") == f"{address}speech/openapi.json"
    below_it = f"{address.partition('://')[2]}speech/"
    assert all(url.startswith(below_it) for url in asked)
    assert {f"{below_it}ws", f"{below_it}v1/audio/transcriptions"} <= set(asked)


def test_long_files_are_left_to_the_server(tab: Page) -> None:
    """Decoded, an hour has 230 MB for each channel. The page knows how long a file is before it decodes it."""
    head = base64.b64encode(wav(0, 4_000, promised=8_000 * 3_601)).decode()
    tab.evaluate(f"""(() => {{
      const head = Uint8Array.from(atob({head!r}), (c) => c.charCodeAt(0));
      const transfer = new DataTransfer();
      transfer.items.add(new File([head, new Uint8Array(8000 * 3601)], "talk.wav"));
      window.fetch = () => new Promise(() => 0);
      dispatchEvent(new DragEvent("drop", {{ dataTransfer: transfer, cancelable: true }}));
    }})()""")
    tab.wait("document.getElementById('status-text').textContent === 'The server is transcribing the file'")


@pytest.fixture
def strict(browser: Page) -> Iterator[Page]:
    with serving(limited(upload_s=5), OfflineModel()) as address:
        browser.go(address)
        browser.wait(f"{STATE} === 'ready'")
        yield browser


def test_a_file_that_is_too_long_for_the_server(strict: Page) -> None:
    drop(strict, sun(12))
    strict.wait("document.querySelector('#problem-title').innerText === 'This file is too large or too long'")
    assert "at most 5 s" in strict.text("#problem-text")


REFUSED = """(() => {
  const { fetch } = window;
  const body = JSON.stringify({ error: { message: "expected key terms of at most 100 characters", code: null } });
  window.fetch = (url, asked) =>
    String(url).includes("v1/audio") ? Promise.resolve(new Response(body, { status: 400 })) : fetch(url, asked);
})()"""


def test_what_a_server_refuses_is_told_in_its_words(tab: Page) -> None:
    tab.evaluate(REFUSED)
    drop(tab, sun(12))
    tab.wait("document.querySelector('#problem-text').innerText.includes('key terms of at most 100 characters')")
    assert "no sound" not in tab.text("#problem-title")
