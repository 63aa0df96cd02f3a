import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from whispertide.cli import live as live_view
from whispertide.cli.live import PARAGRAPH, Captions, LiveView, clock_text, status_line, wrap
from whispertide.cli.meter import Meter
from whispertide.events import Confirmed, Error, Hypothesis
from whispertide.types import SAMPLE_RATE, Word

WORDS = st.lists(
    st.sampled_from([" a", " word", " longer-word", ",", "雨", " 世界世界", " x" * 4, " " + "y" * 30]), max_size=30
)


def said(*texts: str, start: int = 0) -> list[Word]:
    return [Word(text, start + 100 * n, start + 100 * n + 100) for n, text in enumerate(texts)]


def rows(text: str, width: int) -> list[str]:
    return [text[row.start : row.end] for row in wrap(text, width)]


def test_rows_break_at_spaces() -> None:
    assert rows("one two three", 7) == ["one two", "three"]
    assert rows("one two", 7) == ["one two"]
    assert rows("", 7) == []


def test_a_word_wider_than_the_screen_is_broken() -> None:
    assert rows("abcdefghij", 4) == ["abcd", "efgh", "ij"]


def test_wide_characters_take_two_cells() -> None:
    assert rows("雨雨雨雨雨", 4) == ["雨雨", "雨雨", "雨"]
    assert rows("雨", 1) == ["雨"]  # no terminal is that narrow, but nothing hangs


def test_a_newline_begins_a_row() -> None:
    assert rows("one\ntwo three", 20) == ["one", "two three"]


@given(parts=WORDS, width=st.integers(2, 40))
def test_wrapping_loses_nothing_and_fits(parts: list[str], width: int) -> None:
    text = "".join(parts)
    found = wrap(text, width)
    assert all(cell_len(text[row.start : row.end]) <= width for row in found)
    assert [row.start for row in found[1:]] == [row.after for row in found[:-1]]
    kept = "".join(text[row.start : row.end] for row in found)
    assert kept.replace(" ", "") == text.replace(" ", "")
    assert all(text[row.end : row.after] in ("", " ") for row in found)


@given(
    parts=WORDS,
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(6, 40)), max_size=25),
)
def test_finished_rows_are_the_confirmed_text_in_order(parts: list[str], steps: list[tuple[int, int, int]]) -> None:
    captions, printed, at = Captions(), "", 0
    all_words = said(*parts)
    for confirm, guess, width in steps:
        captions.confirm(all_words[at : at + confirm])
        at = min(at + confirm, len(all_words))
        captions.suppose(said(*[" guess"] * guess))
        for row in captions.take_finished(width):
            assert cell_len(row) <= width
            printed += row
        shown = "".join(known for known, _ in captions.rows(width))
        expected = "".join(parts[:at])
        assert (printed + shown).replace(" ", "") == expected.replace(" ", "")
        assert "guess" not in printed


def test_a_row_waits_until_confirmed_text_goes_on_after_it() -> None:
    captions = Captions()
    captions.confirm(said(" one", " two"))
    captions.suppose(said(" three", " four"))
    assert captions.take_finished(8) == []
    captions.confirm(said(" three"))
    captions.suppose(said(" four"))
    assert captions.take_finished(8) == ["one two"]
    assert captions.rows(20) == [("three", " four")]


def test_a_long_silence_begins_a_new_row() -> None:
    captions = Captions()
    captions.confirm(said(" Before."))
    captions.confirm(said(" After.", start=100 + PARAGRAPH))
    assert captions.take_finished(40) == ["Before."]
    assert captions.rows(40) == [("After.", "")]


def test_the_guess_alone_has_no_leading_space() -> None:
    captions = Captions()
    captions.suppose(said(" maybe"))
    assert captions.rows(40) == [("", "maybe")]


def test_the_status_line_drops_what_matters_least() -> None:
    parts = [("base.en", 1), ("tide", 2), ("0:12", 0)]
    assert status_line(parts, 40) == "base.en · tide · 0:12"
    assert status_line(parts, 20) == "base.en · 0:12"
    assert status_line(parts, 13) == "0:12"
    assert status_line(parts, 3) == "0:1"


@pytest.mark.parametrize(("secs", "text"), [(0, "0:00"), (65.9, "1:05"), (3725, "1:02:05")])
def test_clock_text(secs: float, text: str) -> None:
    assert clock_text(secs) == text


