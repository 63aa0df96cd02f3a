"""A server in a thread for tests of the page, and what a person does with it."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headless_chromium import Page
from served import SILENCE, KnowingModel, client, served
from whispertide.server.options import ServerOptions

STATE = "document.getElementById('status').dataset.state"
FAKE_MICROPHONE = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")


@contextmanager
def serving(
    options: ServerOptions | None = None, model: KnowingModel | None = None, *, crowd: bool = False
) -> Iterator[str]:
    """A server in a thread; gives its address. With a crowd, all of its places are taken."""
    ready, stop, address = threading.Event(), threading.Event(), []

    async def serve() -> None:
        async with served(options, model or KnowingModel()) as (server, _):
            address.append(f"http://127.0.0.1:{server.port}/")
            if crowd:
                async with client(server) as other:
                    await other.send(SILENCE)
                    await other.until("session")
                    ready.set()
                    await asyncio.to_thread(stop.wait)
            else:
                ready.set()
                await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(20)
        yield address[0]
    finally:
        stop.set()
        thread.join(20)


def drop(tab: Page, data: bytes, name: str = "talk") -> None:
    """Drop a file on the page."""
    tab.evaluate(f"""(() => {{
      const bytes = Uint8Array.from(atob({json.dumps(base64.b64encode(data).decode())}), (c) => c.charCodeAt(0));
      const transfer = new DataTransfer();
      transfer.items.add(new File([bytes], {json.dumps(name)}));
      dispatchEvent(new DragEvent("drop", {{ dataTransfer: transfer, cancelable: true }}));
    }})()""")


def reload(tab: Page) -> None:
    """The same page anew, ready."""
    tab.evaluate("window.isOld = true")
    tab.command("Page.reload")
    tab.wait(f"!window.isOld && document.readyState === 'complete' && {STATE} === 'ready'")


def start_anew(tab: Page) -> None:
    """Throw the transcript and all choices away."""
    tab.evaluate("window.confirm = () => true, document.getElementById('clear').disabled = false")
    tab.click("#clear")  # a recording that goes on ends, too
    tab.wait("!document.querySelector('#record.running')")
    tab.evaluate("localStorage.clear()")
