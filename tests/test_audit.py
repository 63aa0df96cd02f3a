"""deploy/audit.py, with a service of our own and a command in place of pip-audit."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmark_scripts import benchmark

ROOT = Path(__file__).parent.parent
KNOWS = json.dumps({"vulns": [{"id": "an old one"}]})


@pytest.fixture(scope="module")
def audit() -> Iterator[Any]:
    with benchmark("audit", ROOT / "deploy") as module:
        yield module.audit


@contextmanager
def service(answer: str, status: int = 200) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/query"
        finally:
            server.shutdown()
            thread.join()


def ending_with(code: int, called: Path) -> list[str]:
    """A command that leaves its arguments in a file."""
    script = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(' '.join(sys.argv[2:])); sys.exit(int({}))"
    return [sys.executable, "-c", script.format(code), str(called)]


@pytest.mark.parametrize("code", [0, 1])
def test_the_exit_code_is_that_of_pip_audit(audit: Any, tmp_path: Path, code: int) -> None:
    with service(KNOWS) as url:
        assert audit(["a.lock", "b.lock"], url, ending_with(code, called := tmp_path / "called")) == code
    assert called.read_text().endswith("--requirement a.lock --requirement b.lock")


def test_without_a_service_a_line_says_so_and_nothing_is_run(
    audit: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert audit(["a.lock"], f"http://127.0.0.1:{port}", ending_with(1, called := tmp_path / "called")) == 0
    assert not called.exists()
    said = capsys.readouterr().out
    assert said.startswith(f"audit skipped: http://127.0.0.1:{port} cannot be asked")
    assert said.count("\n") == 1


def test_a_service_that_accepts_and_says_nothing_is_not_waited_for(
    audit: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert audit(["a.lock"], url, ending_with(1, called := tmp_path / "called"), patience_s=0.2) == 0
    assert not called.exists()
    assert "audit skipped" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "status"), [("{}", 200), ("<html>", 200), ("[]", 200), ("{}", 404)])
def test_a_service_that_knows_nothing_is_none(
    audit: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: str, status: int
) -> None:
    """A mirror without advisories would find nothing in anything."""
    with service(answer, status) as url:
        assert audit(["a.lock"], url, ending_with(1, called := tmp_path / "called")) == 0
    assert not called.exists()
    assert "audit skipped" in capsys.readouterr().out


def test_make_check_audits_every_lock() -> None:
    said = subprocess.run(["make", "--dry-run", "check"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in said.splitlines() if "deploy/audit.py" in line)
    locks = {str(path.relative_to(ROOT)) for folder in (ROOT, ROOT / "deploy") for path in folder.glob("*.lock")}
    assert set(line.split("deploy/audit.py")[1].split()) == locks
