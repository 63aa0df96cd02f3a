"""Workers as Ray actors, on this machine or on a cluster.

Ray would start a dead actor again by itself. Here a new one is asked for instead, as for a dead process, so that a
recording that kills its worker is counted and given up (`dispatch.TRIES`). The actors of Ray Data have no such limit
(`max_restarts=-1`, `max_task_retries=-1`).
"""

import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from whispertide.batch.worker import Died, Message, Setup, Worker
from whispertide.errors import AddressError

CONNECT_S = 10  # Ray itself tries for minutes, and then ends the process


class RayWorkers:
    """Implements `dispatch.Workers`; a handle is an actor.

    `address` is that of a cluster, None the one of the environment (RAY_ADDRESS) or of this machine, else a new one
    that ends with the run. `wanted` workers, or one for each core of the cluster. Raises `AddressError` where there is
    no cluster, after `CONNECT_S` at the latest where nobody answers at HOST:PORT.
    """

    def __init__(self, setup: Setup, address: str | None = None, wanted: int | None = None) -> None:
        _check_answers(address or os.environ.get("RAY_ADDRESS", ""))
        # Ray sends figures about its use to its makers unless told not to.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._ray = ray
        self._setup = setup
        try:
            with _keep_signals():
                ray.init(address, include_dashboard=None, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise AddressError(f"expected a Ray cluster at {address or 'RAY_ADDRESS'}; {error}") from error
        cores, threads = int(ray.cluster_resources().get("CPU", 1)), setup.engine.threads
        self.count = wanted or max(1, cores // threads)
        # A core per thread, unless more workers were asked for than that allows: Ray would never start them.
        share = min(threads, cores / self.count)
        self._actor = ray.remote(num_cpus=share if share < 1 else int(share), max_restarts=0)(Worker)
        self._expected: dict[Any, Any] = {}  # message to come -> the actor that sends it

    def start(self) -> Any:
        """Ask for an actor; on a full cluster it begins when there is room."""
        actor = self._actor.remote(self._setup)
        self._expected[actor.load.remote()] = actor
        return actor

    def give(self, worker: Any, name: str) -> None:
        """Call it with the name; see `Workers`."""
        self._expected[worker.transcribe.remote(name)] = worker

    def wait(self) -> Sequence[tuple[Any, Message]]:
        """Wait for messages, and return them with their workers."""
        ready, _ = self._ray.wait(list(self._expected), num_returns=1)
        return [(self._expected[reference], self._receive(reference)) for reference in ready]

    def _receive(self, reference: Any) -> Message:
        worker = self._expected.pop(reference)
        try:
            message: Message = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._ray.kill(worker)  # it may only be out of reach
            return Died(str(error).strip().split("\n")[0])
        return message

    def stop(self) -> None:
        """Leave the cluster; Ray then ends the actors."""
        self._expected.clear()
        with _keep_signals():
            self._ray.shutdown()


def _check_answers(address: str) -> None:
    """Raise `AddressError` if nobody answers at HOST:PORT; other forms, such as `auto`, are for Ray to judge."""
    host, _, port = address.rpartition(":")
    if "://" in address or not (host and port.isdigit()):
        return
    try:
        if int(port) > 65535:  # getaddrinfo would take what is left of it modulo 65536, and somebody may answer there
            raise OverflowError("a port is at most 65535")
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise AddressError(
            f"expected a Ray cluster at {address}; nothing answers there ({error}): check the address that "
            "`ray status` shows on its head node, or start one with `ray start --head`"
        ) from error


@contextmanager
def _keep_signals() -> Iterator[None]:
    """Keep our signal handlers: Ray takes SIGTERM for itself, and would end this process without its goodbye."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # Python lets no other thread set what a signal does.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
