import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_transcriber import FakeSession, word
from whispertide.audio.file import rechunk
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.meter import Meter
from whispertide.cli.pump import LIVE_BLOCK, Arrivals, Pump, Watcher, at_full_speed, at_live_pace
from whispertide.errors import AudioDeviceError, AudioError, GraphError, TruncatedAudioError
from whispertide.events import Confirmed, End, Event
from whispertide.formats.document import TextSegment
from whispertide.options import DecodeOptions
from whispertide.types import SAMPLE_RATE, FloatArray


def audio(samples: int) -> FloatArray:
    return np.arange(samples, dtype=np.float32)


def blocks_of(samples: FloatArray, sizes: list[int]) -> Iterator[FloatArray]:
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(samples):
            return
        yield samples[at : at + size]
        at += size


class Recorder(Watcher):
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.segments: list[TextSegment] = []
        self.ticks = 0

    def event(self, event: Event) -> None:
        self.events.append(event)

    def lines(self, segments: object) -> None:
        assert isinstance(segments, list)
        self.segments += segments

    def tick(self, meter: Meter) -> None:
        self.ticks += 1


def pump(**settings: object) -> tuple[Pump, FakeSession, Recorder]:
    session, recorder = FakeSession(DecodeOptions()), Recorder()
    return Pump(session, Meter(live=False), (recorder,), **settings), session, recorder  # type: ignore[arg-type]


def test_all_audio_becomes_words() -> None:
    job, session, recorder = pump()
    heard = job.run(blocks_of(audio(4 * SAMPLE_RATE), [SAMPLE_RATE]), Interrupts())
    assert [item for segment in heard.segments for item in segment.words] == [word(n) for n in range(8)]
    assert heard.segments == recorder.segments
    assert isinstance(recorder.events[-1], End)
    assert session.ended
    assert recorder.ticks == 4
    assert (heard.complete, heard.language) == (True, "en")


def test_no_audio_is_an_error() -> None:
    job, session, _ = pump()
    with pytest.raises(AudioError, match="empty"):
        job.run(iter(()), Interrupts())
    assert not session.ended


def test_audio_that_breaks_off_keeps_what_there_was() -> None:
    def broken() -> Iterator[FloatArray]:
        yield audio(SAMPLE_RATE)
        raise TruncatedAudioError("cut off")

    job, session, _ = pump()
    heard = job.run(broken(), Interrupts())
    assert session.ended
    assert len(heard.segments[0].words) == 2
    assert isinstance(heard.broken, TruncatedAudioError)
    assert not heard.complete


def test_audio_that_never_begins_is_an_error() -> None:
    def broken() -> Iterator[FloatArray]:
        raise TruncatedAudioError("cut off")
        yield

    job, _, _ = pump()
    with pytest.raises(TruncatedAudioError):
        job.run(broken(), Interrupts())


@pytest.mark.parametrize("error", [None, TruncatedAudioError("cut off")])
def test_an_interrupt_that_the_decoder_takes_for_the_end_is_one(error: AudioError | None) -> None:
    interrupts = Interrupts()

    def interrupted() -> Iterator[FloatArray]:
        yield audio(2 * SAMPLE_RATE)
        interrupts.pressed = True
        if error is not None:
            raise error

    job, session, _ = pump()
    heard = job.run(interrupted(), interrupts)
    assert (heard.interrupted, heard.broken, session.ended) == (True, None, False)


def test_an_interrupt_keeps_what_is_confirmed_and_no_guess() -> None:
    def interrupted() -> Iterator[FloatArray]:
        yield audio(2 * SAMPLE_RATE)
        raise KeyboardInterrupt

    job, session, _ = pump()
    heard = job.run(interrupted(), Interrupts())
    assert [item.text for segment in heard.segments for item in segment.words] == [" word0", " word1", " word2"]
    assert heard.interrupted
    assert not session.ended


@pytest.mark.parametrize(("live", "collected"), [(True, [8, 9]), (False, [])])
def test_only_a_live_run_takes_results_that_nothing_waits_for(live: bool, collected: list[int]) -> None:
    class Overlapping(FakeSession):
        waiting: int = 8

        def collect(self) -> list[Event]:
            self.waiting += 1
            return [End(self.waiting - 1, 0, duration=0)]

    recorder = Recorder()
    job = Pump(Overlapping(DecodeOptions()), Meter(live=live), (recorder,))  # type: ignore[arg-type]
    job.run([audio(100), audio(0)], Interrupts())
    assert [event.seq for event in recorder.events if event.seq > 7] == collected


