"""What must be sent to a server: which server hears the commands."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmark_scripts import benchmark
from whispertide_lab.training.shards import Utterance

SAID = Utterance(np.ones(16_000, np.int16), "play me a song", "", None, intent="play_music")


def test_the_server_has_a_larger_whisper_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server knows what was said, so the text is the most that one can bring, and has to be asked for."""
    asked: list[str] = []

    def load(name: str) -> Any:
        asked.append(name)
        return SimpleNamespace(transcribe=lambda audio, **_: SimpleNamespace(text=" Play me a thong."))

    with benchmark("sent_commands") as script:
        monkeypatch.setattr(script.api, "load", load)
        assert script.SERVER == "base"
        assert script.listening(script.SERVER)(SAID) == "play me a thong"
        assert script.listening(script.TEXT)(SAID) == "play me a song"
    assert asked == ["base"]


def test_those_that_go_wrong_here_and_right_there_are_worth_sending() -> None:
    with benchmark("sent_commands") as script:
        heard = [script.Sent(False, True, {"chance": 0.9}), script.Sent(True, True, {"chance": 0.1})]
        assert script.wrong(heard, [one.signals["chance"] for one in heard]) == [0.5, 0.0, 0.0]
