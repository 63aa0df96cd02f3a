"""The page in a real Chromium: what it shows, in good days and bad ones. The server's model knows the words."""

import json
from typing import Any

import httpx
import pytest

from headless_chromium import SLOW_IN_CHROMIUM, Page, page
from served import keyed, limited, wav
from served_page import STATE, drop, serving
from whispertide.formats.document import Document, Segmenter
from whispertide.formats.files import get_format
from whispertide.types import Word

pytestmark = SLOW_IN_CHROMIUM


def test_a_recording_by_microphone_and_its_end(tab: Page) -> None:
    tab.press("r")
    tab.wait("document.querySelectorAll('.word').length >= 3")
    assert tab.evaluate(STATE) == "live"
    assert tab.text("#log").strip()  # confirmed words are said to screen readers
    assert tab.evaluate("document.querySelector('.guess').getAttribute('aria-hidden')") == "true"
    assert "–" in tab.evaluate("document.querySelector('.word').dataset.tip")
    assert tab.text("#delay").endswith(" s")
    tab.press("b")
    assert tab.evaluate("document.getElementById('big').open")
    assert "w0" in tab.text("#big-text").lower()
    tab.press("b")
    tab.press("r")
    tab.wait(f"{STATE} === 'ready'")
    assert tab.text(".paragraph p").lower().startswith("w0 w1 w2")
    tab.evaluate("navigator.clipboard.writeText = async (text) => void (window.copied = text)")
    tab.press("c")
    assert tab.evaluate("window.copied").lower().split()[:3] == ["w0", "w1", "w2"]


def test_a_file_is_decoded_and_read(tab: Page) -> None:
    drop(tab, wav(12, 22_050))  # at another rate: the model says its words whatever is in it
    tab.wait(f"document.querySelectorAll('.word').length === 12 && {STATE} === 'ready'")


def test_phones_need_no_sideways_scrolling(tab: Page) -> None:
    try:
        tab.size(360, 640, mobile=True)
        tab.wait("innerWidth === 360")
        assert tab.evaluate("document.documentElement.scrollWidth") == 360
        for name in ("record", "file", "copy", "big-open", "settings-open"):
            box = tab.evaluate(f"document.getElementById('{name}').getBoundingClientRect().toJSON()")
            assert box["width"] >= 44, name
            assert box["height"] >= 44, name
            assert box["right"] <= 360, name
            assert box["bottom"] <= 640, name
    finally:
        tab.command("Emulation.clearDeviceMetricsOverride")


def test_light_and_dark_follow_the_system_or_the_person(tab: Page) -> None:
    def back() -> str:
        return str(tab.evaluate("getComputedStyle(document.body).backgroundColor"))

    def system(scheme: str) -> None:
        tab.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    system("light")
    light = back()
    system("dark")
    dark = back()
    assert (light, dark) == ("rgb(243, 246, 247)", "rgb(10, 18, 22)")
    seen = []
    for _ in range(3):
        tab.click("#theme")
        seen.append((tab.evaluate("document.documentElement.dataset.theme"), back()))
    assert seen == [("light", light), ("dark", dark), ("auto", dark)]
    tab.command("Emulation.setEmulatedMedia", features=[])


def test_what_can_be_read_has_contrast(tab: Page) -> None:
    """At least 4.5 to 1 (WCAG 2.2, 1.4.3), light and dark, for everything that is text."""
    for theme in ("light", "dark"):
        worst = tab.evaluate(f"""(() => {{
          document.documentElement.dataset.theme = {theme!r};
          const probe = document.body.appendChild(document.createElement("i"));
          const luminance = (name) => {{
            probe.style.color = `var(--${{name}})`;
            const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
            const [r, g, b] = parts.map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          }};
          const pairs = [["ink", "card"], ["ink", "back"], ["quiet", "card"], ["quiet", "back"], ["guess", "card"],
            ["on-accent", "accent"], ["accent", "card"], ["back", "live"], ["ink", "warn-back"], ["back", "ink"]];
          const ratios = pairs.map((pair) => {{
            const [low, high] = pair.map(luminance).sort((a, b) => a - b);
            return [(high + 0.05) / (low + 0.05), ...pair];
          }});
          probe.remove();
          document.documentElement.dataset.theme = "auto";
          return ratios.sort((a, b) => a[0] - b[0])[0];
        }})()""")
        assert worst[0] >= 4.5, worst


