"""Ctrl-C, once and twice, and where it must or must not break off what runs."""

import signal
import threading

import pytest

from whispertide.cli.interrupt import Interrupts, end_as_after_ctrl_c

HANGUP = getattr(signal, "SIGHUP", None)


def press(number: int = signal.SIGINT) -> None:
    signal.raise_signal(number)


def test_the_first_press_lets_a_step_finish_and_the_second_ends_it() -> None:
    with Interrupts() as interrupts:
        press()
        assert interrupts.pressed
        with pytest.raises(KeyboardInterrupt):
            press()


@pytest.mark.skipif(HANGUP is None, reason="no SIGHUP here")
def test_a_terminal_that_is_closed_may_hang_up_twice() -> None:
    assert HANGUP is not None
    before = signal.signal(HANGUP, signal.SIG_DFL)  # `nohup make test` has it ignored
    try:
        with Interrupts() as interrupts:
            press(HANGUP)
            press(HANGUP)
            assert interrupts.pressed
            with pytest.raises(KeyboardInterrupt):
                press(signal.SIGTERM)
    finally:
        signal.signal(HANGUP, before)


def test_a_wait_for_input_is_broken_off_at_once() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt), interrupts.waiting():
            press()
        # Pressed before it begins: the signal does not come again.
        with pytest.raises(KeyboardInterrupt), interrupts.waiting():
            pytest.fail("it waits for what nobody will send")


def test_what_is_held_is_never_broken_off() -> None:
    with Interrupts() as interrupts:
        with interrupts.holding():
            for _ in range(3):
                press()
        assert interrupts.pressed
        with pytest.raises(KeyboardInterrupt):
            press()


def test_handlers_are_as_before_and_what_was_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        usual = signal.getsignal(signal.SIGINT)
        with Interrupts() as interrupts:
            assert signal.getsignal(signal.SIGINT) is not usual
            press(signal.SIGTERM)
            assert not interrupts.pressed
        assert signal.getsignal(signal.SIGINT) is usual
        end_as_after_ctrl_c()
        press(signal.SIGTERM)  # nohup
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_thread_leaves_signals_alone() -> None:
    usual, seen = signal.getsignal(signal.SIGINT), []

    def run() -> None:
        with Interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [usual]
