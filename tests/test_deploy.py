"""The files of deploy/: what they promise is in docs/guides/deploy.md."""

import json
import os
import re
import ssl
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from slow_rows import slow_but
from tls_certificate import make_certificate
from whispertide.server.options import Limits

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
SIZES = {"m": 2**20, "g": 2**30}


def in_bytes(size: str) -> int:
    size = size.lower().removesuffix("i")
    return int(size[:-1]) * SIZES[size[-1]]


@pytest.fixture(scope="module", params=["compose.yaml", "fleet/compose.yaml"])
def service(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / request.param).read_text())["services"]["whispertide"]
    return found


def dockerfile(path: Path = DEPLOY / "Dockerfile") -> list[tuple[str, str]]:
    """Its instructions and their arguments, in order."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in whole.splitlines() if line)]


def final_stage() -> list[tuple[str, str]]:
    instructions = dockerfile()
    return instructions[max(place for place, (name, _) in enumerate(instructions) if name == "FROM") :]


def unit() -> dict[str, list[str]]:
    settings: dict[str, list[str]] = defaultdict(list)
    for line in (DEPLOY / "whispertide.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            settings[name].append(value)
    return settings


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(certificate: tuple[Path, Path] | None) -> Iterator[str]:
    """A server that is healthy, with or without TLS; gives its address."""
    with HTTPServer(("127.0.0.1", 0), _Healthy) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def check_temporary_folder(size: str, memory: str) -> None:
    """What lies in a tmpfs counts as memory of the container: only a smaller one is full before that is."""
    assert in_bytes(size) >= 2 * Limits().upload
    assert in_bytes(memory) >= in_bytes(size) + 2 * 2**30


class TestKubernetes:
    def test_a_full_temporary_folder_leaves_the_server_its_memory(self) -> None:
        """On a disk, `sizeLimit` would evict the pod, and the server would never find its folder full."""
        objects = yaml.safe_load_all((DEPLOY / "fleet/kubernetes/whispertide.yaml").read_text())
        pod = next(one for one in objects if one["kind"] == "Deployment")["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        (mounted,) = (mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == "/tmp")
        (folder,) = (volume["emptyDir"] for volume in pod["volumes"] if volume["name"] == mounted)
        assert folder["medium"] == "Memory"
        check_temporary_folder(folder["sizeLimit"], container["resources"]["limits"]["memory"])


class TestCompose:
    def test_a_full_temporary_folder_leaves_the_server_its_memory(self, service: dict[str, Any]) -> None:
        (temporary,) = service["tmpfs"]
        folder, _, options = temporary.partition(":")
        assert folder == "/tmp"
        size = dict(option.split("=") for option in options.split(","))["size"]
        check_temporary_folder(size, service["mem_limit"])

    def test_processes_are_limited(self, service: dict[str, Any]) -> None:
        assert 0 < service["pids_limit"] <= 1024

    def test_nothing_can_be_written_but_data_and_temporary_files(self, service: dict[str, Any]) -> None:
        assert service["read_only"] is True
        assert service["volumes"] == ["data:/data"]


class TestDockerfile:
    def test_the_working_directory_is_empty_and_cannot_be_written(self) -> None:
        stage = final_stage()
        (folder,) = (rest for name, rest in stage if name == "WORKDIR")
        made = next(rest for name, rest in stage if name == "RUN")
        assert f"install -d -m 555 {folder}" in made
        assert not [rest for name, rest in stage if name in ("COPY", "ADD") and rest.split()[-1].startswith(folder)]
        assert stage.index(("USER", "10001")) > stage.index(("WORKDIR", folder))
        assert "useradd --create-home --uid 10001 " in made

    def test_every_package_is_installed_by_its_hash(self) -> None:
        """Or comes from a wheel that was built a line before."""
        steps = [step for name, rest in dockerfile() if name == "RUN" for step in rest.split("&&")]
        installs = [step for step in steps if "pip install" in step or "pip wheel" in step]
        hashed = [step for step in installs if "--require-hashes" in step]
        assert [step.split("-r ")[1].strip() for step in hashed] == ["requirements.lock", "build.lock"]
        for step in installs:
            assert step in hashed or "--no-deps" in step
            assert step in hashed or "--no-index" in step or "--no-build-isolation" in step

    def test_what_it_copies_is_in_the_context(self) -> None:
        allowed = {
            line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")
        }
        copied = [rest.split()[:-1] for name, rest in dockerfile() if name == "COPY" and "--from" not in rest]
        assert {source for sources in copied for source in sources} == allowed
        assert all((ROOT / source).exists() for source in allowed)

    def test_every_stage_starts_from_the_image_that_is_pinned(self) -> None:
        instructions = dockerfile()
        assert instructions[0][0] == "ARG"
        assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+-slim@sha256:[0-9a-f]{64}", instructions[0][1])
        assert {rest.split()[0] for name, rest in instructions if name == "FROM"} == {"${PYTHON_IMAGE}"}

    @pytest.mark.parametrize("with_tls", slow_but([False, True], True))
    def test_its_health_is_asked_where_the_server_is(self, with_tls: bool, tmp_path: Path) -> None:
        """By default at port 8000 without TLS; the environment of the container may name another address."""
        stage = final_stage()
        (usual,) = (rest for name, rest in stage if name == "ENV" and rest.startswith("HEALTH_URL="))
        assert usual == "HEALTH_URL=http://127.0.0.1:8000/healthz"
        (check,) = (rest for name, rest in stage if name == "HEALTHCHECK")
        _, *command = json.loads(check.partition("CMD ")[2])
        with answering(make_certificate(tmp_path) if with_tls else None) as address:
            asked = [self.exit_code(command, f"{address}/{path}") for path in ("healthz", "nothing")]
        assert asked[0] == 0
        assert asked[1] != 0
        assert self.exit_code(command, f"{address}/healthz") != 0, "nobody is there any more"

    def exit_code(self, command: list[str], url: str) -> int:
        environment = {**os.environ, "HEALTH_URL": url, "no_proxy": "*"}
        return subprocess.run([sys.executable, *command], env=environment, capture_output=True, check=False).returncode


class TestUnit:
    def test_the_working_directory_is_empty_and_cannot_be_written(self) -> None:
        """`ProtectHome=tmpfs` puts an empty folder that cannot be written in place of /home."""
        assert (unit()["ProtectHome"], unit()["WorkingDirectory"]) == (["tmpfs"], ["/home"])

    def test_memory_and_threads_are_limited_and_uploads_are_no_memory(self) -> None:
        assert in_bytes(unit()["MemoryMax"][0]) >= 2 * 2**30
        assert 0 < int(unit()["TasksMax"][0]) <= 1024
        cache = f"/var/cache/{unit()['CacheDirectory'][0]}"
        assert f"TMPDIR={cache}" in unit()["Environment"]


class TestPinImage:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for name in ("deploy", "bin"):
            (tmp_path / name).mkdir()
        for name in ("Makefile", "deploy/Dockerfile"):
            (tmp_path / name).write_text((ROOT / name).read_text())
        return tmp_path

    def pin(self, folder: Path, docker: str) -> int:
        """The exit code of `make pin-image` where `docker` is a script."""
        script = folder / "bin/docker"
        script.write_text(f"#!/bin/sh\n{docker}\n")
        script.chmod(0o755)
        path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["make", "pin-image"], cwd=folder, env={**os.environ, "PATH": path}, check=False
        ).returncode

    def test_the_digest_gets_into_the_dockerfile_and_a_newer_one_replaces_it(self, folder: Path) -> None:
        for digest in ("sha256:" + "0123456789abcdef" * 4, "sha256:" + "f" * 64):
            assert self.pin(folder, f'echo "$@" > asked; echo {digest}') == 0
            assert dockerfile(folder / "deploy/Dockerfile")[0] == ("ARG", f"PYTHON_IMAGE=python:3.12-slim@{digest}")
            assert (folder / "asked").read_text().split()[-1] == "python:3.12-slim"

    @pytest.mark.parametrize("docker", ["echo no route to the registry >&2; exit 1", "echo", "echo sha256:123"])
    def test_without_a_digest_nothing_is_changed(self, folder: Path, docker: str) -> None:
        assert self.pin(folder, docker) != 0
        assert (folder / "deploy/Dockerfile").read_text() == (DEPLOY / "Dockerfile").read_text()
