from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from each_row import each_row
from slow_rows import slow_but
from sounds import babble, silence
from whispertide.audio.silero import BLOCK
from whispertide.audio.vad import GateEvent, GateOptions, SpeechCertain, SpeechGate, SpeechStarted, SpeechStopped
from whispertide.errors import OptionError
from whispertide.types import SAMPLE_RATE, FloatArray


@dataclass
class Scripted:
    """A detector that says what it is told, block by block, then 0; its state is how far it got."""

    script: Sequence[float]

    def step(self, block: FloatArray, state: int | None) -> tuple[float, int]:
        at = state or 0
        return (self.script[at] if at < len(self.script) else 0.0), at + 1


def run(gate: SpeechGate, samples: FloatArray, cuts: Iterable[int] = ()) -> list[GateEvent]:
    events = [event for part in np.split(samples, sorted(cuts)) for event in gate.feed(part)]
    return events + gate.finish()


def scripted(script: Sequence[float], options: GateOptions | None = None, extra: int = 0) -> list[GateEvent]:
    gate = SpeechGate(options, Scripted(script))
    return run(gate, np.zeros(len(script) * BLOCK + extra, np.float32))


def blocks(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE / BLOCK)


# 2, 2, 10, 4 and 2 blocks
OPTIONS = GateOptions(min_speech=0.064, min_voice=0.064, min_silence=0.32, pre_roll=0.128, post_pad=0.064)


def test_an_utterance_carries_its_pre_roll_and_padding() -> None:
    events = scripted([0.0] * 10 + [0.9] * 6 + [0.0] * 20, OPTIONS)
    assert events == [SpeechStarted(6 * BLOCK, 12 * BLOCK), SpeechStopped(18 * BLOCK, 26 * BLOCK)]
    assert isinstance(events[0], SpeechStarted)
    assert events[0].onset == 10 * BLOCK


def test_the_pre_roll_ends_at_the_start_of_the_stream_and_at_the_previous_utterance() -> None:
    script = [0.9] * 3 + [0.0] * 12 + [0.9] * 3 + [0.0] * 12
    wide = replace(OPTIONS, pre_roll=2.0)
    first, stop, second, _ = scripted(script, wide)
    assert first == SpeechStarted(0, 2 * BLOCK)
    assert stop == SpeechStopped(5 * BLOCK, 13 * BLOCK)
    assert second == SpeechStarted(5 * BLOCK, 17 * BLOCK)


CAREFUL = replace(OPTIONS, min_voice=0.128)  # 4 blocks


def test_so_much_speech_in_a_row_makes_an_utterance_certain() -> None:
    start, stop = SpeechStarted(6 * BLOCK, 12 * BLOCK, is_certain=False), SpeechStopped(18 * BLOCK, 26 * BLOCK)
    assert scripted([0.0] * 10 + [0.9] * 6 + [0.0] * 20, CAREFUL) == [start, SpeechCertain(14 * BLOCK), stop]
    broken = [0.0] * 10 + [0.9, 0.9, 0.9, 0.0, 0.9, 0.4] + [0.0] * 20  # three in a row, and two
    assert scripted(broken, CAREFUL) == [start, stop]
    late = [0.0] * 10 + [0.9, 0.9, 0.9, 0.0, 0.9, 0.4, 0.4, 0.9] + [0.0] * 20
    assert scripted(late, CAREFUL)[1] == SpeechCertain(18 * BLOCK)
    assert all(event.is_certain for event in scripted([0.9] * 9, OPTIONS) if isinstance(event, SpeechStarted))


def test_a_click_does_not_open() -> None:
    assert scripted([0.0, 0.9, 0.0, 0.9, 0.0, 0.0], OPTIONS) == []


def test_hysteresis_counts_between_the_thresholds_only_once_begun() -> None:
    assert scripted([0.4] * 50, OPTIONS) == []
    started, stopped = scripted([0.6] + [0.4] * 50, OPTIONS)
    assert started == SpeechStarted(0, 2 * BLOCK)
    assert stopped == SpeechStopped(51 * BLOCK, 51 * BLOCK)


def test_a_short_pause_does_not_close() -> None:
    events = scripted(([0.9] * 3 + [0.0] * 9) * 5, OPTIONS)
    assert events == [SpeechStarted(0, 2 * BLOCK), SpeechStopped(60 * BLOCK, 60 * BLOCK)]


