"""A page in a real headless Chromium, driven by the DevTools protocol; nothing but the browser has to be installed."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from websockets.sync.client import connect
from websockets.sync.connection import Connection

PATIENCE_S = 30.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


SLOW_IN_CHROMIUM = [  # the marks of a file with such tests
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine"),
]


@dataclass
class Page:
    """One tab. `complaints` are the page's errors: uncaught ones and what breaks the content security policy."""

    socket: Connection
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _next: int = 0

    def command(self, method: str, **params: Any) -> dict[str, Any]:
        self._next += 1
        self.socket.send(json.dumps({"id": self._next, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=PATIENCE_S))
            if message.get("id") == self._next:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return dict(message["result"])
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"].get("exception", {}).get("description")))
            case "Log.entryAdded" if params["entry"]["source"] == "security":
                self.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Network.webSocketCreated":
                self.requests.append(params["url"])

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.command(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def go(self, url: str) -> None:
        self.command("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def wait(self, expression: str, patience_s: float = PATIENCE_S) -> Any:
        """Until an expression is true; returns its value."""
        deadline, pause_s = time.monotonic() + patience_s, 0.01
        while time.monotonic() < deadline:
            with suppress(RuntimeError):  # between two documents there is none to ask
                if value := self.evaluate(expression):
                    return value
            time.sleep(pause_s)
            pause_s = min(1.5 * pause_s, 0.1)  # most are true at once; what takes long is not asked for all the time
        raise AssertionError(f"never true: {expression}; the page says {self.evaluate('document.body.innerText')!r}")

    def click(self, selector: str) -> None:
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def point(self, selector: str, kind: str = "mouseMoved", number: int = 0) -> None:
        """Move the mouse over the element of that number, and with "click" press there."""
        found = f"document.querySelectorAll({json.dumps(selector)})[{number}]"
        box = self.evaluate(f"{found}.scrollIntoView({{block: 'nearest'}}), {found}.getBoundingClientRect().toJSON()")
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        kinds = ("mousePressed", "mouseReleased") if kind == "click" else (kind,)
        for one in kinds:
            button = "none" if one == "mouseMoved" else "left"
            self.command("Input.dispatchMouseEvent", type=one, button=button, clickCount=int(button == "left"), **at)

    def text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def press(self, key: str, code: str = "") -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.command("Input.dispatchKeyEvent", type="keyDown", key=key, code=code or key, **text)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=key, code=code or key)

    def size(self, width: int, height: int, *, mobile: bool = False) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )

    def screenshot(self, path: Path) -> None:
        data = self.command("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def page(*flags: str, arguments: Sequence[str] = ()) -> Iterator[Page]:
    """A fresh browser with one empty page; afterwards it is gone, all of its processes too."""
    program = find_chromium()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [
            program, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={profile}", "--no-first-run",
            "--no-sandbox", "--disable-gpu", "--disable-extensions", "--disable-background-networking",
            "--disable-component-update", "--disable-dev-shm-usage", "--mute-audio", "--no-proxy-server",
            "--force-prefers-reduced-motion",  # nobody looks, and each picture takes time
            "--autoplay-policy=no-user-gesture-required", *flags, *arguments, "about:blank",
        ]  # fmt: skip
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            with connect(_page_address(Path(profile), process), max_size=None, compression=None) as socket:
                opened = Page(socket)
                for domain in ("Page", "Runtime", "Log", "Network"):
                    opened.command(f"{domain}.enable")
                yield opened
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _page_address(profile: Path, process: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + PATIENCE_S
    told = profile / "DevToolsActivePort"
    while time.monotonic() < deadline and process.poll() is None:
        if told.exists() and (lines := told.read_text().splitlines()):
            with urlopen(f"http://127.0.0.1:{lines[0]}/json/list") as answer:
                for target in json.load(answer):
                    if target["type"] == "page":
                        return str(target["webSocketDebuggerUrl"])
        time.sleep(0.1)
    raise AssertionError(f"expected {process.args!r} to start; it did not")
