"""A Ray cluster that is not there is an error at once. This needs no Ray: it is not loaded before."""

import socket
import sys

import pytest

from whispertide.batch import on_ray
from whispertide.batch.on_ray import RayWorkers
from whispertide.batch.worker import Setup
from whispertide.errors import AddressError
from whispertide.options import DecodeOptions, EngineOptions

SETUP = Setup("nano.en", None, EngineOptions(), DecodeOptions(), "txt", "")
EXPECTED = "expected a Ray cluster at {}; nothing answers there .*`ray start --head`"


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """To load Ray fails, whether it is installed or not."""
    monkeypatch.setitem(sys.modules, "ray", None)


@pytest.fixture
def address() -> str:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_nobody_answers_at_the_address(address: str) -> None:
    with pytest.raises(AddressError, match=EXPECTED.format(address)):
        RayWorkers(SETUP, address)


def test_nobody_answers_at_the_address_of_the_environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(AddressError, match=EXPECTED.format(address)):
        RayWorkers(SETUP)


def test_a_port_that_cannot_be_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system would connect to 34463, where somebody may answer."""
    monkeypatch.setattr(socket, "create_connection", lambda *_: socket.socket())
    with pytest.raises(AddressError, match=EXPECTED.format("127.0.0.1:99999")):
        RayWorkers(SETUP, "127.0.0.1:99999")


def test_the_time_to_connect_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: object, timeout: float) -> socket.socket:
        raise TimeoutError(f"timed out after {timeout} s")

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(AddressError, match=f"timed out after {on_ray.CONNECT_S} s"):
        RayWorkers(SETUP, "far:6379")
