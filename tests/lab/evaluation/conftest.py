"""Figures are not laid out where only their numbers are looked at: it takes longer than all else in these tests."""

import pytest


@pytest.fixture(autouse=True)
def layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none; `test_drawing` says otherwise."""
    monkeypatch.setattr("matplotlib.figure.Figure.draw_without_rendering", lambda figure: None)