def test_finish_closes_at_the_very_last_sample_and_the_gate_can_go_on() -> None:
    gate = SpeechGate(OPTIONS, Scripted([0.9] * 100))
    assert gate.feed(np.zeros(5 * BLOCK + 77, np.float32)) == [SpeechStarted(0, 2 * BLOCK)]
    assert gate.snapshot().is_open
    assert (gate.snapshot().judged, gate.received) == (5 * BLOCK, 5 * BLOCK + 77)
    assert gate.finish() == [SpeechStopped(5 * BLOCK + 77, 5 * BLOCK + 77)]
    assert not gate.snapshot().is_open
    assert gate.finish() == []
    assert gate.feed(np.zeros(3 * BLOCK, np.float32)) == [SpeechStarted(5 * BLOCK + 77, 7 * BLOCK)]


@pytest.mark.parametrize(("voice", "silence_after", "certain"), [(3, 0, True), (3, 1, False), (12, 0, False)])
def test_a_voice_that_the_end_cuts_off_is_no_click(voice: int, silence_after: int, certain: bool) -> None:
    """Nobody knows whether it would have gone on. A click before it was one, and what is certain is not said twice."""
    gate = SpeechGate(replace(OPTIONS, min_voice=0.32), Scripted([0.0] * 5 + [0.9] * voice))
    before = gate.feed(np.zeros((5 + voice + silence_after) * BLOCK + 7, np.float32))
    assert [type(event) for event in before] == [SpeechStarted, *[SpeechCertain] * (voice >= 10)]
    end = (5 + voice + silence_after) * BLOCK + 7
    assert gate.finish() == [*[SpeechCertain(end)] * certain, SpeechStopped(end, end)]
    assert gate.finish() == []


def test_needed_from_never_runs_ahead_of_the_next_start() -> None:
    rng = np.random.default_rng(3)
    gate = SpeechGate(OPTIONS, Scripted(rng.choice([0.0, 0.9], 400, p=[0.8, 0.2]).tolist()))
    needed = 0
    starts = 0
    for _ in range(400):
        for event in gate.feed(np.zeros(BLOCK, np.float32)):
            if isinstance(event, SpeechStarted):
                assert event.start >= needed
                starts += 1
        if not gate.snapshot().is_open:
            assert gate.needed_from >= needed
            needed = gate.needed_from
    assert starts > 3
    assert needed > 300 * BLOCK


@given(
    script=st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.9]), max_size=120),
    cuts=st.lists(st.integers(0, 120 * BLOCK), max_size=20),
    extra=st.integers(0, BLOCK - 1),
)
def test_events_alternate_and_portions_do_not_change_them(script: list[float], cuts: list[int], extra: int) -> None:
    samples = np.zeros(len(script) * BLOCK + extra, np.float32)
    whole = run(SpeechGate(OPTIONS, Scripted(script)), samples)
    assert run(SpeechGate(OPTIONS, Scripted(script)), samples, cuts) == whole
    edge = 0
    for number, event in enumerate(whole):
        assert isinstance(event, SpeechStopped if number % 2 else SpeechStarted)
        at = event.end if isinstance(event, SpeechStopped) else event.start
        assert edge <= at <= event.decided_at <= len(samples)
        edge = at
    assert len(whole) % 2 == 0


@pytest.mark.slow
@settings(max_examples=6)
@given(cuts=st.lists(st.integers(0, 6 * SAMPLE_RATE), max_size=12), at=st.integers(0, 6 * SAMPLE_RATE))
def test_portions_and_snapshots_do_not_change_what_silero_decides(cuts: list[int], at: int) -> None:
    sound = np.concatenate([silence(1.0), babble(1.2) * 0.01, silence(1.5), babble(1.0, seed=1), silence(1.3)])
    whole = run(SpeechGate(), sound)
    assert [type(event) for event in whole] == 2 * [SpeechStarted, SpeechCertain, SpeechStopped]
    assert run(SpeechGate(), sound, cuts) == whole

    gate = SpeechGate()
    before = gate.feed(sound[:at])
    state = gate.snapshot()
    assert before + gate.feed(sound[at:]) + gate.finish() == whole
    gate.restore(state)  # back, with the same outcome, and once more from a gate that never heard the beginning
    assert before + gate.feed(sound[at:]) + gate.finish() == whole
    other = SpeechGate()
    other.restore(state)
    assert before + other.feed(sound[at:]) + other.finish() == whole


