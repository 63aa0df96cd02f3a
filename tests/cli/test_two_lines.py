"""Captions with a second line: each translation stands under its line, whenever it comes."""

import io
from dataclasses import replace

from rich.console import Console

from whispertide.cli.live import LiveView
from whispertide.cli.meter import Meter
from whispertide.cli.two_lines import TwoLines
from whispertide.events import Confirmed, Correction, Hypothesis, Translation
from whispertide.formats.document import TextSegment
from whispertide.types import SAMPLE_RATE, Word


def line(text: str, second: int) -> TextSegment:
    words = tuple(Word(f" {word}", second * SAMPLE_RATE, (second + 1) * SAMPLE_RATE) for word in text.split())
    return TextSegment(second * SAMPLE_RATE, (second + 1) * SAMPLE_RATE, f" {text}", words)


def translation(text: str, second: int) -> Translation:
    return Translation(0, 0, second * SAMPLE_RATE, (second + 1) * SAMPLE_RATE, "fr", text)


class Screen:
    """A view of 40 cells; `frame` gives the rows that went up, and those that are redrawn, without the status."""

    def __init__(self, expected: int = 1) -> None:
        console = Console(file=io.StringIO(), width=41, height=20, force_terminal=True)
        self.view = LiveView(console, Meter(live=True), "model", "recipe")
        self.view.captions = TwoLines(expected=expected)

    def say(self, segment: TextSegment) -> None:
        self.view.event(Confirmed(0, 0, segment.words))
        self.view.lines([segment])

    def frame(self) -> tuple[list[str], list[str]]:
        finished, rows = self.view.frame()
        return [row.plain for row in finished], [row.plain for row in rows[:-1]]


def test_a_line_goes_up_with_its_translation() -> None:
    screen = Screen()
    screen.view.event(Confirmed(0, 0, line("Good morning. How", 0).words))
    screen.view.event(Hypothesis(0, 0, (Word(" are", 0, 0),)))
    assert screen.frame() == ([], ["Good morning. How are"])
    screen.view.lines([line("Good morning.", 0)])
    assert screen.frame() == ([], ["Good morning.", "How are"])
    screen.view.event(translation("Bonjour.", 0))
    assert screen.frame() == (["Good morning.", "[fr] Bonjour."], ["How are"])
    assert screen.frame() == ([], ["How are"])


def test_several_lines_have_one_translation_together() -> None:
    screen = Screen()
    for second, text in enumerate(("One.", "Two.", "Three.")):
        screen.say(line(text, second))
    assert screen.frame() == ([], ["One.", "Two.", "Three."])
    screen.view.event(translation("Un. Deux.", 1))
    assert screen.frame() == (["One.", "Two.", "[fr] Un. Deux."], ["Three."])


def test_both_lines_name_the_voice() -> None:
    screen = Screen()
    screen.say(replace(line("Hello.", 0), speaker=2))
    screen.view.event(replace(translation("Bonjour.", 0), speaker=2))
    assert screen.frame()[0] == ["Speaker 2: Hello.", "[fr] Speaker 2: Bonjour."]


def test_a_line_waits_for_all_that_comes_of_it() -> None:
    screen = Screen(expected=2)
    screen.say(line("Helo.", 0))
    screen.view.event(Correction(0, 0, 0, SAMPLE_RATE, "Hello."))
    assert screen.frame() == ([], ["Helo.", "[corrected] Hello."])
    screen.view.event(translation("Salut.", 0))
    assert screen.frame()[0] == ["Helo.", "[corrected] Hello.", "[fr] Salut."]


def test_captions_do_not_pile_up_where_no_translation_comes() -> None:
    screen = Screen()
    for second in range(6):
        screen.say(line(f"Number {second}.", second))
    assert screen.frame() == (["Number 0.", "Number 1.", "Number 2."], ["Number 3.", "Number 4.", "Number 5."])
    screen.view.event(translation("Un.", 1))
    assert screen.frame()[0] == ["[fr] Un."]


def test_the_last_frame_has_everything() -> None:
    screen = Screen()
    screen.say(line("One.", 0))
    screen.view.event(Confirmed(0, 0, line("two", 1).words))
    finished, rows = screen.view.frame(last=True)
    assert [row.plain for row in finished] == ["One.", "two"]
    assert rows == []


def test_long_lines_are_wrapped_like_any() -> None:
    screen = Screen()
    screen.say(line("word " * 12 + "end.", 0))
    screen.view.event(translation("mot " * 12 + "fin.", 0))
    finished, _ = screen.frame()
    assert all(len(row) <= 40 for row in finished)
    assert " ".join(finished) == ("word " * 12 + "end. [fr] " + "mot " * 12 + "fin.")
