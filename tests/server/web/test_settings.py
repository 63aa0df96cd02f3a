"""What the page says of models and recipes, and how it can be made to look."""

import json
import struct
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from headless_chromium import SLOW_IN_CHROMIUM, Page
from served import KnowingModel, OfflineModel, keyed, limited, multilingual
from served_page import STATE, drop, reload, serving, start_anew
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import ABOUT

pytestmark = SLOW_IN_CHROMIUM


SUN = b".snd" + struct.pack(">5I", 24, 32_000, 3, 16_000, 1) + bytes(32_000)  # browsers cannot read it, the server can
FAULTS = "['languages', 'keyterms'].map((name) => document.getElementById(`${name}-fault`).textContent)"
LISTEN = """(() => {
  const { send } = WebSocket.prototype;
  window.said = [];
  WebSocket.prototype.send = function (data) { said.push(data); send.call(this, data); };
})()"""


def test_a_model_that_does_not_understand_people_says_so(browser: Page) -> None:
    """The words are the checkpoint's; the name says nothing."""
    with serving(model=KnowingModel(name="great.en", caution="It understands only cats.")) as address:
        browser.go(address)
        browser.wait(f"{STATE} === 'ready'")
        said = browser.text("#caution")
        assert "It understands only cats." in said
        assert "whispertide serve --model base" in said
        browser.click("#caution-close")
        assert browser.evaluate("document.getElementById('caution').hidden")


def test_other_models_are_not_warned_of(tab: Page) -> None:
    assert tab.evaluate("document.getElementById('caution').hidden")
    assert "Your audio goes only to your server." in tab.text("#empty")


def test_every_recipe_is_explained_by_the_server(tab: Page) -> None:
    tab.click("#settings-open")
    assert tab.text("#settings summary") == "Advanced"
    assert not tab.evaluate("document.querySelector('.choice').checkVisibility()")
    tab.click("#settings summary")
    shown = tab.evaluate("[...document.querySelectorAll('.choice')].map((choice) => choice.innerText)")
    assert len(shown) >= 4
    assert all(any(text.split("\n")[0] == name and about in text for name, about in ABOUT.items()) for text in shown)
    tab.click("[name=recipe][value=simulstreaming]")
    reload(tab)
    tab.evaluate(LISTEN)
    tab.click("#record")
    tab.wait('said.some((data) => String(data).includes(\'"recipe":"simulstreaming"\'))')


def choose(tab: Page, name: str, value: str) -> None:
    tab.evaluate(f"""(() => {{
      const field = document.querySelector("[name={name}]");
      field.value = {value!r};
      field.dispatchEvent(new Event("change", {{ bubbles: true }}));
    }})()""")


def offered(tab: Page, name: str) -> list[str]:
    return list(tab.evaluate(f"[...document.querySelector('[name={name}]').options].map((one) => one.value)"))


def test_language_task_and_prompt(browser: Page) -> None:
    """What is usual on the server is chosen first, and a choice is kept."""
    small = multilingual(OfflineModel(name="small"), "en", "de")
    text = DecodeOptions(language="de")
    with serving(replace(limited(), text=text), {"base.en": OfflineModel(), "small": small}) as address:
        browser.go(address)
        browser.wait(f"{STATE} === 'ready'")
        assert browser.evaluate("document.querySelector('[name=model]').value") == "small"
        assert offered(browser, "language") == ["auto", "en", "de"]
        assert offered(browser, "task") == ["transcribe", "translate"]
        assert browser.evaluate("document.querySelector('[name=language]').value") == "de"
        choose(browser, "model", "base.en")
        assert offered(browser, "task") == ["transcribe"]
        choose(browser, "model", "small")
        choose(browser, "language", "auto")
        choose(browser, "task", "translate")
        choose(browser, "prompt", " Ebbe, Flut ")
        reload(browser)
        browser.evaluate(LISTEN)
        browser.click("#record")
        browser.wait("said.length > 0")
        start = json.loads(browser.evaluate("said[0]"))
        assert (start["language"], start["task"], start["prompt"]) == ("auto", "translate", "Ebbe, Flut")
        browser.wait(f"{STATE} === 'live'")
        browser.click("#record")
        browser.wait(f"{STATE} === 'ready'")
        drop(browser, SUN)
        browser.wait("document.querySelectorAll('.word').length >= 2 && !document.querySelector('#record.running')")
        assert browser.evaluate("document.getElementById('transcript').lang") == "en"
        start_anew(browser)
    heard = small.offline.offline_options[-1]
    assert (heard.language, heard.task, heard.prompt) == (None, "translate", "Ebbe, Flut")