def view(width: int = 40, height: int = 10, *, no_color: bool = False) -> tuple[LiveView, io.StringIO]:
    screen = io.StringIO()
    console = Console(
        file=screen,
        force_terminal=True,
        width=width,
        height=height,
        color_system="standard",
        highlight=False,
        no_color=no_color,
    )
    return LiveView(console, Meter(live=True, clock=lambda: 0.0, cpu=lambda: 0.0), "base.en", "tide"), screen


def test_a_frame_has_confirmed_plain_and_guess_dim() -> None:
    live, _ = view(width=60)
    live.event(Confirmed(0, SAMPLE_RATE, tuple(said(" It", " rains"))))
    live.event(Hypothesis(1, SAMPLE_RATE, tuple(said(" today"))))
    live.meter.audio(3 * SAMPLE_RATE)
    finished, drawn = live.frame()
    assert finished == []
    assert [row.plain for row in drawn] == ["It rains today", "base.en · tide · 0:03 · lag 0.0 s · CPU 0 %"]
    assert [(span.start, span.end, span.style) for span in drawn[0].spans] == [(8, 14, "dim italic")]


def test_the_last_frame_is_the_text_alone() -> None:
    live, _ = view()
    live.event(Confirmed(0, SAMPLE_RATE, tuple(said(" Done."))))
    live.event(Hypothesis(1, SAMPLE_RATE, ()))
    finished, drawn = live.frame(last=True)
    assert ([row.plain for row in finished], drawn) == (["Done."], [])


def test_a_guess_taller_than_the_screen_shows_its_end() -> None:
    live, _ = view(width=20, height=5)
    live.event(Hypothesis(0, SAMPLE_RATE, tuple(said(*[f" guess{n:02d}" for n in range(40)]))))
    _, drawn = live.frame()
    assert len(drawn) == 4
    assert "guess39" in drawn[-2].plain


def test_an_error_in_mid_run_stays_on_the_screen() -> None:
    live, _ = view()
    live.event(Error(0, 0, "one round failed", fatal=False))
    live.note("microphone: 0.2 s were lost")
    assert [row.plain for row in live.frame()[0]] == ["warning: one round failed", "microphone: 0.2 s were lost"]
    assert live.frame()[0] == []


def screen_after(stream: str, width: int = 40) -> list[str]:
    """What a terminal shows: enough of one to follow the view's own control codes."""
    lines, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[?0-9;]*[a-zA-Z]|[\s\S]", stream):
        if token == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif token == "\r":
            column = 0
        elif token == "\x1b[2K":
            lines[row] = ""
        elif token == "\x1b[J":
            assert (row, column) != (0, 0), "at the top, some terminals take this for a new page"
            lines[row:] = [lines[row][:column]]
        elif token.startswith("\x1b["):
            if token.endswith("A"):
                row -= int(token[2:-1])
                assert row >= 0
        else:
            lines[row] = lines[row][:column].ljust(column) + token + lines[row][column + 1 :]
            column += 1
            assert column <= width
    return [line.rstrip() for line in lines]


def test_a_run_leaves_its_text_on_the_screen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_view, "_FRAME_S", 3600.0)  # its thread would draw at the same time as this one
    live, screen = view()
    live.open()
    for number in range(30):
        live.event(Confirmed(number, 0, tuple(said(f" word{number}"))))
        live.event(Hypothesis(number, 0, tuple(said(" and", " so", " on"))))
        live._draw()
    live.event(Hypothesis(30, 0, ()))
    live.close()
    shown = screen_after(screen.getvalue())
    assert " ".join(shown).split() == [f"word{n}" for n in range(30)]
    assert "\x1b[?25h" in screen.getvalue()[-20:]  # the cursor is visible again


def test_a_terminal_that_is_closed_does_not_end_the_run() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    live, _ = view()
    live.console.file = Gone()
    live.open()
    live.event(Confirmed(0, 0, tuple(said(" word"))))
    live.close()


def test_closing_twice_draws_once() -> None:
    live, screen = view()
    live.open()
    live.close()
    length = len(screen.getvalue())
    live.close()
    assert len(screen.getvalue()) == length


def test_without_colour_there_is_none() -> None:
    live, screen = view(no_color=True)
    live.event(Hypothesis(0, 0, tuple(said(" guess"))))
    live._draw()
    assert not re.search(r"\x1b\[[0-9;]*3[0-7][;m]", screen.getvalue())
    coloured, screen = view()
    coloured._draw()
    assert re.search(r"\x1b\[[0-9;]*3[0-7][;m]", screen.getvalue())
