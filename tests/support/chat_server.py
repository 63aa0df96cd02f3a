"""A server of OpenAI's chat completions on loopback, as real HTTP; how it answers is told to it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


@dataclass
class ChatServer:
    """`answers` are used up one a request, then `usual` answers. `requests` are (path, headers, body)."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    most_at_once: int = 0
    _running: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self._lock:
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
            self.requests.append((handler.path, {k.lower(): v for k, v in handler.headers.items()}, body))
            answer = self.answers.pop(0) if self.answers else usual
        try:
            answer(handler, body)
        finally:
            with self._lock:
                self._running -= 1


def send(handler: BaseHTTPRequestHandler, data: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def said(text: object) -> bytes:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


def usual(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
    """The last message in capitals, with the language that it was asked for."""
    task, text = body["messages"][0]["content"], body["messages"][-1]["content"]
    target = "" if task.startswith("You correct") else task.split(" into ")[1].split(". ")[0] + ": "
    send(handler, said(f"{target}{text.upper()}"))


def says(text: object) -> Answer:
    return lambda handler, _: send(handler, said(text))


def raw(data: bytes, status: int = 200, **headers: str) -> Answer:
    return lambda handler, _: send(handler, data, status, **headers)


def fails(status: int, message: str = "", **headers: str) -> Answer:
    data = json.dumps({"error": {"message": message}}).encode() if message else b""
    return raw(data, status, **headers)


def drops(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
    """Close without a word."""
    handler.close_connection = True


def breaks_off(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
    """Promise more than comes."""
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def waits(event: threading.Event) -> Answer:
    """Answer as usual once that is set."""

    def answer(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        event.wait(30)
        usual(handler, body)

    return answer


@contextmanager
def chat_server(*answers: Answer) -> Iterator[ChatServer]:
    chat = ChatServer(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                chat.respond(self)
            except OSError:  # the client did not wait
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

    server = Quiet(("127.0.0.1", 0), Handler)
    chat.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