@pytest.mark.parametrize("look", ["#settings-open", "#record", None])
def test_a_server_that_starts_again_with_other_models_offers_those(look: str | None, browser: Page) -> None:
    """Where somebody looks, where a recording begins, and where one goes on."""
    with serving(model={"one": OfflineModel(), "two": OfflineModel()}) as address:
        browser.go(address)
        browser.wait(f"{STATE} === 'ready'")
        choose(browser, "model", "two")
        if look is None:
            browser.click("#record")
            browser.wait(f"{STATE} === 'live'")
    with serving(model={"three": OfflineModel()}, port=urlsplit(address).port or 0):
        if look is not None:
            browser.click(look)
        browser.wait("document.querySelector('[name=model]').value === 'three'")
        assert offered(browser, "model") == ["three"]
        browser.wait(f"{STATE} === '{'ready' if look == '#settings-open' else 'live'}'")
        assert browser.evaluate("document.getElementById('status-text').textContent") in ("Ready · three", "Listening")
        browser.evaluate("document.getElementById('settings').close()")
        start_anew(browser)


def test_what_somebody_fills_in_stays_where_the_server_has_nothing_new(tab: Page) -> None:
    tab.evaluate("document.querySelector('[name=prompt]').value = 'half a sent'")
    tab.click("#settings-open")
    tab.wait("document.getElementById('settings').open")
    tab.evaluate("import('/server.js').then(({ Server }) => new Server(() => '').hello())")  # ours came before it
    assert tab.evaluate("document.querySelector('[name=prompt]').value") == "half a sent"
    tab.evaluate("document.getElementById('settings').close()")


def test_languages_and_key_terms(browser: Page) -> None:
    """Lists between commas, kept, sent with live captions and with files that the server reads."""
    small = multilingual(OfflineModel(name="small"), "en", "de", "fr")
    with serving(limited(), small) as address:
        browser.go(address)
        browser.wait(f"{STATE} === 'ready'")
        choose(browser, "languages", " de-AT,French, de ")
        choose(browser, "keyterms", "Okonkwo , Vinh Phuc,\n Kubernetes,,Okonkwo")
        assert browser.evaluate(FAULTS) == ["", ""]
        reload(browser)
        assert browser.evaluate("document.querySelector('[name=languages]').value") == " de-AT,French, de "
        browser.evaluate(LISTEN)
        browser.click("#record")
        browser.wait("said.length > 0")
        start = json.loads(browser.evaluate("said[0]"))
        assert (start["languages"], start["keyterms"]) == (["de", "fr"], ["Okonkwo", "Vinh Phuc", "Kubernetes"])
        browser.wait(f"{STATE} === 'live'")
        browser.click("#record")
        browser.wait(f"{STATE} === 'ready'")
        drop(browser, SUN)
        browser.wait("document.querySelectorAll('.word').length >= 2 && !document.querySelector('#record.running')")
        start_anew(browser)
    heard = small.offline.offline_options[-1]
    assert (heard.languages, heard.keyterms) == (("de", "fr"), ("Okonkwo", "Vinh Phuc", "Kubernetes"))


def test_a_list_that_cannot_be_used_says_why_and_nothing_begins(browser: Page) -> None:
    small = multilingual(OfflineModel(name="small"), "en", "de")
    with serving(limited(), {"small": small, "base.en": OfflineModel()}) as address:
        browser.go(address)
        browser.wait(f"{STATE} === 'ready'")
        choose(browser, "languages", "de, fr, klingon")
        expected = "small does not know “fr”, “klingon”. Expected codes or English names, such as de, English."
        assert browser.evaluate(FAULTS) == [expected, ""]
        assert browser.evaluate("document.querySelector('[name=languages]').getAttribute('aria-invalid')") == "true"
        for is_file in (False, True):
            browser.click("#problem-close")
            if is_file:
                drop(browser, SUN)
            else:
                browser.click("#record")
            browser.wait("document.querySelector('#problem').checkVisibility()")
            assert browser.text("#problem-title") == "These languages cannot be detected"
            assert browser.text("#problem-text") == expected
            assert not browser.evaluate("document.querySelector('#record.running')")
        choose(browser, "language", "de")
        assert browser.evaluate("document.querySelector('[name=languages]').disabled"), "nothing is detected"
        assert browser.evaluate(FAULTS) == ["", ""]
        choose(browser, "language", "auto")
        assert browser.evaluate(FAULTS) == [expected, ""]
        choose(browser, "model", "base.en")
        assert browser.evaluate("document.querySelector('[name=languages]').disabled"), "it knows one"
        choose(browser, "keyterms", "Okonkwo; " * 20)
        assert "at most 100 characters" in browser.evaluate(FAULTS)[1]
        choose(browser, "keyterms", ",".join(f"word {number}" for number in range(501)))
        assert browser.evaluate(FAULTS)[1] == "Expected at most 500 terms; there are 501."
        browser.click("#record")
        browser.wait("document.querySelector('#problem-title').innerText === 'These key terms cannot be used'")
        choose(browser, "keyterms", "Okonkwo")
        browser.click("#record")
        browser.wait(f"{STATE} === 'live'")
        assert not browser.evaluate("document.querySelector('#problem').checkVisibility()")
        start_anew(browser)


