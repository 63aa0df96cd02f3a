"""The server of `fuzz`, in a process of its own: `python -m campaign.fuzz_server`.

All protocols listen on loopback. Their ports go to standard output as a line of JSON once they do. Whoever connects to
the port `state` is answered when nobody else is connected any more: what came in, what was logged, and the memory.
"""

import asyncio
import json
from unittest import mock

from served import KnowingModel, limited, logged_errors, settled
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.connection import Connection
from whispertide.server.options import Address
from whispertide.server.serving import Server, assemble, tcp_listeners
from whispertide_lab.evaluation.energy import resident_mb

PORTS = ("wyoming", "lines", "json-lines")


class Counter:
    """How many messages got as far as a protocol: WebSocket messages, or pieces of a TCP stream."""

    count = 0

    def counted(self, connection: Connection, message: str | bytes) -> None:
        """In place of `Connection._receive`."""
        self.count += 1
        _RECEIVE(connection, message)


_RECEIVE = Connection._receive


def main() -> None:
    """Serve until a signal comes."""
    counter = Counter()
    with (
        mock.patch.object(Connection, "_receive", lambda *each: counter.counted(*each)),
        logged_errors() as errors,
    ):
        asyncio.run(_serve(counter, errors))


async def _serve(counter: Counter, errors: list[str]) -> None:
    limits = limited(idle_s=10, stall_s=10, resume_s=0.2, messages=10**6, connections=200, sessions=100)
    hub, close = assemble({"nano.en": KnowingModel()}, get_recipe("whisper-streaming"), limits)  # type: ignore[dict-item]
    listeners = tcp_listeners(hub, "127.0.0.1", dict.fromkeys(PORTS, 0))

    async def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await settled(server, hub)
        state = {"frames": counter.count, "errors": errors, "rss_mb": round(resident_mb(), 2)}
        writer.write(json.dumps(state).encode() + b"\n")
        errors.clear()
        writer.close()

    def ready(port: int) -> None:
        ports = {"http": port, "state": asked.sockets[0].getsockname()[1]}
        print(json.dumps({**ports, **{one.protocol.name: one.port for one in listeners}}), flush=True)

    server = Server(hub, Address(port=0), ready, listeners)
    async with await asyncio.start_server(tell, "127.0.0.1", 0) as asked:
        await server.serve()
    close()


if __name__ == "__main__":
    main()
