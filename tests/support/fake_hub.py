"""A Hugging Face hub on 127.0.0.1: the few endpoints that a download uses, and the ways in which they fail."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit


class FakeHub:
    """`repos[repo][revision]` are the files of a commit; the other fields make requests fail."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, dict[str, bytes]]] = {}
        self.gated: set[str] = set()
        self.status: int | None = None  # answer every request with this
        self.cut_after: int | None = None  # drop the connection after so many bytes of a file
        self.requests: list[str] = []
        self.ranges: list[str] = []
        self.endpoint = ""

    def commit(self, repo: str, revision: str) -> str | None:
        """The commit that a branch or a commit hash stands for."""
        for name, files in self.repos.get(repo, {}).items():
            content = repr((repo, name, [(file, _etag(data)) for file, data in sorted(files.items())]))
            digest = hashlib.sha1(content.encode()).hexdigest()
            if revision in (name, digest):
                return digest
        return None

    def files(self, repo: str, revision: str) -> dict[str, bytes]:
        """The files of a commit."""
        for name, files in self.repos[repo].items():
            if revision in (name, self.commit(repo, name)):
                return files
        raise KeyError(revision)

    @property
    def downloads(self) -> list[str]:
        """Names of the files that were sent, in order."""
        return [path.rpartition("/")[2] for path in self.requests if path.startswith("GET") and "/resolve/" in path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        self.hub.requests.append(f"{self.command} {path}")
        parts = path.split("/")
        if self.hub.status is not None:
            return self._fail(self.hub.status)
        if "resolve" not in parts and parts[:2] != ["api", "models"]:
            return self._fail(404)
        if parts[:2] == ["api", "models"]:
            kind = parts[4] if len(parts) > 4 else "revision"
            return self._api("/".join(parts[2:4]), kind, parts[5] if len(parts) > 5 else "main")
        return self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def _found(self, repo: str, revision: str) -> str | None:
        if repo not in self.hub.repos:
            self._fail(401, "RepoNotFound")
        elif (commit := self.hub.commit(repo, revision)) is None:
            self._fail(404, "RevisionNotFound")
        else:
            return commit
        return None

    def _api(self, repo: str, kind: str, revision: str) -> None:
        commit = self._found(repo, revision)
        if commit is None:
            return
        files = self.hub.files(repo, commit)
        entries = [{"rfilename": name, "size": len(data), "blobId": _etag(data)} for name, data in files.items()]
        tree = [{"type": "file", "path": e["rfilename"], "size": e["size"], "oid": e["blobId"]} for e in entries]
        gated = repo in self.hub.gated
        info = {"id": repo, "sha": commit, "siblings": entries, "private": False, "gated": "auto" if gated else False}
        self._send(json.dumps(tree if kind == "tree" else info).encode(), {"Content-Type": "application/json"})

    def _file(self, repo: str, revision: str, name: str) -> None:
        commit = self._found(repo, revision)
        if commit is None:
            return None
        if repo in self.hub.gated:
            return self._fail(403, "GatedRepo")
        data = self.hub.files(repo, commit).get(name)
        if data is None:
            return self._fail(404, "EntryNotFound")
        headers = {"X-Repo-Commit": commit, "ETag": f'"{_etag(data)}"', "Accept-Ranges": "bytes"}
        status, begin = 200, 0
        if wanted := self.headers.get("Range"):
            self.hub.ranges.append(wanted)
            begin = int(wanted.removeprefix("bytes=").split("-")[0])
            status, headers["Content-Range"] = 206, f"bytes {begin}-{len(data) - 1}/{len(data)}"
        return self._send(data[begin:], headers, status)

    def _send(self, data: bytes, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.hub.cut_after
        if cut is not None and len(data) > cut:
            self.wfile.write(data[:cut])
            self.close_connection = True
        else:
            self.wfile.write(data)

    def _fail(self, status: int, code: str = "") -> None:
        self._send(b"{}", {"X-Error-Code": code} if code else {}, status)


@cache  # models are megabytes, and asked for often
def _etag(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    """A hub that listens until the end of the block."""
    hub = FakeHub()
    handler: Any = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        hub.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


REPO = "openai/whisper-base.en"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
