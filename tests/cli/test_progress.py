"""Bars at a terminal, and lines where there is none."""

import pytest

from whispertide.cli.exit import say
from whispertide.cli.progress import counting


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error as rich sees a terminal of 100 columns."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "100")):
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("at_a_terminal")
def test_a_bar_is_drawn_before_anything_is_known_of_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    with counting("steps"):
        pass
    assert "0/?" in capsys.readouterr().err


@pytest.mark.usefixtures("at_a_terminal")
def test_a_bar_counts_and_lines_go_above_it(capsys: pytest.CaptureFixture[str]) -> None:
    with counting("steps") as advance:
        advance("hearing", 3, 8)
        say("half of it")
    drawn = capsys.readouterr().err
    assert "hearing" in drawn
    assert "3/8" in drawn
    assert "half of it" in drawn


def test_without_a_terminal_a_line_says_what_is_running(capsys: pytest.CaptureFixture[str]) -> None:
    with counting("steps") as advance:
        for done in range(3):
            advance("hearing", done, 8)
        advance("learning", 0, 2)
    assert capsys.readouterr().err.split() == ["hearing", "learning"]
