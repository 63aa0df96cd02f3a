"""How `whispertide understand` is interrupted, with a network that understands one thing a second."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from wav_file import save_wav
from whispertide.audio import mic
from whispertide.cli import understand as command
from whispertide.cli.main import app
from whispertide.errors import TruncatedAudioError
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide.understand import understanding
from whispertide.understand.model import LateModel
from whispertide.understand.understanding import Understood

LINES = command._Lines("one.wav")


def second(number: int) -> Understood:
    start = SAMPLE_RATE * number
    return Understood(f"intent{number}", "words", start, start + SAMPLE_RATE, perplexity=1.0, final=True)


class Fake:
    """Somebody presses Ctrl-C while the second numbered `press_at` is being decoded."""

    press_at = -1
    live: ClassVar[list[bool]] = []

    def __init__(self, *_: object, live: bool, **__: object) -> None:
        self.seconds = 0
        self.live.append(live)

    def push(self, samples: FloatArray) -> list[Understood]:
        if self.seconds == self.press_at:
            signal.raise_signal(signal.SIGINT)
        self.seconds += 1
        return [second(self.seconds - 1)]

    def finish(self) -> list[Understood]:
        return [second(self.seconds)]


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(understanding, "Understanding", Fake)
    monkeypatch.setattr(Fake, "live", [])
    return Fake(live=False)


def intents(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.split()[2] for line in capsys.readouterr().out.splitlines()]


def silence(seconds: int) -> Iterator[FloatArray]:
    yield from [np.zeros(SAMPLE_RATE, np.float32)] * seconds


def test_all_that_is_understood_is_told(network: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert command._print_intents(network, silence(2), LINES)
    assert intents(capsys) == ["intent0", "intent1", "intent2"]


def test_what_is_being_decoded_at_ctrl_c_is_told(
    network: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Fake, "press_at", 1)
    assert not command._print_intents(network, silence(9), LINES)
    assert intents(capsys) == ["intent0", "intent1", "intent2"]


def test_ctrl_c_ends_the_wait_for_audio(network: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def waiting() -> Iterator[FloatArray]:
        yield from silence(1)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the wait went on")

    assert not command._print_intents(network, waiting(), LINES)
    assert intents(capsys) == ["intent0", "intent1"]


def test_audio_that_breaks_off_is_told_after_what_there_was(network: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> Iterator[FloatArray]:
        yield from silence(1)
        raise TruncatedAudioError("cut off")

    with pytest.raises(TruncatedAudioError):
        command._print_intents(network, broken(), LINES)
    assert intents(capsys) == ["intent0", "intent1"]


def test_only_the_microphone_is_live(network: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    @contextmanager
    def microphone(_: object) -> Iterator[Iterator[FloatArray]]:
        yield silence(1)

    monkeypatch.setattr(mic, "microphone_blocks", microphone)
    monkeypatch.setattr(LateModel, "open", lambda *_, **__: None)
    save_wav(tmp_path / "one.wav", np.zeros(SAMPLE_RATE, np.float32))
    for source in ("mic", str(tmp_path / "one.wav")):
        assert CliRunner().invoke(app, ["understand", source]).exit_code == 0
    assert Fake.live[1:] == [True, False]


@pytest.mark.usefixtures("network")
def test_of_several_files_each_line_names_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the path as it was given, because two folders may have a file of one name."""
    monkeypatch.setattr(LateModel, "open", lambda *_, **__: None)
    monkeypatch.chdir(tmp_path)
    for name in ("a.wav", "b/a.wav"):
        Path(name).parent.mkdir(exist_ok=True)
        save_wav(Path(name), np.zeros(SAMPLE_RATE, np.float32))

    def told(*arguments: str) -> list[str]:
        result = CliRunner().invoke(app, ["understand", *arguments])
        assert result.exit_code == 0
        return result.stdout.splitlines()

    assert [line.split()[0] for line in told("a.wav", "b/a.wav")] == ["a.wav:", "a.wav:", "b/a.wav:", "b/a.wav:"]
    assert [line.split()[0] for line in told("a.wav")] == ["0.00", "1.00"]
    assert [json.loads(line)["source"] for line in told("a.wav", "b/a.wav", "--json")][1:3] == ["a.wav", "b/a.wav"]
    assert [json.loads(line)["source"] for line in told("a.wav", "--json")] == ["a.wav", "a.wav"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["mic", "one.wav"], "expected mic alone, or recordings; got both"),
        (["-", "one.wav", "-"], "standard input can be read once"),
        (["one.wav", "--send-below", "70"], "--send-below"),  # per cent
        (["one.wav", "--device", "USB"], "expected mic next to --device, which is a microphone; got one.wav"),
    ],
)
def test_what_cannot_be_meant_is_told_before_a_network_is_loaded(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.setattr(LateModel, "open", lambda *_, **__: pytest.fail("it was loaded"))
    result = CliRunner().invoke(app, ["understand", *arguments])
    assert (result.exit_code, told in result.stderr) == (2, True)


@pytest.mark.usefixtures("network")
def test_a_recording_that_is_broken_off_by_ctrl_c_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(LateModel, "open", lambda *_, **__: None)
    monkeypatch.setattr(Fake, "press_at", 0)
    save_wav(tmp_path / "one.wav", np.zeros(SAMPLE_RATE, np.float32))
    result = CliRunner().invoke(app, ["understand", str(tmp_path / "one.wav")])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize(
    ("chance", "perplexity", "told"),
    [
        (0.49, 1.0, "(uncertain: 49%)"),
        (0.5, 2.0, ""),
        (None, 1.0, ""),
        (0.9, 5.0, "(uncertain: 20%)"),  # an intent for certain, of words that are none
        (None, 5.0, "(uncertain: 20%)"),
    ],
)
def test_a_weak_guess_is_said(
    capsys: pytest.CaptureFixture[str], chance: float | None, perplexity: float, told: str
) -> None:
    LINES.print([replace(second(0), chance=chance, perplexity=perplexity)])
    assert capsys.readouterr().out.rstrip("\n").endswith(f"words  {told}".rstrip())
