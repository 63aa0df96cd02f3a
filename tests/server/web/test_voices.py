"""Who speaks, in the big captions and for viewers: numbers, names that the speaker types, colours."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headless_chromium import SLOW_IN_CHROMIUM, Page
from oracle import make_gate
from served import WORDS, KnowingModel, WatchedOracle
from served_page import STATE, serving, start_anew
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.types import Word

pytestmark = SLOW_IN_CHROMIUM

LABELS = "[...document.querySelectorAll('.speaker')]"
NAMES = f"{LABELS}.map(({{ textContent }}) => textContent)"


class KnownVoices:
    """Stands for a track: the first five words are one voice's, the next five another's, the rest the first one's."""

    def feed(self, samples: Any) -> None:
        pass

    def snapshot(self) -> None:
        return None

    def is_settled(self, word: Word) -> bool:
        return True

    def label(self, words: Sequence[Word]) -> tuple[Word, ...]:
        return tuple(replace(word, speaker=1 + (int(re.sub("[^0-9]", "", word.text)) // 5) % 2) for word in words)


@dataclass
class ModelOfVoices(KnowingModel):
    def session(self, recipe: Recipe, *, vad: bool | None = None, **settings: Any) -> Session:
        gate, speakers = make_gate(self.words) if vad is not False else None, KnownVoices()
        return Session(recipe, WatchedOracle(self.words, self), gate, speakers=speakers, **settings)  # type: ignore[arg-type]


@pytest.fixture
def talking(browser: Page) -> Iterator[Page]:
    """The page of a server that hears two voices, which has recorded all words and made an address."""
    browser.complaints.clear()
    with serving(model=ModelOfVoices()) as address:
        browser.go(address)
        browser.wait(f"{STATE} === 'ready'")
        browser.click("#share-show")
        browser.click("#share-open")
        browser.wait("Boolean(document.querySelector('#share-code svg'))")
        browser.evaluate("document.getElementById('share').close()")
        browser.click("#record")
        browser.wait(f"document.querySelectorAll('.word').length === {len(WORDS)}")
        browser.click("#record")
        browser.wait(f"{STATE} === 'ready'")
        yield browser
        browser.command("Emulation.clearDeviceMetricsOverride")
        browser.go(address)
        browser.wait(f"{STATE} === 'ready'")
        start_anew(browser)
    assert not browser.complaints


def test_who_speaks_is_told_in_big_captions_and_to_viewers(talking: Page) -> None:
    """Of one recording: to say all words again takes most of the time."""
    big_captions_say_who_speaks(talking)
    viewers_see_who_speaks_and_the_names_that_the_speaker_typed(talking)


def big_captions_say_who_speaks(talking: Page) -> None:
    assert talking.evaluate(NAMES) == ["Speaker 1: ", "Speaker 2: ", "Speaker 1: "]
    talking.press("b")
    colours = talking.evaluate(f"{LABELS}.map((one) => getComputedStyle(one).color)")
    assert colours[0] == colours[2] != colours[1]
    lefts = talking.evaluate(f"""{LABELS}.map(({{ firstChild }}) => {{
      const range = document.createRange();
      range.selectNode(firstChild);
      return range.getBoundingClientRect().left;
    }})""")
    assert len(set(lefts)) == 1, "a voice begins a line"
    talking.press("b")
    name(talking, 1, " Ann ")
    assert talking.evaluate(NAMES) == ["Ann: ", "Speaker 2: ", "Ann: "]
    name(talking, 1, "")
    assert talking.evaluate(NAMES) == ["Speaker 1: ", "Speaker 2: ", "Speaker 1: "]


def name(tab: Page, speaker: int, text: str) -> None:
    """Type the name of a voice."""
    tab.evaluate(f"""(() => {{
      const field = document.querySelector('input[data-speaker="{speaker}"]');
      field.value = {text!r};
      field.dispatchEvent(new Event("change", {{ bubbles: true }}));
    }})()""")


def viewers_see_who_speaks_and_the_names_that_the_speaker_typed(talking: Page) -> None:
    name(talking, 2, "Bo")
    url = talking.evaluate("document.getElementById('share-address').value")
    # One after the other: to say all words anew for each takes most of the time.
    for query in ("", "?background=transparent&lines=6", "?background=fff&text=000"):
        talking.go(f"{url}{query}")
        talking.wait(f"{LABELS}.length === 3")
        talking.wait(f"{NAMES}.includes('Bo: ')")
        assert talking.evaluate(NAMES) == ["Speaker 1: ", "Bo: ", "Speaker 1: "], query
        shown = str(talking.evaluate("document.getElementById('text').innerText")).lower().split("\n")
        assert [line for line in shown if line.startswith("bo: w5")], query
        assert contrast(talking) >= 4.5, query


def contrast(tab: Page) -> float:
    """The least contrast of a name with the background, or with the plate below it over black."""
    return float(
        tab.evaluate("""(() => {
      const context = document.createElement("canvas").getContext("2d");
      const luminance = (colour) => {
        context.fillStyle = "#000";
        context.fillRect(0, 0, 1, 1);
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        const parts = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
        const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const below = luminance(getComputedStyle(document.documentElement).backgroundColor);
      const text = document.getElementById("text");
      const all = [1, 2, 3, 4, 5, 6, 7, 8].map((voice) => {
        const label = text.querySelector(".speaker").cloneNode();
        label.dataset.voice = voice;
        text.append(label);
        const [dark, light] = [below, luminance(getComputedStyle(label).color)].sort((a, b) => a - b);
        label.remove();
        return (light + 0.05) / (dark + 0.05);
      });
      return Math.min(...all);
    })()""")
    )