def test_the_policy_allows_nothing_that_the_page_does_not_need(tab: Page, address: str) -> None:
    """And the page works under it (`tab` looks for complaints)."""
    policy = httpx.get(address, trust_env=False).headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "data:" not in policy
    assert "blob:" not in policy.replace("media-src blob:", "")  # a file that is played, and nothing else
    assert "default-src 'none'" in policy
    host = address.removeprefix("http://").rstrip("/")
    assert f"connect-src 'self' ws://{host} wss://{host};" in policy
    strange = httpx.get(address, headers={"host": "x; script-src *"}, trust_env=False)
    assert "script-src *" not in strange.headers["content-security-policy"]
    tab.evaluate("document.body.setAttribute('style', 'color: red')")  # the policy is in force
    assert tab.evaluate("getComputedStyle(document.body).color") != "rgb(255, 0, 0)"
    tab.evaluate("document.body.removeAttribute('style')")
    tab.complaints.clear()


def test_everything_that_can_be_pressed_has_a_name(tab: Page) -> None:
    tab.command("Accessibility.enable")
    nodes = tab.command("Accessibility.getFullAXTree")["nodes"]
    controls = [node for node in nodes if node.get("role", {}).get("value") in ("button", "combobox", "checkbox")]
    assert len(controls) >= 6
    assert all(node["name"]["value"] for node in controls)


# --- files -----------------------------------------------------------------------------------------------------------


def talk() -> list[list[Word]]:
    """Turns with all that subtitles care about: long lines, clauses, numbers, quotes, pauses, other scripts."""
    texts = [
        " He said, “It costs 3", ".5 & <more>.” Then a --> b, and a sentence that has very many words in it",
        ", so that it has to be cut somewhere: twice", " at least; once for its length! Yes? 日本語。これは", "テスト",
        " x" * 300,
    ]  # fmt: skip
    turns, at = [], 0
    for number, text in enumerate(texts * 2):
        words = []
        for piece in text.replace(" ", "\n ").split("\n"):
            if piece:
                words.append(Word(piece, at, at + 3_333 + 7 * len(piece), 0.5))
                at += 4_000 + (17_000 if len(words) % 11 == 10 else 0)
        turns.append(words)
        at += 8_000 * (number % 3)
    return turns


@pytest.mark.parametrize("name", ["txt", "srt", "vtt", "json"])
def test_downloads_are_what_the_command_line_writes(tab: Page, name: str) -> None:
    check_download(tab, name, talk())


def characters(*texts: str) -> list[list[Word]]:
    """Turns whose words are single characters, as in languages without spaces."""
    turns, at = [], 0
    for text in texts:
        turns.append([Word(character, at + 1600 * n, at + 1600 * n + 1600, 0.5) for n, character in enumerate(text)])
        at += 1600 * len(text)
    return turns


@pytest.mark.parametrize("text", ["เก้าน้ำแม่ไป", "ເກົ້ານ້ຳແມ່ໄປ", "မြန်မာဘာသာ"])
def test_no_line_of_a_download_begins_inside_a_syllable(tab: Page, text: str) -> None:
    check_download(tab, "srt", characters(*((text * 9)[:count] for count in range(60, 100, 7))))


def test_no_space_is_put_between_phrases_of_chinese_in_a_download(tab: Page) -> None:
    check_download(
        tab, "srt", characters("好的。走吧。", "“好的”", "“走吧”", "好的", "Yes.", "네", "아니요", "ไป", "มา")
    )


@pytest.mark.parametrize("mark", "،؛")
def test_a_line_of_a_download_ends_after_a_clause_of_arabic(tab: Page, mark: str) -> None:
    texts = ["x" * 11 + mark, " " + "y" * 12, " " + "z" * 20]
    check_download(tab, "srt", [[Word(text, 8000 * n, 8000 * n + 8000, 0.5) for n, text in enumerate(texts)]])


