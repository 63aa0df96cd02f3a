import pytest

from whispertide.cli.meter import Meter
from whispertide.events import Confirmed, Hypothesis, Lag, RoundStats
from whispertide.types import SAMPLE_RATE, Word


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def meter(*, live: bool) -> tuple[Meter, Clock, Clock]:
    clock, cpu = Clock(), Clock()
    return Meter(live, clock=clock, cpu=cpu), clock, cpu


def words(*ends_s: float) -> tuple[Word, ...]:
    return tuple(Word(" x", 0, round(end * SAMPLE_RATE)) for end in ends_s)


def test_live_latency_is_counted_on_the_wall_clock() -> None:
    figures, clock, _ = meter(live=True)
    clock.now += 5  # the model was being loaded, or nobody spoke: not a delay
    figures.audio(SAMPLE_RATE)
    clock.now += 1.5
    figures.event(Confirmed(0, SAMPLE_RATE, words(0.5, 1.0), RoundStats(0)))
    assert figures.latencies == pytest.approx([1.5, 2.0])
    assert figures.summary()["confirmed_latency_median_s"] == pytest.approx(2.0)
    assert figures.summary()["latency_clock"] == "wall"


def test_at_full_speed_latency_is_that_of_the_recipe() -> None:
    figures, clock, _ = meter(live=False)
    figures.audio(4 * SAMPLE_RATE)
    clock.now += 60
    figures.event(Confirmed(0, 3 * SAMPLE_RATE, words(1.0), RoundStats(0)))
    assert figures.latencies == pytest.approx([2.0])
    assert figures.summary()["latency_clock"] == "audio"


def test_the_first_word_may_be_a_guess() -> None:
    figures, _, _ = meter(live=False)
    figures.event(Hypothesis(0, SAMPLE_RATE, (), RoundStats(0)))
    figures.event(Hypothesis(1, 2 * SAMPLE_RATE, words(1.5), RoundStats(1)))
    figures.event(Confirmed(2, 4 * SAMPLE_RATE, words(1.5), RoundStats(2)))
    assert figures.summary()["first_word_latency_s"] == pytest.approx(0.5)


def test_a_round_with_two_events_is_one_round() -> None:
    figures, _, _ = meter(live=False)
    for number in (0, 0, 1, 2, 2):
        figures.event(Hypothesis(0, 0, (), RoundStats(number, encode_s=0.5, decode_s=0.25, align_s=0.25)))
    summary = figures.summary()
    assert (summary["rounds"], summary["encode_s"], summary["decode_s"]) == (3, 1.5, 1.5)


def test_lag_is_audio_that_has_been_spoken_but_not_taken() -> None:
    figures, clock, _ = meter(live=True)
    figures.audio(SAMPLE_RATE)
    assert figures.lag == 0
    clock.now += 3
    assert figures.lag == pytest.approx(3)
    figures.audio(2 * SAMPLE_RATE)
    assert figures.lag == pytest.approx(1)


def test_a_source_with_a_fast_clock_is_not_ahead_of_itself() -> None:
    figures, clock, _ = meter(live=True)
    for _ in range(10):
        figures.audio(SAMPLE_RATE + 100)
        assert figures.lag == pytest.approx(0)
        assert figures.elapsed >= figures.samples / SAMPLE_RATE - 1e-6
        clock.now += 1


def test_a_source_with_a_slow_clock_is_not_behind_after_hours() -> None:
    """A sound card's clock may be a ten-thousandth off: 2.9 s in eight hours, that nobody waits for."""
    figures, clock, _ = meter(live=True)
    for _ in range(8 * 3600):
        clock.now += 1.0001
        figures.audio(SAMPLE_RATE)
    assert figures.lag < 0.02
    figures.event(Confirmed(0, 0, words(8 * 3600.0 - 1), RoundStats(0)))
    assert figures.latencies == pytest.approx([1.0], abs=0.02)


def test_audio_that_was_lost_is_not_waited_for() -> None:
    figures, clock, _ = meter(live=True)
    figures.audio(SAMPLE_RATE)
    clock.now += 30
    for _ in range(180):
        clock.now += 1
        figures.audio(SAMPLE_RATE)
    assert figures.lag == pytest.approx(0)


def test_cpu_use_is_that_of_the_last_second() -> None:
    figures, clock, cpu = meter(live=True)
    assert figures.cpu_percent() == 0
    clock.now, cpu.now = clock.now + 2, cpu.now + 1
    assert figures.cpu_percent() == pytest.approx(50)
    clock.now, cpu.now = clock.now + 0.1, cpu.now + 0.1
    assert figures.cpu_percent() == pytest.approx(50)  # too short to say
    clock.now += 1.9
    assert figures.cpu_percent() == pytest.approx(5)


def test_the_real_time_factor_is_work_per_audio() -> None:
    figures, clock, cpu = meter(live=False)
    assert figures.summary()["real_time_factor"] is None
    figures.audio(10 * SAMPLE_RATE)
    clock.now, cpu.now = clock.now + 2.5, cpu.now + 4
    summary = figures.summary()
    assert (summary["audio_s"], summary["wall_s"], summary["real_time_factor"], summary["cpu_s"]) == (10, 2.5, 0.25, 4)


def test_lowered_quality_is_remembered() -> None:
    figures, _, _ = meter(live=True)
    figures.event(Lag(0, 0, 3 * SAMPLE_RATE, 2))
    assert figures.level == 2


def test_without_words_there_is_no_latency() -> None:
    figures, _, _ = meter(live=True)
    summary = figures.summary()
    assert summary["first_word_latency_s"] is None
    assert summary["confirmed_latency_p90_s"] is None
