"""deploy/fleet: what stands in it is what the server takes, serves and says. No docker and no cluster is needed."""

import asyncio
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.routing import Route
from typer.main import get_command

pytest.importorskip("nats", reason="the extra `fleet` is not installed")

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from nats_server import Nats, binary, nats_server
from served import SECONDS, SILENCE, TEXT, Client, KnowingModel, complete, keyed, served, text_of
from shared_journal import accepted, back
from test_monitoring import served as figures
from whispertide.cli.main import app
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.app import make_app
from whispertide.server.hub import Hub
from whispertide.server.nats_stream import _LEASE_S, _SUBJECT, LEASES, STREAM
from whispertide.server.options import Limits, ServerOptions
from whispertide.server.serving import _GRACE_S, drain

FLEET = Path(__file__).parents[1] / "deploy/fleet"
KUBERNETES = FLEET / "kubernetes"
COMPOSE = yaml.safe_load((FLEET / "compose.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    one
    for path in sorted(KUBERNETES.glob("*.yaml"))
    for one in yaml.safe_load_all(path.read_text())
    if "metadata" in one
]


def of_kind(kind: str, name: str = "whispertide") -> dict[str, Any]:
    (found,) = (one for one in OBJECTS if one["kind"] == kind and one["metadata"]["name"] == name)
    return found


def pod(kind: str, name: str = "whispertide") -> dict[str, Any]:
    found: dict[str, Any] = of_kind(kind, name)["spec"]["template"]["spec"]
    return found


def container(kind: str, name: str = "whispertide") -> dict[str, Any]:
    (found,) = pod(kind, name)["containers"]
    return dict(found)


def entry() -> list[str]:
    """The image's own arguments."""
    text = (FLEET.parent / "Dockerfile").read_text()
    (line,) = re.findall(r'^ENTRYPOINT \["whispertide", "serve", (.*)\]$', text, re.M)
    return re.findall(r'"([^"]+)"', line)


ARGUMENTS = {
    "compose": COMPOSE["services"]["whispertide"]["command"],
    "kubernetes": container("Deployment")["args"],
}


@pytest.fixture(params=ARGUMENTS)
def parsed(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the command line makes of the arguments; it refuses what it does not know."""
    command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return dict(command.make_context("serve", [*entry(), *ARGUMENTS[request.param]]).params)


def seconds_of(text: str) -> float:
    assert text.endswith("s")
    return float(text[:-1])


class TestServers:
    def test_the_command_line_takes_every_option(self, parsed: dict[str, Any]) -> None:
        assert parsed["host"] == "0.0.0.0"
        assert parsed["journal"] == "nats://nats:4222"
        assert not parsed["open_to_all"]

    def test_a_proxy_is_not_taken_for_one_client(self, parsed: dict[str, Any]) -> None:
        assert parsed["per_address"] == 0

    def test_there_is_time_to_drain(self, parsed: dict[str, Any], request: pytest.FixtureRequest) -> None:
        """The last words, then the connections, then the journal (five seconds each)."""
        needed = parsed["drain_s"] + 2 * _GRACE_S
        if "kubernetes" in request.node.callspec.id:
            needed += container("Deployment")["lifecycle"]["preStop"]["sleep"]["seconds"]
            assert pod("Deployment")["terminationGracePeriodSeconds"] > needed
        else:
            assert seconds_of(COMPOSE["services"]["whispertide"]["stop_grace_period"]) > needed

    def test_places_for_one_key_are_not_shared_with_that_of_prometheus(self) -> None:
        command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
        found = command.make_context("serve", list(ARGUMENTS["kubernetes"])).params
        assert found["per_owner"] == found["sessions"]

    def test_keys_are_asked_for(self) -> None:
        assert ":?" in COMPOSE["services"]["whispertide"]["environment"]["WHISPERTIDE_API_KEYS"]
        environment = {one["name"]: one for one in container("Deployment")["env"]}
        named = re.findall(r"\$\((\w+)\)", environment["WHISPERTIDE_API_KEYS"]["value"])
        assert len(named) == 2
        assert all("secretKeyRef" in environment[name]["valueFrom"] for name in named)
        order = list(environment)
        assert all(order.index(name) < order.index("WHISPERTIDE_API_KEYS") for name in named), "else not replaced"


def paths() -> set[str]:
    hub = Hub({"nano.en": KnowingModel()}, get_recipe("tide"), ServerOptions())  # type: ignore[dict-item]
    return {route.path for route in make_app(hub).routes if isinstance(route, Route)}


class TestAddresses:
    def test_probes_ask_what_the_server_answers(self) -> None:
        found = container("Deployment")
        probes = {name: found[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
        assert {probe["path"] for probe in probes.values()} <= paths()
        assert probes["readinessProbe"]["path"] == "/readyz"
        assert "/readyz" not in (probes["startupProbe"]["path"], probes["livenessProbe"]["path"]), "a drain is no death"

    def test_ports_agree(self) -> None:
        command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
        port = command.make_context("serve", list(ARGUMENTS["kubernetes"])).params["port"]
        (named,) = container("Deployment")["ports"]
        assert named["containerPort"] == port
        (service,) = of_kind("Service")["spec"]["ports"]
        (rule,) = of_kind("Ingress")["spec"]["rules"]
        (monitor,) = of_kind("PodMonitor")["spec"]["podMetricsEndpoints"]
        target = rule["http"]["paths"][0]["backend"]["service"]
        assert {named["name"]} == {service["targetPort"], target["port"]["name"], monitor["port"]}
        assert (target["name"], monitor["path"] in paths()) == (of_kind("Service")["metadata"]["name"], True)
        config = (FLEET / "haproxy.cfg").read_text()
        assert set(re.findall(r"server-template \w+ \d+ (\S+)", config)) == {f"whispertide:{port}"}
        assert set(re.findall(r"httpchk GET (\S+)", config)) <= paths()

    def test_a_file_may_be_transcribed_as_slowly_as_it_was_spoken(self) -> None:
        """It is answered when all of it is, and others are before it; until then nothing comes."""
        (proxy,) = re.findall(r"timeout server (\d+)h", (FLEET / "haproxy.cfg").read_text())
        ingress = of_kind("Ingress")["metadata"]["annotations"]["haproxy.org/timeout-server"]
        (nginx,) = re.findall(r"proxy_read_timeout (\d+)h", (FLEET.parents[1] / "docs/guides/deploy.md").read_text())
        assert {f"{proxy}h", f"{nginx}h"} == {ingress}
        assert int(proxy) * 3600 >= 2 * Limits().upload_s

    def test_what_selects_is_there(self) -> None:
        labels = of_kind("Deployment")["spec"]["template"]["metadata"]["labels"].items()
        for found in (
            of_kind("Deployment")["spec"]["selector"]["matchLabels"],
            of_kind("Service")["spec"]["selector"],
            of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
            of_kind("PodMonitor")["spec"]["selector"]["matchLabels"],
        ):
            assert found.items() <= labels
        writers = of_kind("NetworkPolicy", "nats")["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
        assert writers.items() <= labels
        assert writers.items() <= of_kind("Job", "make-stream")["spec"]["template"]["metadata"]["labels"].items()

    def test_every_object_is_in_the_list(self) -> None:
        listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
        there = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
        assert set(listed["resources"]) == there


class TestScaling:
    def test_every_figure_that_scales_is_at_metrics(self) -> None:
        queries = [trigger["metadata"]["query"] for trigger in of_kind("ScaledObject")["spec"]["triggers"]]
        named = {name for query in queries for name in re.findall(r"whispertide_\w+", query)}
        assert {"whispertide_sessions", "whispertide_pressure", "whispertide_lag_seconds"} <= named
        assert named <= figures()

    def test_it_scales_before_places_are_taken(self) -> None:
        first = of_kind("ScaledObject")["spec"]["triggers"][0]["metadata"]
        command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
        assert (
            0
            < float(first["threshold"])
            < command.make_context("serve", list(ARGUMENTS["kubernetes"])).params["sessions"]
        )

    def test_it_scales_what_is_there_and_nobody_else_does(self) -> None:
        assert of_kind("ScaledObject")["spec"]["scaleTargetRef"]["name"] == of_kind("Deployment")["metadata"]["name"]
        assert "replicas" not in of_kind("Deployment")["spec"]

    def test_one_may_always_die(self) -> None:
        assert COMPOSE["services"]["whispertide"]["deploy"]["replicas"] >= 2
        assert of_kind("ScaledObject")["spec"]["minReplicaCount"] >= 2
        assert of_kind("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


class TestNats:
    @pytest.mark.parametrize("path", [FLEET / "nats.conf", KUBERNETES / "nats.conf"], ids=["compose", "kubernetes"])
    def test_the_server_takes_its_configuration(self, path: Path) -> None:
        done = subprocess.run(
            [binary(), "-t", "-c", path], env={"POD_NAME": "nats-0"}, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()

    def test_the_job_makes_what_a_server_would(self) -> None:
        (script,) = container("Job", "make-stream")["args"]
        assert f"stream add {STREAM} --subjects '{_SUBJECT}*'" in script
        assert f"kv add {LEASES} --ttl {_LEASE_S:g}s" in script
        replicas = of_kind("StatefulSet", "nats")["spec"]["replicas"]
        assert set(re.findall(r"--replicas (\d+)", script)) == {str(replicas)}
        routes = re.findall(r"nats://(nats-\d)\.nats:6222", (KUBERNETES / "nats.conf").read_text())
        assert routes == [f"nats-{number}" for number in range(replicas)]

    def test_the_disk_is_larger_than_what_nats_may_fill(self) -> None:
        (claim,) = of_kind("StatefulSet", "nats")["spec"]["volumeClaimTemplates"]
        (most,) = re.findall(r"max_file_store: (\d+)GB", (KUBERNETES / "nats.conf").read_text())
        assert int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi")) > int(most)

    def test_strangers_do_not_reach_it(self) -> None:
        assert COMPOSE["services"]["nats"]["networks"] == ["journal"]
        assert COMPOSE["networks"]["journal"]["internal"] is True
        assert "journal" not in COMPOSE["services"]["proxy"]["networks"]
        assert "ports" not in COMPOSE["services"]["nats"]


KEY = "a-long-key"


@asynccontextmanager
async def proxy(folder: Path, *ports: int) -> AsyncIterator[int]:
    """HAProxy with our configuration, but for the addresses; its port."""
    program = shutil.which("haproxy")
    if program is None:
        pytest.skip("no haproxy on this machine; apt install haproxy")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text, binds = re.subn(r"bind :8000", f"bind 127.0.0.1:{port}", (FLEET / "haproxy.cfg").read_text())
    lines = "\n".join(f"    server replica{one} 127.0.0.1:{one}" for one in ports)
    text, templates = re.subn(r"    server-template .*", lines, text)
    assert (binds, templates) == (1, 2)
    (folder / "haproxy.cfg").write_text(text)
    running = subprocess.Popen(
        [program, "-f", folder / "haproxy.cfg"], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        yield port
    finally:
        running.kill()
        running.wait()


async def session(port: int, query: str = "") -> Client:
    """A client that comes again until it has a session, as the page does."""
    async with asyncio.timeout(60):
        while True:
            with suppress(OSError, InvalidHandshake, ConnectionClosed):
                headers = {"Authorization": f"Bearer {KEY}"}
                one = Client(await connect(f"ws://127.0.0.1:{port}/ws{query}", proxy=None, additional_headers=headers))
                if not query:
                    await one.send({"type": "start"})
                if (await one.until("session", "problem"))["type"] == "session":
                    return one
                await one.socket.close()
            await asyncio.sleep(0.2)


class TestProxy:
    @pytest.fixture
    def nats(self, tmp_path: Path) -> Iterator[Nats]:
        with nats_server(tmp_path / "nats") as running:
            yield running

    @pytest.mark.slow
    async def test_a_session_goes_on_at_another_replica(self, nats: Nats, tmp_path: Path) -> None:
        options = replace(keyed(KEY, per_address=0), journal=nats.address)
        async with (
            served(options) as (first, one_hub),
            served(options) as (second, other_hub),
            proxy(tmp_path, first.port, second.port) as port,
        ):
            one = await session(port)
            await one.send(SILENCE * 3)
            await accepted(one, 48_000)
            here, there = (one_hub, other_hub) if one_hub.sessions else (other_hub, one_hub)
            await drain(here)
            assert await one.rest() == 1012
            again = await session(port, back(one))
            assert list(there.sessions) == [one.said("session")[0]["session"]]
            assert again.said("session")[0]["received"] == 48_000
            await again.send(bytes(2 * (round(SECONDS * 16_000) - 48_000)), {"type": "finish"})
            assert await again.rest() == 1000
        events = [*one.events, *again.events]
        assert complete(events)
        assert text_of(events) == TEXT

    async def test_without_nats_new_captions_go_on(self, nats: Nats, tmp_path: Path) -> None:
        """No replica is ready, and the proxy sends clients to one that lives."""
        options = replace(keyed(KEY, per_address=0), journal=nats.address, drain_s=0.5)
        async with served(options) as (first, _), proxy(tmp_path, first.port) as port:
            before = await session(port)
            nats.kill()
            await before.send(SILENCE)
            await before.until("problem")
            await asyncio.sleep(2.5)  # the proxy asks every second; earlier it would not know yet
            after = await session(port)
            await after.send(*[SILENCE] * 4)
            while not {"confirmed", "problem"} <= {message["type"] for message in after.messages}:
                await after.until("confirmed", "problem")
            assert [problem["kind"] for problem in after.said("problem")] == ["not_durable"]
            assert not [told for told in after.said("received") if told["received"]]
            await before.socket.close()
            await after.socket.close()