def test_a_name_with_initials_is_not_cut_in_a_download(tab: Page) -> None:
    text = 'George W. Bush met J. K. Rowling. A. Smith was there, z. B. as plan B. He left "Plan C. Élise É. Ñ. left.'
    words = [Word(f" {part}", 7000 * n, 7000 * n + 7000, 0.5) for n, part in enumerate(text.split())]
    for name in ("txt", "srt"):
        check_download(tab, name, [words])


def test_french_marks_stay_with_their_sentence_and_line_in_a_download(tab: Page) -> None:
    text = "« Où vas-tu ? » Elle dit : « Je pars » ; il ne dit rien ! Pourquoi donc ne disait-il rien ?"
    words = [Word(f" {part}", 7000 * n, 7000 * n + 7000, 0.5) for n, part in enumerate(text.split())]
    apart = [Word(word.text, 3 * word.start, 3 * word.start + 4000, 0.5) for word in words]
    for name in ("txt", "srt"):
        check_download(tab, name, [words, [Word(w.text, w.start + 10**6, w.end + 10**6, 0.5) for w in apart]])


@pytest.mark.parametrize("text", ["「はい。」と言った。『え？』", "“好。”他说。", "เก้าน้ำ" * 90])
@pytest.mark.parametrize("pause", [False, True])
def test_characters_that_belong_together_are_not_parted_in_a_download(tab: Page, text: str, pause: bool) -> None:
    (words,) = characters(text)
    apart = [Word(word.text, 12 * word.start, 12 * word.start + 1600, 0.5) for word in words]
    check_download(tab, "txt", [apart if pause else words])
    check_download(tab, "srt", [apart if pause else words])


@pytest.mark.parametrize(
    "text",
    [
        "客観的実在の判断的知識が整理するのである" * 4,
        "今天天气很好我们一起去公园玩吧" * 5,
        "วันนี้อากาศดีมากเราไปเที่ยวสวนกันเถอะ" * 4,
    ],
)
def test_lines_of_scripts_without_spaces_end_between_phrases_in_a_download(tab: Page, text: str) -> None:
    check_download(tab, "srt", [[Word(char, 3200 * n, 3200 * n + 3200, 0.5) for n, char in enumerate(text)]])


@pytest.mark.parametrize("mark", "؟۔।")
def test_a_segment_of_a_download_ends_with_a_sentence_of_arabic_urdu_and_hindi(tab: Page, mark: str) -> None:
    texts = [" ab", f" cd{mark}", " ef", f" gh{mark}"]
    check_download(tab, "txt", [[Word(text, 8000 * n, 8000 * n + 8000, 0.5) for n, text in enumerate(texts)]])


@pytest.mark.parametrize("name", ["txt", "srt", "vtt"])
def test_voices_of_a_download_have_room_in_their_lines(tab: Page, name: str) -> None:
    """Also of one that goes on after another has interrupted it."""
    said = [
        (
            1,
            0,
            "Would you like to come to the market with us tomorrow morning, when the fish is fresh and bread is warm?",
        ),
        (2, 60_000, "No, no, no."),
        (12, 170_000, "The farmer lived near the old river and often he talked with his friends there"),
        (12, 300_000, "Every morning."),
    ]
    turns = [
        [Word(f" {part}", at + 5000 * n, at + 5000 * n + 5000, 0.5, who) for n, part in enumerate(text.split())]
        for who, at, text in said
    ]
    check_download(tab, name, turns)


def check_download(tab: Page, name: str, turns: list[list[Word]]) -> None:
    """The page writes these turns as the package does."""
    segmenter = Segmenter()
    segments = []
    events: list[dict[str, Any]] = []
    for words in turns:
        segments += [*segmenter.push(words), *segmenter.end_turn()]
        at = words[-1].end / 16_000
        said = [
            {"text": w.text, "start": w.start / 16_000, "end": w.end / 16_000, "probability": 0.5}
            | ({} if w.speaker is None else {"speaker": w.speaker})
            for w in words
        ]
        events += [{"type": "confirmed", "at": at, "words": said}, {"type": "turn_end", "at": at, "end": at}]
    document = Document(tuple(segments), "en", turns[-1][-1].end, "m", "r", "talk.wav")
    written = tab.evaluate(f"""Promise.all([import('/transcript.js'), import('/downloads.js')]).then(([a, b]) => {{
      const transcript = new a.Transcript();
      for (const event of {json.dumps(events)}) transcript.take(event);
      return b.render({name!r}, transcript, {{ model: "m", recipe: "r", language: "en", source: "talk.wav" }});
    }})""")
    if name == "json":
        assert json.loads(written) == json.loads(get_format(name)(document))
    else:
        assert written == get_format(name)(document)


