"""Commands as a person gets them understood: words, intent, waits; and the table over ways."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmark_scripts import benchmark
from small_late import small_late
from whispertide.understand import understanding
from whispertide.understand.model import LateModel
from whispertide.understand.understanding import PilotTimes, Understood
from whispertide_lab.training.latecontext.folder import save_late
from whispertide_lab.training.latecontext.understood import (
    BASE,
    WAYS,
    CommandResult,
    Way,
    around,
    hear,
    score,
)
from whispertide_lab.training.shards import Utterance


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LateModel:
    folder = tmp_path_factory.mktemp("late")
    save_late(small_late(), folder / "model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHISPERTIDE_CACHE", str(folder / "cache"))
        return LateModel.open(folder / "model")


def command(length: int = 48_000) -> Utterance:
    """Three seconds of a hum that the gate takes for a voice, or does not."""
    place = np.arange(length) / 16_000
    sound = sum(np.sin(2 * np.pi * 120 * k * place) / k for k in range(1, 20)) * (1 + np.sin(2 * np.pi * 4 * place))
    return Utterance((2000 * sound).astype(np.int16), "play some music", "hum", None, intent="play_music")


class Scripted:
    """Says what it was told, whatever it hears, and counts what it hears."""

    def __init__(self, told: list[Understood]) -> None:
        self.told, self.samples = told, 0

    def __call__(self, *_: object, **__: object) -> "Scripted":
        return self

    def push(self, samples: np.ndarray) -> list[Understood]:
        self.samples += len(samples)
        return []

    def finish(self) -> list[Understood]:
        return self.told


def said(text: str, intent: str | None, wait_s: float, *, final: bool = True) -> Understood:
    return Understood(intent, text, 0, 48_000, 1.5, final, 0.9, wait_s=wait_s)


def test_errors_intent_and_wait_are_those_of_the_end(model: LateModel, monkeypatch: pytest.MonkeyPatch) -> None:
    guess = said("play", "play_music", 0.5, final=False)
    told = Scripted([guess, said("play a music", "play_music", 0.2), said("now", None, 0.1)])
    monkeypatch.setattr("whispertide_lab.training.latecontext.understood.Understanding", told)
    clock = iter(range(1000))
    monkeypatch.setattr("whispertide_lab.training.latecontext.understood.time.process_time", lambda: next(clock))
    usage = SimpleNamespace(energy_j=0.25)
    meter = SimpleNamespace(read=lambda: usage)
    monkeypatch.setattr("whispertide_lab.training.latecontext.understood.Meter", lambda: meter)
    heard = hear(model, command(), WAYS[BASE])
    pushes = -(-len(around(command())) // 1600)
    assert heard == CommandResult(
        errors=2,
        words=3,
        right=True,
        speech_s=3.0,
        wait_s=1,
        cpu_s=pushes + 1,
        early=True,
        perplexity=1.5,
        chance=0.9,
        energy_j=0.25,
        guesses=1,
    )
    assert told.samples == len(around(command())) == 48_000 + 16_000 + 4800
    told.told = []
    usage.energy_j = None
    assert hear(model, command(), WAYS[BASE]) == CommandResult(3, 3, False, 3.0, None, pushes + 1, None)
    told.told = [said("play some music", "alarm_set", 0.1)]
    assert not hear(model, command(), WAYS[BASE]).right


def test_all_commands_together() -> None:
    one = CommandResult(1, 4, True, 2.0, 0.1, 0.6, None)
    found = score([one, replace(one, errors=2, right=False, wait_s=0.3, early=True), replace(one, early=False)])
    assert (found.commands, found.wer, found.intents, found.early) == (3, 4 / 12, 2 / 3, 0.5)
    assert found.wait_mean_s == pytest.approx(0.5 / 3)
    assert found.delay == pytest.approx(0.5 / 6)
    assert found.cpu_s_per_s == pytest.approx(0.3)
    assert score([one]).early is None
    assert found.unanswered == 0
    assert found.energy_j_per_s is None
    told = replace(one, energy_j=5.0)
    assert score([told, replace(told, energy_j=7.0)]).energy_j_per_s == 3.0
    assert score([told, one]).energy_j_per_s is None, "half of the truth is none"


def test_what_gets_no_final_text_is_no_wait_of_nothing() -> None:
    one = CommandResult(1, 4, True, 2.0, 0.1, 0.6, None)
    silent = CommandResult(4, 4, False, 2.0, None, 0.6, None)
    found = score([one, silent])
    assert (found.wait_mean_s, found.wait_p90_s, found.delay) == pytest.approx((0.1, 0.1, 0.05))
    assert (found.commands, found.unanswered, found.wer) == (2, 1, 5 / 8)
    assert np.isnan([score([silent]).wait_mean_s, score([silent]).wait_p90_s, score([silent]).delay]).all()


def test_what_sending_commands_saves() -> None:
    with benchmark("sent_commands") as script:
        # Two are wrong here; the server hears one of them, and gets one wrong that is right here.
        found = [
            script.Sent(here, there, {"chance of the intent": unsure})
            for here, there, unsure in ((False, True, 0.9), (False, False, 0.8), (True, False, 0.1), (True, True, 0.2))
        ]
        table = script.table({BASE: found})
    assert script.wrong(found, [0.9, 0.8, 0.1, 0.2]) == [0.5, 0.25, 0.25, 0.25, 0.5]
    # None sent is as good as all: half of the intents are right either way.
    assert table.rows == (
        (BASE, "50.0", "chance of the intent", "0", "100.0", "1.00"),
        (BASE, "50.0", "random", "0", "100.0", "0.50"),
    )


def test_what_chance_sends_is_judged_as_what_a_signal_sends() -> None:
    with benchmark("sent_commands") as script:
        found = [script.Sent(number > 0, True, {"chance of the intent": 0.5}) for number in range(10)]
        (_, chance) = script.table({BASE: found}).rows
    assert chance[2] == "random"
    assert int(chance[3]) in (5, 6), "until the one that is wrong here: 5.5 on average; their mean curve needs 9"


def test_the_level_of_a_recording_does_not_matter() -> None:
    quiet = replace(command(), samples=(command().samples // 10).astype(np.int16))
    np.testing.assert_allclose(around(quiet), around(command()), atol=2e-3)


def test_a_network_is_really_asked(model: LateModel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[PilotTimes] = []
    made = understanding.Understanding.__init__

    def noted(stream: understanding.Understanding, network: LateModel, **given: PilotTimes) -> None:
        asked.append(given["pilots"])
        made(stream, network, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(understanding.Understanding, "__init__", noted)
    heard = hear(model, command(), Way(PilotTimes(every_s=0.5)))
    assert asked == [PilotTimes(every_s=0.5)]
    assert heard.words == 3