def test_whoever_leaves_early_gives_up_what_is_being_computed() -> None:
    class Overlapping(FakeSession):
        closed: bool = False

        def close(self) -> None:
            self.closed = True

    def interrupted() -> Iterator[FloatArray]:
        yield audio(SAMPLE_RATE)
        raise KeyboardInterrupt

    session = Overlapping(DecodeOptions())
    Pump(session, Meter(live=False)).run(interrupted(), Interrupts())  # type: ignore[arg-type]
    assert session.closed
    session = Overlapping(DecodeOptions(), fail_at=1)
    job = Pump(session, Meter(live=False))  # type: ignore[arg-type]
    with pytest.raises(GraphError):
        job.run([audio(2 * SAMPLE_RATE)], Interrupts())
    job.close()
    assert session.closed


def test_an_interrupt_during_a_step_lets_it_finish() -> None:
    class Slow(FakeSession):
        def push(self, samples: FloatArray) -> list[Event]:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            return super().push(samples)

    recorder = Recorder()
    job = Pump(Slow(DecodeOptions()), Meter(live=False), (recorder,))  # type: ignore[arg-type]
    with Interrupts() as interrupts:
        heard = job.run(blocks_of(audio(9 * SAMPLE_RATE), [SAMPLE_RATE]), interrupts)
    assert heard.interrupted
    assert any(isinstance(event, Confirmed) for event in recorder.events)
    assert recorder.ticks == 1


def test_an_interrupted_microphone_is_heard_to_its_end() -> None:
    def microphone() -> Iterator[FloatArray]:
        yield audio(SAMPLE_RATE)
        raise KeyboardInterrupt

    job, session, _ = pump(rest=lambda: audio(SAMPLE_RATE))
    heard = job.run(microphone(), Interrupts())
    assert session.ended
    assert session.samples == 2 * SAMPLE_RATE
    assert heard.complete


def test_a_second_interrupt_does_not_wait_for_the_last_words() -> None:
    class Hanging(FakeSession):
        def finish(self) -> list[Event]:
            raise KeyboardInterrupt

    def microphone() -> Iterator[FloatArray]:
        yield audio(2 * SAMPLE_RATE)
        raise KeyboardInterrupt

    job = Pump(Hanging(DecodeOptions()), Meter(live=False), rest=lambda: audio(0))  # type: ignore[arg-type]
    heard = job.run(microphone(), Interrupts())
    assert heard.interrupted
    assert len(heard.segments[0].words) == 3


def test_after_a_failure_there_is_what_was_confirmed() -> None:
    job = Pump(FakeSession(DecodeOptions(), fail_at=3), Meter(live=False))  # type: ignore[arg-type]
    with pytest.raises(GraphError):
        job.run(blocks_of(audio(5 * SAMPLE_RATE), [SAMPLE_RATE]), Interrupts())
    heard = job.close()
    assert len(heard.segments[0].words) == 3
    assert not heard.complete


@pytest.mark.parametrize("error", [GraphError("no memory"), KeyboardInterrupt()])
def test_what_was_said_before_a_round_failed_is_in_the_transcript(error: BaseException) -> None:
    class Failing(FakeSession):
        """Fails in the second second, after words that no call has returned."""

        def push(self, samples: FloatArray) -> list[Event]:
            self.said = FakeSession.push(self, samples)
            if self.samples > SAMPLE_RATE:
                raise error
            return self.drain()

        def drain(self) -> list[Event]:
            said, self.said = self.said, []
            return said

    job = Pump(Failing(DecodeOptions()), Meter(live=False))  # type: ignore[arg-type]
    if isinstance(error, KeyboardInterrupt):
        heard = job.run(blocks_of(audio(2 * SAMPLE_RATE), [SAMPLE_RATE]), Interrupts())
    else:
        with pytest.raises(GraphError):
            job.run(blocks_of(audio(2 * SAMPLE_RATE), [SAMPLE_RATE]), Interrupts())
        heard = job.close()
    assert [item for segment in heard.segments for item in segment.words] == [word(n) for n in range(3)]
    assert heard.interrupted


@given(
    samples=st.integers(0, 300),
    size=st.integers(1, 50),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
)
def test_rechunking_changes_sizes_and_nothing_else(samples: int, size: int, sizes: list[int]) -> None:
    found = list(rechunk(blocks_of(audio(samples), sizes), size))
    assert all(len(block) == size for block in found[:-1])
    assert all(0 < len(block) <= size for block in found)
    assert np.array_equal(np.concatenate([audio(0), *found]), audio(samples))


