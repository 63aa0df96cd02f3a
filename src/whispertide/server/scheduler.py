"""A scheduler: many sessions take steps on a few worker threads.

A step runs at most one round and about one pilot (`live`), so a session that has more to do waits its turn again
(`fair_queue`). A round cannot be interrupted, so that one key may have all workers in long ones: whoever's key has none
at work then gets one worker more, and the system divides the cores. Those that nobody speaks at this moment, and whose
words nobody waits for, have threads of lower priority. Lives in the event loop and never blocks it. Knows nothing of
sockets.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial

from whispertide.server.fair_queue import FairQueue
from whispertide.server.live import LiveSession
from whispertide.server.load import Load
from whispertide.server.observers import Step
from whispertide.server.priority import lower_priority

log = logging.getLogger("whispertide.server")

_TICK_S = 0.5
_NICE = 5  # a third of the share of a core that others have


class Scheduler:
    """Runs steps. `on_done` is called in the event loop, before the session's next step."""

    def __init__(self, workers: int, load: Load, on_done: Callable[[LiveSession, Step], None]) -> None:
        self.load = load
        self.running = 0
        self._queue: FairQueue[LiveSession] = FairQueue()
        self._workers = workers
        self._on_done = on_done
        # One more than workers: a key without a running step may start one while all are taken (`_next`).
        most = workers + 1
        self._hurried = ThreadPoolExecutor(most, thread_name_prefix="round")
        self._patient = ThreadPoolExecutor(most, "patient-round", partial(lower_priority, _NICE))
        self._ticker: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        """Start; needs a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._ticker = asyncio.create_task(self._tick(), name="load")

    async def stop(self) -> None:
        """Let running steps end and take no others."""
        self._stopped = True
        self._queue.clear()
        if self._ticker is not None:
            self._ticker.cancel()
        # In a thread: it waits for the running steps, and the loop has to go on meanwhile.
        for pool in (self._hurried, self._patient):
            await asyncio.to_thread(pool.shutdown)

    def wake(self, live: LiveSession) -> None:
        """Queue a session that has commands in its inbox."""
        # One step of a session at a time: what came in meanwhile is seen when that ends (`_tell`).
        if live.queued_at is None and not live.running and not live.ended and not live.suspended:
            live.queued_at = self._loop.time()
            self._queue.add(live)
            self._dispatch()

    def wake_soon(self, live: LiveSession) -> None:
        """The same, from any thread."""
        with suppress(RuntimeError):  # the event loop is over, and all sessions are
            self._loop.call_soon_threadsafe(self.wake, live)

    def suspend(self, live: LiveSession) -> None:
        """Take no further step of this session; a running one ends."""
        live.suspended = True
        if live.queued_at is not None:
            self._queue.remove(live)
            live.queued_at = None

    def _dispatch(self) -> None:
        while (live := self._next()) is not None:
            assert live.queued_at is not None
            since, live.queued_at, live.running = live.queued_at, None, True
            self.running += 1
            now = self._loop.time()
            pool = self._patient if live.is_unhurried(now) else self._hurried
            future = self._loop.run_in_executor(pool, live.step, self.load.level)
            future.add_done_callback(partial(self._end, live, since, now - since))

    def _next(self) -> LiveSession | None:
        """Take the sessions that may begin now from the queue."""
        if self._stopped or self.running > self._workers:
            return None
        return self._queue.take(of_idle_key=self.running == self._workers)

    def _end(self, live: LiveSession, since: float, waited: float, done: "asyncio.Future[Step]") -> None:
        self.running -= 1
        self._queue.charge(live, self._loop.time() - since - waited)
        if done.cancelled() or (failed := done.exception()) is not None:
            live.running = False
            if not done.cancelled():
                log.error("step failed", extra={"session": live.id}, exc_info=failed)
                self._on_done(live, live.break_off())
        elif kept := done.result().kept:
            ended, written = self._loop.time(), asyncio.gather(*map(asyncio.wrap_future, kept))
            written.add_done_callback(lambda _: self._tell(live, since, waited, done.result(), ended))
        else:
            self._tell(live, since, waited, done.result())
        self._dispatch()

    def _tell(self, live: LiveSession, since: float, waited: float, step: Step, ended: float | None = None) -> None:
        """Report a step once it is stored. A session that waits for that keeps no worker from the others."""
        live.running = False
        now = self._loop.time()
        if step.rounds and not live.is_unhurried(now):
            # Waiting for a worker counts, or a queue would look like idleness.
            self.load.note(now - since, live.asked_recipe.schedule.step_s, now)
        self._on_done(live, replace(step, waited_s=waited, kept_s=0.0 if ended is None else now - ended))
        if step.more or live.inbox or live.has_translations:
            self.wake(live)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = self._loop.time()
            # Only where a worker is free for those that speak: a long queue without a finished round is no idleness.
            if self.running < self._workers or all(live.is_unhurried(now) for live in self._queue.busy):
                self.load.idle(now)