@pytest.mark.parametrize("level", slow_but([0, -20, -40], -40))
def test_quiet_speech_is_not_lost(level: int) -> None:
    """-40 dB is a voice at -55 dBFS, beyond what has to work."""
    said = [(2.0, 3.5), (7.0, 7.6), (11.0, 14.0)]
    sound = silence(16.0)
    for number, (start, end) in enumerate(said):
        sound[int(start * SAMPLE_RATE) : int(end * SAMPLE_RATE)] = babble(end - start, seed=number)
    events = run(SpeechGate(), sound * np.float32(10 ** (level / 20)))
    assert len(events) == 9
    for (start, end), started, certain, stopped in zip(said, events[::3], events[1::3], events[2::3], strict=True):
        assert isinstance(started, SpeechStarted)
        assert isinstance(certain, SpeechCertain)
        assert isinstance(stopped, SpeechStopped)
        assert (start - 1.3) * SAMPLE_RATE < started.start < start * SAMPLE_RATE
        assert end * SAMPLE_RATE < stopped.end < (end + 0.8) * SAMPLE_RATE


@pytest.mark.parametrize("seed", slow_but([2, 3, 6, 7], 2))
def test_a_quiet_speaker_after_a_loud_one_is_heard(seed: int) -> None:
    quiet = babble(2.0, seed) * np.float32(10 ** (-30 / 20))  # Silero alone misses all of these
    events = run(SpeechGate(), np.concatenate([babble(2.0), silence(1.5), quiet, silence(1.0)]))
    assert [type(event) for event in events] == [SpeechStarted, SpeechCertain, SpeechStopped] * 2


@cache
def noises() -> dict[str, FloatArray]:
    size = 20 * SAMPLE_RATE
    spectrum = np.fft.rfft(np.random.default_rng(5).standard_normal(size))
    bins = np.maximum(np.arange(len(spectrum)), 1)
    t = np.arange(size) / SAMPLE_RATE
    made = {
        "white": np.fft.irfft(spectrum, size),
        "pink": np.fft.irfft(spectrum / np.sqrt(bins), size),
        "hum": np.sum([np.sin(2 * np.pi * 50 * k * t) / k for k in (1, 2, 3, 5, 7)], axis=0),
        "offset": np.full(size, 1.0) + 1e-3 * np.random.default_rng(6).standard_normal(size),
    }
    return {name: (sound / np.sqrt(np.mean(sound**2))).astype(np.float32) for name, sound in made.items()}


@pytest.mark.slow
@pytest.mark.parametrize("level", [-80, -50, -20])
@pytest.mark.parametrize("name", ["white", "pink", "hum", "offset"])
def test_noise_does_not_open_the_gate(name: str, level: int) -> None:
    assert run(SpeechGate(), noises()[name] * np.float32(10 ** (level / 20))) == []


@pytest.mark.slow
def test_silence_does_not_open_the_gate_and_nothing_overflows() -> None:
    gate = SpeechGate()
    for _ in range(30):
        assert gate.feed(silence(4.0)) == []
    assert gate.finish() == []


def test_memory_does_not_grow() -> None:
    gate = SpeechGate(OPTIONS, Scripted([]))
    for _ in range(200):
        gate.feed(np.zeros(1001, np.float32))
        assert gate.received - gate.snapshot().judged < BLOCK
        base = gate.snapshot().pending
        assert base.base is None  # a view would keep the caller's array alive


@each_row(
    ("settings_", "message"),
    [
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": 1.0}, "threshold"),
        ({"threshold": 0.3, "release": 0.4}, "release <= threshold"),
        ({"min_silence": -1.0}, "min_silence"),
        ({"pre_roll": float("nan")}, "pre_roll"),
        ({"min_silence": 0.1, "post_pad": 0.2}, "post_pad <= min_silence"),
    ],
)
def test_impossible_settings_are_refused(settings_: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        GateOptions(**settings_)
