"""The command with a fake model (word0, word1, ...: one each half second), a fake keyboard and a fake microphone."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from command_line import Run, write_wav
from fake_keyboard import FakeKeyboard
from fake_transcriber import FakeTranscriber
from whispertide.audio import mic
from whispertide.cli import typist
from whispertide.cli.pump import Pump
from whispertide.dictation import keyboard as keyboards
from whispertide.errors import AudioDeviceError, GraphError, KeyboardError
from whispertide.types import SAMPLE_RATE, FloatArray

WORDS = "word0 word1 word2 word3 word4 word5"


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> FakeKeyboard:
    fake = FakeKeyboard()
    monkeypatch.setattr(keyboards, "open_keyboard", lambda: fake)
    return fake


class Microphone:
    """Gives three seconds of audio at once, then nothing, until it is closed."""

    def __init__(self) -> None:
        self.opened = 0
        self.open = False
        self.then: Callable[[], None] = lambda: None  # after the audio
        self.unplugged = False

    @contextmanager
    def __call__(self, device: object = None) -> Iterator[Iterator[FloatArray]]:
        self.open = True
        self.opened += 1
        closed = threading.Event()
        yield self._record(closed)
        closed.set()
        self.open = False

    def was_found(self) -> bool:
        """True once the command has looked for it, before it loads a model: then its keys are watched."""
        return self.opened > 0 and not self.open

    def _record(self, closed: threading.Event) -> Iterator[FloatArray]:
        yield from np.split(np.full(3 * SAMPLE_RATE, 0.1, np.float32), 30)
        if self.unplugged:
            raise AudioDeviceError("the microphone 'USB' stopped")
        time.sleep(0.3)  # until it was heard
        self.then()
        closed.wait(10)


@pytest.fixture
def microphone(monkeypatch: pytest.MonkeyPatch) -> Microphone:
    fake = Microphone()
    monkeypatch.setattr(mic, "microphone_blocks", fake)
    return fake


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_recording_is_typed(run: Run, keyboard: FakeKeyboard, talk: Path) -> None:
    result = run("dictate", "--audio", talk)
    assert (result.exit_code, result.stdout) == (0, "")
    assert keyboard.screen == WORDS
    assert keyboard.closed


def test_printed_it_needs_no_keyboard(run: Run, talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyboards, "open_keyboard", None)
    result = run("dictate", "--audio", talk, "--print")
    assert (result.exit_code, result.stdout) == (0, WORDS + "\n")
    assert result.stderr.splitlines() == ["dictating; press Ctrl-C to end"]
    piped = run("dictate", "--audio", "-", "--print", stdin=talk.read_bytes())
    assert (piped.exit_code, piped.stdout) == (0, WORDS + "\n")


def test_commands_of_a_file_are_obeyed(run: Run, talk: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('"word0 word1 word2 word3 word4 word5" = "all"\n')  # the whole utterance
    assert run("dictate", "--audio", talk, "--print", "--commands", mine).stdout == "all\n"
    mine.write_text('"word0" = "all"\n')  # a word of it
    assert run("dictate", "--audio", talk, "--print", "--commands", mine).stdout == WORDS + "\n"


def test_every_pause_ends_an_utterance(run: Run, talk: Path, transcriber: FakeTranscriber) -> None:
    """So that a command between two of them is one."""
    run("dictate", "--audio", talk, "--print")
    run("dictate", "--audio", talk, "--print", "--set", "vad_turn_s=2")
    run("dictate", "--audio", talk, "--print", "--recipe", "simulstreaming")
    assert [recipe.schedule.vad_turn_s for recipe in transcriber.recipes[:2]] == [0, 2]
    assert transcriber.recipes[2].name == "simulstreaming"


def test_a_key_begins_and_ends(run: Run, keyboard: FakeKeyboard, microphone: Microphone) -> None:
    def press() -> None:
        assert keyboard.switch is not None
        keyboard.switch.press()
        keyboard.switch.release()

    def wait_for_the_end(opened: int) -> None:
        wait_until(lambda: microphone.opened > opened and not microphone.open)

    def person() -> None:
        wait_until(microphone.was_found)
        for _ in range(2):
            time.sleep(0.1)
            assert not microphone.open  # while nobody dictates
            opened = microphone.opened
            press()
            wait_for_the_end(opened)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    microphone.then = press
    somebody = threading.Thread(target=person)
    somebody.start()
    result = run("dictate", "--key", "f9")
    somebody.join()
    assert result.exit_code == 0
    assert str(keyboard.chord) == "f9"
    assert keyboard.screen == f"{WORDS} {WORDS}"
    said = [line for line in result.stderr.splitlines() if "dict" in line]
    assert said == [
        "ready; press f9 to dictate, and again to end; press Ctrl-C here to quit",
        *["dictating", "not dictating"] * 2,
    ]


def test_held_it_types_until_the_key_comes_up(run: Run, keyboard: FakeKeyboard, microphone: Microphone) -> None:
    def person() -> None:
        wait_until(microphone.was_found)
        assert keyboard.switch is not None
        keyboard.switch.press()

    def let_go() -> None:
        assert keyboard.switch is not None
        keyboard.switch.release()
        wait_until(lambda: not microphone.open)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    microphone.then = lambda: threading.Thread(target=let_go).start()
    threading.Thread(target=person).start()
    result = run("dictate", "--hold", "--key", "f9")
    assert (result.exit_code, keyboard.screen) == (0, WORDS)
    assert "hold f9 down" in result.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs SIGUSR1")
def test_a_signal_begins_and_ends(run: Run, keyboard: FakeKeyboard, microphone: Microphone) -> None:
    before = signal.getsignal(signal.SIGUSR1)

    def tap() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    def person() -> None:
        wait_until(microphone.was_found)
        opened = microphone.opened
        tap()
        wait_until(lambda: microphone.opened > opened and not microphone.open)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    microphone.then = tap
    threading.Thread(target=person).start()
    result = run("dictate", "--key", "signal")
    assert (result.exit_code, keyboard.screen) == (0, WORDS)
    assert f"kill -USR1 {os.getpid()}" in result.stderr
    assert signal.getsignal(signal.SIGUSR1) is before


def test_ctrl_c_types_the_last_words(run: Run, keyboard: FakeKeyboard, microphone: Microphone) -> None:
    microphone.then = lambda: os.kill(os.getpid(), signal.SIGINT)
    result = run("dictate", "--key", "none")
    assert (result.exit_code, keyboard.screen) == (0, WORDS)


def test_a_microphone_that_is_unplugged_is_told(run: Run, keyboard: FakeKeyboard, microphone: Microphone) -> None:
    microphone.unplugged = True
    result = run("dictate", "--key", "none")
    assert (result.exit_code, keyboard.screen) == (3, WORDS)
    assert "the microphone 'USB' stopped" in result.stderr


def test_what_cannot_be_typed_is_printed(run: Run, keyboard: FakeKeyboard, talk: Path) -> None:
    keyboard.broken = True
    result = run("dictate", "--audio", talk)
    assert (result.exit_code, result.stdout) == (5, "word0\n")
    assert result.stderr.splitlines()[-2:] == ["what was said and not typed:", "error: the display is gone"]


def test_what_was_not_typed_when_the_model_fails_is_printed(
    run: Run, keyboard: FakeKeyboard, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise GraphError("the graph cannot be run")

    keyboard.busy = 1_000_000  # somebody leans on Shift
    monkeypatch.setattr(Pump, "_finish", fails)
    result = run("dictate", "--audio", talk)
    assert result.exit_code == 4
    assert result.stdout.split()[:2] == ["word0", "word1"]


def test_what_waits_for_a_key_to_come_up_is_printed_at_ctrl_c(
    run: Run, keyboard: FakeKeyboard, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(_: float) -> None:
        raise KeyboardInterrupt

    keyboard.busy = 1_000_000  # somebody leans on Shift
    monkeypatch.setattr(typist, "time", SimpleNamespace(sleep=pressed))
    result = run("dictate", "--audio", talk)
    assert (result.exit_code, result.stdout, keyboard.screen) == (130, WORDS + "\n", "")


def test_without_a_display_no_model_is_loaded(
    run: Run, monkeypatch: pytest.MonkeyPatch, loads: list[object], microphone: Microphone
) -> None:
    def none() -> object:
        raise KeyboardError("expected a display to type into")

    monkeypatch.setattr(keyboards, "open_keyboard", none)
    result = run("dictate")
    assert (result.exit_code, loads, microphone.opened) == (5, [], 0)
    assert result.stderr == "error: expected a display to type into\n"


def test_without_a_microphone_no_model_is_loaded(
    run: Run, keyboard: FakeKeyboard, monkeypatch: pytest.MonkeyPatch, loads: list[object]
) -> None:
    def none(device: object = None) -> object:
        raise AudioDeviceError("expected a microphone; this machine shows none")

    monkeypatch.setattr(mic, "microphone_blocks", none)
    assert (run("dictate").exit_code, loads, keyboard.closed) == (3, [], True)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--key", "ctrl+foo"], "expected keys such as ctrl+alt+space"),
        (["--hold", "--key", "none"], "expected keys to hold"),
        (["--hold", "--print"], "expected keys to hold"),
        (["--audio", "a.wav", "--device", "USB"], "expected --audio or --device"),
        (["--audio", "-", "--key", "f9"], "expected --key none with --audio -"),
        (["--commands", "nowhere.toml"], "expected --commands as a text file"),
        (["--print", "--key", "f9"], "expected --key none with --print"),
        (["--audio", "nowhere.wav"], "nowhere.wav"),
        (["--recipe", "nonsense"], "nonsense"),
    ],
)
def test_wrong_options_are_told_before_a_model_is_loaded(
    run: Run, keyboard: FakeKeyboard, microphone: Microphone, loads: list[object], arguments: list[str], found: str
) -> None:
    result = run("dictate", *arguments)
    assert result.exit_code != 0
    assert found in result.stderr
    assert loads == []


def test_nothing_is_stored(
    run: Run, keyboard: FakeKeyboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transcriber: FakeTranscriber
) -> None:
    talk = write_wav(tmp_path / "talk.wav", 3)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(empty))
    assert run("dictate", "--audio", talk).exit_code == 0
    assert keyboard.screen == WORDS
    assert list(empty.rglob("*")) == []
