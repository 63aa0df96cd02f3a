"""A server in a thread for tests of the page, and what a person does with it."""

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from headless_chromium import Page
from served import SILENCE, KnowingModel, client, in_thread, served
from whispertide.server.options import Address, ServerOptions

STATE = "document.getElementById('status').dataset.state"
FAKE_MICROPHONE = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")


def serving(
    options: ServerOptions | None = None,
    model: KnowingModel | dict[str, Any] | None = None,
    *,
    crowd: bool = False,
    port: int = 0,
) -> AbstractContextManager[str]:
    """A server in a thread; gives its address. With a crowd, all of its places are taken."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[str]:
        async with AsyncExitStack() as stack:
            server, _ = await stack.enter_async_context(served(options, model or KnowingModel(), Address(port=port)))
            if crowd:
                other = await stack.enter_async_context(client(server))
                await other.send(SILENCE)
                await other.until("session")
            yield f"http://127.0.0.1:{server.port}/"

    return in_thread(opened())


def drop(tab: Page, data: bytes, name: str = "talk") -> None:
    """Drop a file on the page."""
    drop_all(tab, {name: data})


def drop_all(tab: Page, files: Mapping[str, bytes]) -> None:
    """Drop files on the page, all at once."""
    encoded = [[name, base64.b64encode(data).decode()] for name, data in files.items()]
    tab.evaluate(f"""(() => {{
      const transfer = new DataTransfer();
      for (const [name, data] of {json.dumps(encoded)}) {{
        transfer.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name));
      }}
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