def test_at_full_speed_a_block_is_never_longer_than_the_step() -> None:
    assert {len(block) for block in at_full_speed([audio(SAMPLE_RATE)], 800)} == {800}
    assert {len(block) for block in at_full_speed([audio(SAMPLE_RATE)], SAMPLE_RATE)} == {LIVE_BLOCK}


@pytest.mark.parametrize("pace", ["live", "max"])
def test_the_last_portion_before_audio_breaks_off_is_heard(pace: str) -> None:
    def broken() -> Iterator[FloatArray]:
        yield audio(SAMPLE_RATE + 100)
        raise TruncatedAudioError("cut off")

    time_ = Time()
    if pace == "live":
        blocks = at_live_pace(broken(), clock=time_, sleep=time_.sleep)
    else:
        blocks = at_full_speed(broken(), LIVE_BLOCK)
    heard: list[FloatArray] = []
    with pytest.raises(TruncatedAudioError, match="cut off"):
        heard.extend(blocks)
    assert np.array_equal(np.concatenate(heard), audio(SAMPLE_RATE + 100))


class Time:
    """A clock that a sleep moves, and that whoever works moves too."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, secs: float) -> None:
        self.now += secs


def test_live_pace_is_that_of_speech() -> None:
    time_ = Time()
    blocks = at_live_pace([audio(SAMPLE_RATE)], clock=time_, sleep=time_.sleep)
    taken = [(round(time_.now - 50, 6), len(block)) for block in blocks]
    assert taken == [(round(0.1 * n, 6), LIVE_BLOCK) for n in range(1, 11)]


def test_whoever_is_late_gets_all_that_has_arrived() -> None:
    time_ = Time()
    sizes: list[int] = []
    for block in at_live_pace([audio(2 * SAMPLE_RATE)], clock=time_, sleep=time_.sleep):
        assert sum(sizes) + len(block) <= (time_.now - 50 + 1e-6) * SAMPLE_RATE
        sizes.append(len(block))
        time_.now += 0.45
    assert sum(sizes) == 2 * SAMPLE_RATE
    assert all(size in (4 * LIVE_BLOCK, 5 * LIVE_BLOCK) for size in sizes[1:-1])


def test_arrivals_are_taken_all_at_once() -> None:
    arrivals = Arrivals(audio(100)[n * 20 : n * 20 + 20] for n in range(5))
    for reader in [thread for thread in threading.enumerate() if thread.name == "audio-arrivals"]:
        reader.join(60)  # the end comes after the last block, and maybe late
    found = list(arrivals)
    assert np.array_equal(np.concatenate(found), audio(100))
    assert len(found) == 1


def test_arrivals_pass_an_error_on_after_the_audio_before_it() -> None:
    def unplugged() -> Iterator[FloatArray]:
        yield audio(10)
        raise AudioDeviceError("stopped")

    blocks = iter(Arrivals(unplugged()))
    total = 0
    while total < 10:
        total += len(next(blocks))
    with pytest.raises(AudioDeviceError, match="stopped"):
        all(len(block) == 0 for block in blocks)


def test_the_rest_of_the_arrivals_is_given_without_waiting() -> None:
    go = threading.Event()

    def without_end() -> Iterator[FloatArray]:
        yield audio(10)
        yield audio(10)
        go.wait(60)

    arrivals = Arrivals(without_end())
    deadline = time.monotonic() + 60
    total = 0
    while total < 20 and time.monotonic() < deadline:
        total += len(arrivals.rest())
    assert total == 20
    assert len(arrivals.rest()) == 0
    go.set()


def test_the_first_interrupt_is_remembered_and_the_second_raises() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert interrupts.pressed
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signal on this system")
@pytest.mark.usefixtures("terminal")
def test_a_terminal_that_closes_may_say_so_twice() -> None:
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert interrupts.pressed
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_while_waiting_even_the_first_interrupt_raises() -> None:
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt), interrupts.waiting():
        signal.raise_signal(signal.SIGTERM)


def test_while_holding_no_interrupt_raises_however_often() -> None:
    with Interrupts() as interrupts, interrupts.holding():
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        assert interrupts.pressed


def test_an_interrupt_before_the_wait_is_not_lost() -> None:
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), interrupts.waiting():
            pytest.fail("waited")


def test_outside_the_main_thread_interrupts_do_nothing() -> None:
    failures: list[BaseException] = []

    def other() -> None:
        try:
            with Interrupts() as interrupts:
                assert not interrupts.pressed
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert failures == []
