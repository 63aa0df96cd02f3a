"""What several tests of the server need."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from nats_server import Nats, nats_server
from served import limited
from standing_server import Standing, standing
from tls_certificate import make_certificate
from whispertide.server.options import ServerOptions


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """For localhost, signed by itself."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Nats]:
    with nats_server(tmp_path / "nats") as running:
        yield running


@pytest.fixture(scope="module")
def limits() -> ServerOptions:
    """What `town` allows."""
    return limited(idle_s=10, stall_s=10)


@pytest.fixture(scope="module")
def town(limits: ServerOptions) -> Iterator[Standing]:
    """Afterwards nothing is left of all that was done to it."""
    with standing(limits) as town:
        yield town
        asyncio.run(town.settled())