def test_a_key_right_after_a_dialog_was_closed_is_not_lost(tab: Page) -> None:
    """A field of a dialog that a script closes has the focus until the next frame, if nothing had it before."""
    tab.evaluate("document.activeElement.blur()")
    tab.click("#settings-open")
    tab.click("#settings summary")
    tab.evaluate("document.querySelector('[name=keyterms]').focus()")
    tab.press("r")
    assert tab.evaluate("document.querySelector('[name=keyterms]').value") == "r", "whoever types starts nothing"
    tab.evaluate("document.getElementById('settings').close()")
    tab.press("r")
    tab.wait("Boolean(document.querySelector('#record.running'))")


def slide(tab: Page, name: str, steps: int) -> None:
    """Move a slider to the right, by the keyboard."""
    tab.evaluate(f"document.querySelector('[name={name}]').focus()")
    for _ in range(steps):
        tab.press("ArrowRight")


def test_how_long_a_word_may_wait_is_the_users_choice(tab: Page) -> None:
    """Of tide alone; the slider's left end is what the server does anyway."""
    disabled = "document.querySelector('[name=wait]').disabled"
    tab.click("#settings-open")
    tab.click("#settings summary")
    assert tab.evaluate("document.querySelector('[name=recipe]:checked').value") == "whisper-streaming"
    assert tab.evaluate(disabled)
    tab.click("[name=recipe][value=tide]")
    assert not tab.evaluate(disabled)
    assert tab.text("#delay-shown") == "default"
    slide(tab, "wait", 4)
    assert tab.text("#delay-shown") == "0.50 s"
    assert tab.evaluate("document.querySelector('[name=wait]').getAttribute('aria-valuetext')") == "0.50 s"
    reload(tab)
    tab.evaluate(LISTEN)
    tab.click("#record")
    tab.wait("said.length > 0")
    start = json.loads(tab.evaluate("said[0]"))
    assert (start["recipe"], start["changes"]) == ("tide", {"delay_s": 0.5})


def test_the_size_of_the_text(tab: Page) -> None:
    tab.click("#settings-open")
    slide(tab, "size", 3)
    assert tab.text("#size-shown") == "130 %"
    assert tab.evaluate("document.querySelector('[name=size]').getAttribute('aria-valuetext')") == "130 %"
    reload(tab)
    assert tab.evaluate("document.documentElement.style.getPropertyValue('--size')") == "1.3"
    tab.press("+")
    assert tab.evaluate("document.querySelector('[name=size]').value") == "1.4"


def test_two_tabs_keep_each_others_choices(tab: Page) -> None:
    tab.evaluate("localStorage.setItem('whispertide', JSON.stringify({ prompt: 'Of the other tab' }))")
    tab.press("+")
    kept = json.loads(tab.evaluate("localStorage.getItem('whispertide')"))
    assert kept == {"prompt": "Of the other tab", "size": 1.1}


def test_buttons_say_what_they_are_on_phones(tab: Page) -> None:
    try:
        tab.size(390, 844, mobile=True)
        tab.wait("innerWidth === 390")
        names = ("theme", "settings-open", "tab", "record", "file", "copy", "save", "clear", "big-open")
        for name in names:
            assert tab.text(f"#{name}").strip(), name
            box = tab.evaluate(f"document.querySelector('#{name} .label').getBoundingClientRect().toJSON()")
            assert box["width"] > 12, name
            assert box["left"] >= 0, name
            assert box["right"] <= 390, name
            assert box["bottom"] <= 844, name
        tab.click("#record")
        tab.wait(f"{STATE} === 'live'")
        assert tab.text("#record").strip() == "Stop"
    finally:
        tab.command("Emulation.clearDeviceMetricsOverride")


def test_a_browser_that_keeps_nothing(browser: Page) -> None:
    """Where a person blocks all cookies, storage cannot even be looked at."""
    script = """for (const name of ["localStorage", "sessionStorage"]) {
      Object.defineProperty(window, name, { get() { throw new DOMException("", "SecurityError"); } });
    }"""
    blocked = browser.command("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    try:
        with serving(keyed("correct-key")) as address:
            browser.go(address)
            browser.wait("document.querySelector('#problem-title').innerText === 'An API key is needed'")
            browser.click("#problem-action")
            browser.evaluate("document.querySelector('#key input').value = 'correct-key'")
            browser.click("#key .solid")
            browser.wait(f"{STATE} === 'ready'")
            browser.press("+")
            assert browser.evaluate("document.documentElement.style.getPropertyValue('--size')") == "1.1"
    finally:
        browser.command("Page.removeScriptToEvaluateOnNewDocument", identifier=blocked)