# --- sound -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000, 96_000])
def test_resampling(tab: Page, rate: int) -> None:
    """Speech passes unchanged, what 16 kHz cannot hold is gone, and portions do not matter."""
    result = tab.evaluate(f"""import('/resampler.js').then(({{ Resampler }}) => {{
      const rate = {rate};
      const tone = (hertz) => Float32Array.from({{ length: rate }}, (_, i) => Math.sin(2 * Math.PI * hertz * i / rate));
      const all = (input) => {{ const r = new Resampler(rate, 16000); return [...r.push(input), ...r.flush()]; }};
      const rms = (x) => Math.sqrt(x.slice(1000, -1000).reduce((sum, v) => sum + v * v, 0) / (x.length - 2000));
      const speech = all(tone(1000));
      const error = rms(speech.map((v, i) => v - Math.sin(2 * Math.PI * 1000 * i / 16000)));
      const alias = rate > 20000 ? rms(all(tone(9500))) : 0;
      const r = new Resampler(rate, 16000), input = tone(1000), cut = [];
      for (let at = 0, n = 1; at < rate; at += n, n = (n * 7 + 3) % 1009) cut.push(...r.push(input.slice(at, at + n)));
      cut.push(...r.flush());
      return {{ error, alias, length: speech.length, same: JSON.stringify(cut) === JSON.stringify(speech) }};
    }})""")
    assert result["error"] < 1e-3
    assert result["alias"] < 1e-3
    assert abs(result["length"] - 16_000) <= 1
    assert result["same"]


# --- bad days --------------------------------------------------------------------------------------------------------


def title(tab: Page, address: str, words: str) -> None:
    tab.go(address)
    tab.wait(f"{STATE} === 'ready'")
    tab.click("#record")
    tab.wait(f"document.querySelector('#problem-title').innerText === {words!r}")
    assert tab.evaluate("document.querySelector('#problem').getAttribute('role')") == "alert"
    assert tab.text("#problem-action") == "Try again"
    assert not tab.complaints


def test_no_microphone(address: str) -> None:
    with page("--use-fake-ui-for-media-stream") as tab:  # a machine for tests has none
        title(tab, address, "No microphone found")


def test_permission_denied(address: str) -> None:
    with page("--deny-permission-prompts", "--use-fake-device-for-media-stream") as tab:
        title(tab, address, "The microphone is blocked")


def test_the_server_is_full(browser: Page) -> None:
    with serving(limited(sessions=1), crowd=True) as address:
        browser.complaints.clear()
        title(browser, address, "The server is full")


def test_the_server_is_gone(browser: Page) -> None:
    with serving() as address:
        browser.go(address)
        browser.wait(f"{STATE} === 'ready'")
    browser.click("#record")
    browser.wait("document.querySelector('#problem-title').innerText === 'The server does not answer'")


def test_a_key_is_needed(browser: Page) -> None:
    with serving(keyed("correct-key")) as address:
        browser.go(address)
        browser.evaluate("sessionStorage.clear()")
        for key, state in (("a-wrong-key", "off"), ("correct-key", "ready")):
            browser.wait("document.querySelector('#problem-title').innerText === 'An API key is needed'")
            browser.click("#problem-action")
            assert browser.evaluate("document.getElementById('key').open")
            browser.evaluate(f"document.querySelector('#key input').value = {key!r}")
            browser.click("#key .solid")
            browser.wait(f"{STATE} === {state!r}")
        browser.wait("document.querySelector('#problem').hidden")
        assert not [url for url in browser.requests if "correct-key" in url], "addresses are kept in logs"
        assert not [text for text in browser.complaints if "Content Security" in text]
        browser.evaluate("sessionStorage.clear()")
