"""A computation on a thread of its own that can be given up while it is under way.

It asks now and then whether it is still wanted. Knows nothing of what is computed.
"""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

T = TypeVar("T")
Check = Callable[[], None]  # raises `CancelledError` where nobody wants the result any more


class CancellableTask(Generic[T]):
    """`compute`, which calls the check that it is given as often as it can be given up."""

    def __init__(self, compute: Callable[[Check], T]) -> None:
        self._compute = compute
        self._outcome: Future[T] = Future()
        self._given_up = threading.Event()
        threading.Thread(target=self._run, name="flying", daemon=True).start()

    @property
    def done(self) -> bool:
        """True if `result` returns, or raises, at once."""
        return self._outcome.done()

    def result(self) -> T:
        """Wait for it. Raises what the computation raised; `CancelledError` after `give_up`, unless it was done."""
        return self._outcome.result()

    def give_up(self) -> None:
        """Nobody wants the result: it ends at its next check, and nobody waits for that."""
        self._given_up.set()

    def _check(self) -> None:
        if self._given_up.is_set():
            raise CancelledError

    def _run(self) -> None:
        try:
            self._check()
            self._outcome.set_result(self._compute(self._check))
        except BaseException as error:  # it belongs to whoever asks for the result
            self._outcome.set_exception(error)
