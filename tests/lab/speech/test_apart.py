"""Processes of their own: what they say when they fail, that equal ones run once, that none is left."""

import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread, main_thread

import pytest

from whispertide.errors import CorpusError
from whispertide_lab.speech import apart
from whispertide_lab.speech.apart import Apart, make_all

NOT_UTF8 = "import os; os.write(2, bytes([0xFC]))"


def program(text: str) -> Apart:
    return Apart("timeit", "a shard", ("-n", "1", "-r", "1", text))


def test_a_warning_that_is_no_utf8_stops_nothing() -> None:
    program(NOT_UTF8)()


def test_a_process_that_fails_is_told_by_its_last_words() -> None:
    with pytest.raises(CorpusError, match=r"a shard could not be made: .*no more"):
        program(f"{NOT_UTF8}; raise ValueError('no more')")()


def test_equal_makers_are_called_once_and_the_progress_is_of_those(monkeypatch: pytest.MonkeyPatch) -> None:
    called, told = [], []
    monkeypatch.setattr(Apart, "__call__", lambda self: called.append(self.arguments[-1]))
    make_all([program("1"), program("2"), program("1")], 1, lambda done, count: told.append((done, count)))
    assert (called, told) == (["1", "2"], [(1, 2), (2, 2)])


@pytest.mark.parametrize("ending", ["a failure", "an interrupt"])
def test_whatever_ends_it_no_process_is_left_and_no_other_begins(ending: str) -> None:
    """The second of two fails, or the user interrupts, while the first would take a minute; a third waits."""
    long, short = program("import time; time.sleep(60)"), program("raise ValueError('no more')")
    others = [program(f"import time; time.sleep(60 + {number})") for number in range(2)]
    began = time.monotonic()
    if ending == "a failure":
        with pytest.raises(CorpusError, match="no more"):
            make_all([long, short, *others], 2, lambda done, count: None)
    else:
        Thread(target=interrupt_when_running, args=(2,), daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            make_all([long, *others], 2, lambda done, count: None)
    assert not apart._running
    assert time.monotonic() - began < 30


def test_an_interrupt_while_makers_are_handed_out_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first runs already, and would take a minute; the interrupt comes as the second is submitted."""

    def submit(pool: ThreadPoolExecutor, make: Apart) -> Future[None]:
        future = hand_out(pool, make)
        if make is not long:
            while len(apart._running) < 2:
                time.sleep(0.01)
            raise KeyboardInterrupt
        return future

    hand_out = ThreadPoolExecutor.submit
    long, other = program("import time; time.sleep(60)"), program("import time; time.sleep(61)")
    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        make_all([long, other], 2, lambda done, count: None)
    assert not apart._running
    assert time.monotonic() - began < 30


def interrupt_when_running(count: int) -> None:
    while len(apart._running) < count:
        time.sleep(0.01)
    signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
