"""The words on the page: paragraphs, a reload, playing what was said, big captions, and a connection that goes."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from headless_chromium import SLOW_IN_CHROMIUM, Page
from served import wav
from served_page import STATE, drop, drop_all, reload

pytestmark = SLOW_IN_CHROMIUM

WORDS = "[...document.querySelectorAll('.word')]"
PARAGRAPHS = "[...document.querySelectorAll('.paragraph p')].map((p) => p.textContent)"


def heard(tab: Page, count: int = 3) -> None:
    """A recording by microphone goes on, and has some words."""
    tab.press("r")
    tab.wait(f"{WORDS}.length >= {count}")


def read(tab: Page) -> None:
    """A file of twelve words was read."""
    drop(tab, wav(12), "talk.wav")
    tab.wait(f"{WORDS}.length === 12 && {STATE} === 'ready'")


def paragraphs(tab: Page, spoken: Sequence[tuple[str, float, float]]) -> Any:
    """The paragraphs that words with these times (seconds) get."""
    words = [{"text": text, "start": round(16_000 * start), "end": round(16_000 * end)} for text, start, end in spoken]
    return tab.evaluate(f"""import("/captions.js").then(({{ Captions, element }}) => {{
      const parts = ["scroller", "list", "log", "big", "bigSecond", "jump"].map((name) => [name, element("div")]);
      const captions = new Captions(Object.fromEntries(parts));
      captions.add({json.dumps(words)});
      return [...captions.list.querySelectorAll(".paragraph p")].map((p) => p.textContent);
    }})""")


def test_paragraphs_begin_at_pauses(tab: Page) -> None:
    assert paragraphs(tab, [(" One.", 0, 1), (" Two.", 2, 3), (" Three", 5, 6)]) == ["One. Two.", "Three"]
    assert paragraphs(tab, [(" In", 0, 1), (" between", 3, 4), (" later", 7, 8)]) == ["In between", "later"]
    talk = [(f" {number}.", float(number), number + 0.9) for number in range(60)]  # somebody who does not pause
    assert len(paragraphs(tab, talk)) == 1
    talk = [(text, start + 0.5 * (start > 50), end + 0.5 * (start > 50)) for text, start, end in talk]
    assert [text.split()[0] for text in paragraphs(tab, talk)] == ["0.", "51."]  # a breath, but a long paragraph


@pytest.mark.parametrize("end", ["एक।", "ایک۔", "واحد؟", "一つ。」"])
def test_a_paragraph_ends_with_a_sentence_of_any_script(tab: Page, end: str) -> None:
    assert paragraphs(tab, [(f" {end}", 0, 1), (" two", 3, 4)]) == [end, "two"]


def test_a_paragraph_does_not_end_with_an_abbreviation(tab: Page) -> None:
    assert paragraphs(tab, [(" Mr.", 0, 1), (" Bean", 3, 4)]) == ["Mr. Bean"]


def test_the_language_of_one_recording_is_not_that_of_the_next(tab: Page) -> None:
    """Subtitles are cut by it."""
    language = tab.evaluate("""import("/transcript.js").then(({ Transcript }) => {
      const transcript = new Transcript();
      transcript.begin();
      transcript.take({ type: "language", at: 1, language: "ja" });
      transcript.begin(); // with a language that was chosen: none is detected
      return transcript.language;
    })""")
    assert language is None


def test_a_guess_that_came_to_nothing_leaves_no_paragraph(tab: Page) -> None:
    """And no time to the words that come later."""
    rows = tab.evaluate("""import("/captions.js").then(({ Captions, element }) => {
      const parts = ["scroller", "list", "log", "big", "bigSecond", "jump"].map((name) => [name, element("div")]);
      const captions = new Captions(Object.fromEntries(parts));
      const rows = () => [...captions.list.children].map(({ textContent }) => textContent);
      const guess = [{ text: " Hm", start: 16000 }];
      captions.showGuess(guess);
      const seen = [rows()];
      captions.showGuess([]);
      seen.push(rows());
      captions.showGuess(guess); // words follow at once
      captions.add([{ text: " Later", start: 960000, end: 970000 }]);
      captions.endTurn();
      return [...seen, rows()];
    })""")
    assert rows == [["0:01 Hm"], [], ["1:00Later"]]


def test_a_reload_keeps_the_transcript(tab: Page) -> None:
    heard(tab)
    tab.press("r")
    tab.wait(f"{STATE} === 'ready'")
    read_before = tab.evaluate(PARAGRAPHS)
    drop(tab, wav(12))
    tab.wait(f"{WORDS}.length >= 15 && {STATE} === 'ready'")
    before = tab.evaluate(PARAGRAPHS), tab.evaluate(f"{WORDS}.map((word) => word.dataset.tip)"), tab.text("#time")
    assert before[0][: len(read_before)] == read_before
    reload(tab)
    after = tab.evaluate(PARAGRAPHS), tab.evaluate(f"{WORDS}.map((word) => word.dataset.tip)"), tab.text("#time")
    assert after == before
    assert not tab.text("#log").strip()  # nobody hears it again
    assert not tab.evaluate("document.getElementById('save').disabled")
    tab.evaluate("window.confirm = () => true")
    tab.click("#clear")
    reload(tab)
    assert not tab.evaluate(f"{WORDS}.length")
    assert not tab.evaluate("document.getElementById('empty').hidden")


def test_what_another_version_kept_is_no_obstacle(tab: Page) -> None:
    tab.evaluate("sessionStorage.setItem('whispertide.transcript', '{\"transcript\": {\"lines\": [1]}}')")
    tab.evaluate("Storage.prototype.removeItem = () => 0")  # this page has no transcript
    reload(tab)
    assert not tab.evaluate("document.getElementById('empty').hidden")
    read(tab)


def test_a_transcript_that_is_too_long_to_be_kept_is_told(tab: Page) -> None:
    read(tab)
    tab.evaluate("Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError') }")
    tab.evaluate("dispatchEvent(new Event('pagehide')), 0")
    assert "too long to survive" in tab.text("#problem-title")
    tab.click("#problem-close")
    tab.evaluate("dispatchEvent(new Event('pagehide')), 0")
    assert tab.evaluate("document.getElementById('problem').hidden"), "once"


def test_a_file_plays_from_the_word_that_is_clicked(tab: Page) -> None:
    read(tab)
    assert "talk.wav" in tab.text("#player")
    tab.point(".word", "click", number=7)
    tab.wait("!document.querySelector('audio').paused")
    start = float(tab.evaluate(f"{WORDS}[7].dataset.tip").split(" ")[0].removeprefix("0:"))
    assert start - 0.1 < tab.evaluate("document.querySelector('audio').currentTime") < start + 2
    tab.wait("document.querySelectorAll('.word.heard').length === 1")
    tab.evaluate("document.querySelector('button.from').focus()")
    tab.press(" ", "Space")  # the keyboard's way
    tab.wait("document.querySelector('audio').currentTime < 2")
    tab.press("r")  # a microphone would hear it
    tab.wait("document.querySelector('audio').paused")


def test_what_the_microphone_heard_cannot_be_played(tab: Page) -> None:
    heard(tab)
    assert tab.evaluate("document.getElementById('player').hidden")
    assert not tab.evaluate("document.querySelectorAll('.playable, button.from').length")


def test_a_bad_file_leaves_the_transcript_and_its_clock_alone(tab: Page) -> None:
    read(tab)
    clock, before = tab.text("#time"), tab.evaluate(PARAGRAPHS)
    drop(tab, b"this is no sound")
    tab.wait("document.querySelector('#problem-title').innerText.includes('no sound')")
    assert tab.text("#time") == clock
    assert tab.evaluate(PARAGRAPHS) == before
    reload(tab)
    kept = json.loads(tab.evaluate("sessionStorage.getItem('whispertide.transcript')"))["transcript"]
    assert (kept["complete"], kept["recordings"]) == (True, [0])


SOURCES = "[...document.querySelectorAll('.source')].map((row) => row.textContent)"
TIMES = "[...document.querySelectorAll('.paragraph time')].map((time) => time.textContent)"


def test_each_file_has_its_name_and_its_clock(tab: Page) -> None:
    """And what heard it; after a reload as well, but for the last."""
    drop_all(tab, {"one.wav": wav(12), "two.wav": wav(12)})
    tab.wait(f"{WORDS}.length === 24 && {STATE} === 'ready'")
    one, two = tab.evaluate(SOURCES)
    assert (one.partition(" · ")[0], two.partition(" · ")[0]) == ("one.wav", "two.wav")
    assert "transcribed live, with " in one
    times = tab.evaluate(TIMES)
    assert times.count(times[0]) == 2, "the second begins where the first did"
    tips = tab.evaluate(f"{WORDS}.map(({{ dataset }}) => dataset.tip.split(' ')[0])")
    assert tips[0] == tips[12]
    reload(tab)
    assert tab.evaluate(SOURCES) == ["one.wav", "two.wav"]
    assert tab.evaluate(TIMES) == times


def test_a_file_without_words_says_so(tab: Page) -> None:
    drop(tab, wav(0.2), "hush.wav")
    tab.wait(f"{SOURCES}.length === 1 && {STATE} === 'ready'")
    assert tab.evaluate(SOURCES)[0].startswith("hush.wav · ")
    assert tab.evaluate(SOURCES)[0].endswith(" · no words")


def test_one_tooltip_at_a_time(tab: Page) -> None:
    def shown() -> list[str]:
        generated = tab.evaluate(
            "[...document.querySelectorAll('*')].map((one) => getComputedStyle(one, '::after').content)"
            ".filter((content) => !['none', 'normal'].includes(content))"
        )
        native = tab.evaluate("[...document.querySelectorAll('[title]')].map((one) => one.title)")
        popped = tab.evaluate("[...document.querySelectorAll('[popover]:popover-open')].map((one) => one.textContent)")
        return [*generated, *native, *popped]

    read(tab)
    tab.evaluate("document.getElementById('save').focus({ focusVisible: true })")
    for number in (3, 4):
        tab.point(".word", number=number)
        assert shown() == [tab.evaluate(f"{WORDS}[{number}].dataset.tip")]
    box = tab.evaluate("document.getElementById('tip').getBoundingClientRect().toJSON()")
    assert box["left"] >= 0
    assert box["top"] >= 0
    tab.press("Escape")
    assert shown() == []


def test_stop_and_size_in_big_captions(tab: Page) -> None:
    heard(tab)
    tab.press("b")
    inside = "document.getElementById('big').contains(document.getElementById({name!r}))"
    for name in ("status", "log", "problem"):  # what speaks to the person
        assert tab.evaluate(inside.format(name=name)), name
    size = "parseFloat(getComputedStyle(document.getElementById('big-text')).fontSize)"
    before = tab.evaluate(size)
    tab.click("#big-larger")
    assert tab.evaluate(size) > before
    tab.click("#big-smaller")
    assert tab.evaluate(size) == before
    assert tab.text("#big-record") == "Stop"
    tab.wait("getComputedStyle(document.getElementById('big-record')).opacity === '0'")  # nothing moved for a while
    tab.point("#big-window")
    tab.wait("getComputedStyle(document.getElementById('big-record')).opacity === '1'")
    tab.click("#big-record")
    tab.wait(f"{STATE} === 'ready'")
    assert tab.text("#big-record") == "Start"
    assert tab.evaluate("document.getElementById('big').open")
    tab.press("b")
    tab.wait("document.querySelectorAll('header #status, main #problem, main #log').length === 3")


def test_while_reconnecting_nothing_is_lost(tab: Page) -> None:
    try:
        tab.size(390, 844, mobile=True)
        heard(tab)
        tab.evaluate("""(() => {
          window.Real = WebSocket;
          window.WebSocket = function () { setTimeout(() => this.onclose({ code: 1006, reason: "" })); };
          WebSocket.OPEN = Real.OPEN;
          dispatchEvent(new Event("offline"));
        })()""")
        tab.wait(f"{STATE} === 'away'")
        assert "still recording, nothing is lost" in tab.text("#status")
        assert tab.evaluate("""(({ scrollHeight, clientHeight, scrollWidth, clientWidth }) =>
          scrollHeight <= clientHeight && scrollWidth <= clientWidth)(document.getElementById("status-text"))""")
        tab.evaluate("window.WebSocket = Real, dispatchEvent(new Event('online'))")
        tab.wait(f"{STATE} === 'live'")
        tab.wait(f"{WORDS}.length >= 5")
        tab.press("r")
        tab.wait(f"{STATE} === 'ready'")
        said = " ".join(tab.evaluate(PARAGRAPHS)).lower().split()
        assert [word.strip(".,!") for word in said[:5]] == [f"w{number}" for number in range(5)]
    finally:
        tab.command("Emulation.clearDeviceMetricsOverride")


def test_each_voice_has_a_paragraph_a_colour_and_a_name_that_can_be_typed(tab: Page) -> None:
    spoken = [(" Tea?", 0, 1), (" Yes.", 1, 2), (" Now?", 2, 1)]
    words = [
        {"text": text, "start": 16_000 * at, "end": 16_000 * at + 8_000, "speaker": who} for text, at, who in spoken
    ]
    shown = tab.evaluate(f"""import("/captions.js").then(({{ Captions, element }}) => {{
      const parts = ["scroller", "list", "log", "big", "bigSecond", "jump"].map((name) => [name, element("div")]);
      const names = {{}};
      const nameOf = (speaker) => names[speaker] ?? `Speaker ${{speaker}}`;
      const rename = (speaker, name) => (names[speaker] = name);
      const captions = new Captions({{ ...Object.fromEntries(parts), nameOf, rename }});
      captions.add({json.dumps(words)});
      const fields = [...captions.list.querySelectorAll("input.voice")];
      fields[0].value = " Ann ";
      fields[0].dispatchEvent(new Event("change", {{ bubbles: true }}));
      const rows = [...captions.list.querySelectorAll(".paragraph")];
      const [name, text] = [(row) => row.querySelector("input").value, (row) => row.querySelector("p").textContent];
      return rows.map((row) => [row.dataset.voice, name(row), text(row)]);
    }})""")
    assert shown == [["1", "Ann", "Tea?"], ["2", "Speaker 2", "Yes."], ["1", "Ann", "Now?"]]
