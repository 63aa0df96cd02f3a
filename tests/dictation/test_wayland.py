"""With programs that write down what they were asked: no Wayland is here."""

import shlex
from pathlib import Path

import pytest

from whispertide.dictation.chords import parse_chord
from whispertide.dictation.strokes import Erase, Press, Stroke, Type
from whispertide.dictation.switch import Switch
from whispertide.dictation.wayland import WaylandKeyboard, wtype, ydotool
from whispertide.errors import KeyboardError


def program(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `wtype` and `ydotool` were asked: a line of arguments, then their input."""
    found = tmp_path / "asked"
    for name in ("wtype", "ydotool"):
        program(tmp_path / name, f'echo "$0 $@" | sed "s|.*/||" >> {shlex.quote(str(found))}', f"cat >> {found}")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return found


@pytest.mark.parametrize(
    ("stroke", "by_wtype", "by_ydotool"),
    [
        (Type("Hi there\n"), "wtype -\nHi there\n", "ydotool type --file -\nHi there\n"),
        (Erase("hé"), "wtype -k BackSpace -k BackSpace\n", "ydotool key 14:1 14:0 14:1 14:0\n"),
        (
            Press(parse_chord("ctrl+super+t")),
            "wtype -M ctrl -M logo -k U0074 -m logo -m ctrl\n",
            "ydotool key 29:1 125:1 20:1 20:0 125:0 29:0\n",
        ),
        (Press(parse_chord("shift+enter")), "wtype -M shift -k Return -m shift\n", "ydotool key 42:1 28:1 28:0 42:0\n"),
    ],
)
def test_a_program_types(asked: Path, stroke: Stroke, by_wtype: str, by_ydotool: str) -> None:
    for command, expected in ((wtype, by_wtype), (ydotool, by_ydotool)):
        asked.unlink(missing_ok=True)
        WaylandKeyboard(command).send(stroke)
        assert asked.read_text() == expected


def test_no_list_of_processes_shows_the_text() -> None:
    for command in (wtype, ydotool):
        assert "secret" not in " ".join(command(Type("secret"))[0])


def test_what_ydotool_cannot_type_is_told() -> None:
    with pytest.warns(UserWarning, match="ydotool cannot type é 漢: left out"):
        assert ydotool(Type("aé漢b"))[1] == "ab"
    with pytest.raises(KeyboardError, match="US keyboard"):
        ydotool(Press(parse_chord("ctrl+é")))


def test_a_program_that_does_not_type_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    keyboard = WaylandKeyboard(wtype)
    program(tmp_path / "wtype", "echo Compositor does not support it >&2", "exit 1")
    with pytest.raises(KeyboardError, match=r"wtype did not type \(Compositor does not support it\)"):
        keyboard.send(Type("x"))
    (tmp_path / "wtype").unlink()
    with pytest.raises(KeyboardError, match="expected wtype to type"):
        keyboard.send(Type("x"))


def test_there_is_no_hotkey() -> None:
    keyboard = WaylandKeyboard(wtype)
    with pytest.raises(KeyboardError, match="--key signal"), keyboard.hotkey(parse_chord("f9"), Switch()):
        pass
    assert (keyboard.is_busy(), keyboard.place()) == (False, None)
