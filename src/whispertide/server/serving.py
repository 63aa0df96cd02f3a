"""Run the application: sockets, TLS, signals, and a shutdown that loses no word.

On SIGTERM, SIGHUP or Ctrl-C new sessions and files are refused, everything said so far is confirmed and sent to every
client, files that are here are transcribed, then the sockets close. A second signal ends at once.
"""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any

import uvicorn

from whispertide import __version__
from whispertide.api import Transcriber
from whispertide.errors import AddressError
from whispertide.extras import require
from whispertide.recipes.recipe import Recipe
from whispertide.server.app import PROTOCOLS, make_app
from whispertide.server.hub import Hub
from whispertide.server.journal import Journal
from whispertide.server.large_messages import LargeMessages
from whispertide.server.listening import BACKLOG, HANDSHAKE_S, Admission, Listener, listen, raise_file_limit
from whispertide.server.memory import map_large_pieces
from whispertide.server.options import Address, ServerOptions
from whispertide.server.protocols.base import WireProtocol
from whispertide.server.protocols.lines import JsonLinesProtocol, TextLinesProtocol
from whispertide.server.protocols.wyoming import WyomingProtocol
from whispertide.server.recording import Recorder
from whispertide.server.restore import look_up, resume_journal
from whispertide.server.sockets import bounded_websockets, check_hooks, http_with_deadlines
from whispertide.server.tcp import TcpListener, files_of_port
from whispertide.server.tracing import from_environment
from whispertide.server.translations import Translations
from whispertide.understand.model import LateModel

log = logging.getLogger("whispertide.server")

if TYPE_CHECKING:  # extras
    from whispertide.server.discovery import Announcement
    from whispertide.server.nats_journal import NatsJournal

_NATS = ("nats://", "tls://")  # what addresses of a shared journal begin with
_POLL_S = 0.02
_PING_S = 20.0
_GRACE_S = 5
_HANGUP = getattr(signal, "SIGHUP", None)  # the terminal was closed; Windows has none
_PLAIN = 256  # connections by HTTP, next to those of live sessions


