import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from whispertide import extras
from whispertide.dictation import wayland
from whispertide.dictation.keyboard import open_keyboard
from whispertide.dictation.wayland import WaylandKeyboard
from whispertide.errors import KeyboardError, OptionError


def test_without_a_display_it_says_what_to_do() -> None:
    with pytest.raises(KeyboardError, match=r"expected a display .* or with --print"):
        open_keyboard({}, "linux")


def test_without_the_package_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in extras.EXTRAS["dictate"]:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        OptionError, match=r"the extra 'dictate' for typing into windows; .*pip install '\.\[dictate\]'"
    ):
        open_keyboard({"DISPLAY": ":0"}, "linux")
    with pytest.raises(OptionError, match="the extra 'dictate'"):
        open_keyboard({}, "darwin")


def test_a_display_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("xcffib") is None:
        pytest.skip("not installed: xcffib")
    monkeypatch.setenv("DISPLAY", ":9999")
    with pytest.raises(KeyboardError, match=r"expected (an X11 display|libxcb)"):
        open_keyboard({"DISPLAY": ":9999"}, "linux")


def test_wayland_counts_where_x11_is_there_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    both = {"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}
    with pytest.raises(KeyboardError, match="expected wtype or ydotool"):
        open_keyboard(both, "linux")
    for name, command in (("ydotool", wayland.ydotool), ("wtype", wayland.wtype)):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        assert open_keyboard(both, "linux") == WaylandKeyboard(command)  # wtype before ydotool