class Server(uvicorn.Server):
    """uvicorn with our shutdown: first the sessions, then the sockets."""

    def __init__(
        self,
        hub: Hub,
        address: Address,
        ready: Callable[[int], None] | None = None,
        listeners: Iterable[TcpListener] = (),
        announced: "Announcement | None" = None,
    ) -> None:
        """`ready` is called with the port once it listens; `listeners` start and stop with it, and `announced` after
        and before them.
        """
        check_hooks()
        limits = hub.options.limits
        listeners = tuple(listeners)
        files = raise_file_limit() - len(listeners) * files_of_port()
        most = limits.connections + hub.options.viewers_in_all + _PLAIN
        self._admission = Admission(min(most, max(1, files)), limits.per_address)
        config = uvicorn.Config(
            make_app(hub),
            host=address.host,
            port=address.port,
            ssl_certfile=address.certificate,
            ssl_keyfile=address.key,
            loop="asyncio",  # others accept connections by themselves (`listening`)
            backlog=BACKLOG,
            http=http_with_deadlines(limits.stall_s, self._admission),
            ws=bounded_websockets(LargeMessages({path: protocol.times for path, protocol in PROTOCOLS.items()})),
            ws_max_size=limits.message,
            ws_ping_interval=_PING_S,
            # A client that is being read slowly cannot answer in time: `Limits.idle_s` finds those that are dead.
            ws_ping_timeout=None,
            ws_per_message_deflate=False,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        super().__init__(config)
        self.hub = hub
        self._listeners = listeners
        self._announced = announced
        self._ready = ready

    @property
    def port(self) -> int:
        """The port, once it listens."""
        return int(self.servers[0].sockets[0].getsockname()[1])

    async def startup(self, sockets: Any = None) -> None:
        """Listen, then report the address. Raises `OSError` if a port is taken."""
        map_large_pieces()
        with contextlib.ExitStack() as opened:
            found = listen(self.config.host, self.config.port, self._admission)
            for one in found:
                opened.callback(one.close)  # where the application fails
            await super().startup([])
            opened.pop_all()
        # uvicorn says so now, though it was given no socket: they are opened here.
        self.started = False
        self.servers = [await self._listen(one) for one in found]
        for listener in self._listeners:
            await listener.start()
        if self._announced is not None:
            await self._announced.start()
        self.started = True
        if self._ready is not None:
            self._ready(self.port)

    async def _listen(self, listener: Listener) -> asyncio.Server:
        """Accept connections as uvicorn does, which has no setting for how long TLS may take (asyncio: a minute)."""
        config = self.config
        kind: Any = config.http_protocol_class
        protocol = partial(kind, config=config, server_state=self.server_state, app_state=self.lifespan.state)
        return await asyncio.get_running_loop().create_server(
            protocol,
            sock=listener,
            ssl=config.ssl,
            backlog=config.backlog,
            ssl_handshake_timeout=HANDSHAKE_S if config.ssl else None,
        )

    async def shutdown(self, sockets: Any = None) -> None:
        """Send every client its words, then close."""
        if self._announced is not None:
            await self._announced.stop()
        await drain(self.hub, lambda: self.force_exit)
        for listener in self._listeners:
            await listener.stop()
        await self._admission.end()
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn leaves out the end of the application, which then fails when the loop ends
            await self.lifespan.shutdown()
            log.warning("stopped at once: a second signal came")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals to stop (SIGINT, SIGTERM), and SIGHUP, unless it is ignored (nohup)."""
        with super().capture_signals():
            in_main = threading.current_thread() is threading.main_thread()  # signals reach no other
            if _HANGUP is None or not in_main or signal.getsignal(_HANGUP) is signal.SIG_IGN:
                yield
                return
            before = signal.signal(_HANGUP, self.handle_exit)
            try:
                yield
            finally:
                signal.signal(_HANGUP, before)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal; a second one ends all waiting. SIGHUP comes from the shell and from the system, when a
        terminal is closed, and hurries nobody.
        """
        if self.should_exit and sig != _HANGUP:
            self.force_exit = True
        self.should_exit = True


def check_ports(host: str, ports: Mapping[str, int | None]) -> None:
    """Try to listen on every port, named by the option that sets it; those without a number are left out.

    Raises `AddressError`, which says which option to change.
    """
    with contextlib.ExitStack() as taken:  # held until the last is tried: two options may name the same port
        for option, port in ports.items():
            if port is None:
                continue
            try:
                found = [taken.enter_context(one) for one in listen(host, port, Admission(most=0))]
                for one in found:
                    one.listen()  # else another could be bound to the same port
            except OSError as error:
                of_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
                reason = os.strerror(error.errno) if of_port and error.errno else error.strerror or str(error)
                advice = f"another {option}, 0 = any" if of_port else "another --host"
                raise AddressError(f"expected to listen on port {port} of {host}; {reason}: choose {advice}") from error


def assemble(
    models: Mapping[str, Transcriber], recipe: Recipe, options: ServerOptions
) -> tuple[Hub, Callable[[], None]]:
    """Make a hub by `options`, and the function to call at the very end.

    Raises `OptionError` for a journal, a folder of recordings or a translator that cannot be used, and what
    `LateModel.open` raises.
    """
    understands = LateModel.open(options.understands) if options.understands else None
    journal = _journal(options.journal) if options.journal else None
    record = Recorder(options.record, models).opened if options.record else None
    offered = options.translation
    translations = Translations(offered.translator, offered.languages, offered.corrects) if offered else Translations()
    hub = Hub(
        models,
        recipe,
        options,
        version=__version__,
        journal=journal,
        record=record,
        understands=understands,
        translations=translations,
    )
    last = contextlib.ExitStack()
    last.callback(translations.close)
    if (traces := from_environment()) is not None:
        hub.traces = traces
        last.callback(traces.close)
    if journal is None:
        return hub, last.close
    last.callback(journal.close)
    if isinstance(journal, Journal):
        hub.at_start = partial(resume_journal, hub, journal)
    else:
        hub.look_up = partial(look_up, hub, journal)
        journal.lost = hub.lose
    return hub, last.close


def _journal(where: str) -> "Journal | NatsJournal":
    if not where.startswith(_NATS):
        return Journal(Path(where))
    require("fleet", "a journal in NATS")
    from whispertide.server.nats_journal import NatsJournal

    return NatsJournal(where)


_OVER_TCP: Mapping[str, type[WireProtocol]] = MappingProxyType(
    {kind.name: kind for kind in (WyomingProtocol, TextLinesProtocol, JsonLinesProtocol)}
)


def tcp_listeners(hub: Hub, host: str, ports: Mapping[str, int | None], *, trusted: bool = False) -> list[TcpListener]:
    """Make a listener for every protocol over TCP (by name) that has a port; for `trusted` see `TcpListener`."""
    return [TcpListener(hub, _OVER_TCP[name], host, port, trusted) for name, port in ports.items() if port is not None]


def announce(name: str, listeners: Iterable[TcpListener]) -> "Announcement":
    """Make the announcement of the Wyoming port under a name."""
    from whispertide.server.discovery import Announcement

    (wyoming,) = [one for one in listeners if one.protocol is WyomingProtocol]
    return Announcement(wyoming, name)


async def drain(hub: Hub, hurry: Callable[[], bool] = lambda: False) -> None:
    """Refuse new sessions and files, let the others finish, and close all connections."""
    log.info("draining", extra={"sessions": len(hub.sessions), "files": hub.files})
    hub.begin_drain()
    # Whoever is not done by then is cut off.
    until = asyncio.get_running_loop().time() + hub.options.drain_s
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            while hub.busy and not hurry():
                if hub.journal is not None and hub.journal.shared:
                    for connection in list(hub.connections):
                        connection.hand_over()
                await asyncio.sleep(_POLL_S)
    for connection in list(hub.connections):
        connection.shut_down()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            while hub.files and not hurry():
                await asyncio.sleep(_POLL_S)
    hub.over.set()
    hub.broadcasts.stop()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_S):
            while (hub.connections or hub.files or hub.broadcasts.viewers) and not hurry():
                await asyncio.sleep(_POLL_S)


@contextlib.asynccontextmanager
async def run_server(hub: Hub, address: Address | None = None) -> AsyncIterator[Server]:
    """Run a server in the present event loop, for tests and benchmarks; port 0 is any free one."""
    server = Server(hub, address or Address(port=0))
    with contextlib.suppress(AttributeError):
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    task = asyncio.create_task(server.serve(), name="server")
    while not server.started:
        if task.done():
            # Raises what kept it from starting.
            await task
            raise RuntimeError("expected the server to start; it did not")
        await asyncio.sleep(_POLL_S)
    try:
        yield server
    finally:
        server.should_exit = True
        await task
