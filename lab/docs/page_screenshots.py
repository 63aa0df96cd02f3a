"""Take the pictures in docs/guides/page: the page in a real Chromium, with the bundled model and the bundled recording.

make screenshots
"""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import soxr

from headless_chromium import Page, find_chromium, page
from served_page import FAKE_MICROPHONE, STATE, drop
from wav_file import save_wav
from whispertide.audio.file import load_audio
from whispertide.cli.bundled import bundled_files
from whispertide.options import BUNDLED_MODEL
from whispertide.types import SAMPLE_RATE

FOLDER = Path(__file__).parents[2] / "docs" / "guides" / "page"
WORDS = "document.querySelectorAll('.word').length"
MICROPHONE_RATE = 48_000  # of Chromium's fake microphone
START_S = 120.0  # the graphs may have to be built first
PICTURE = """Object.assign(document.documentElement.style, {
  minHeight: "100vh",
  background: "radial-gradient(circle at 76% 28%, #ffe9b0 0 4%, transparent 4.6%), "
    + "linear-gradient(#27406b, #d98a5b 62%, #16323a 62%, #0b1d24)",
})"""


@contextmanager
def serving() -> Iterator[str]:
    """`whispertide serve` with the bundled model; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "whispertide.cli.main", "serve", "--model", BUNDLED_MODEL, "--port", str(port)]
    address = f"http://127.0.0.1:{port}/"
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_S
        while not _answers(address):
            if time.monotonic() > deadline or server.poll() is not None:
                sys.exit(f"expected a server at {address}; it did not start: run {' '.join(command)}")
            time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        server.wait()


def _answers(address: str) -> bool:
    try:
        with urlopen(address + "readyz"):
            return True
    except URLError:
        return False


def look(tab: Page, width: int, height: int, scheme: str) -> None:
    """Set the size of the window, and light or dark."""
    tab.size(width, height, mobile=width < 500)
    tab.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


def take(tab: Page, name: str) -> None:
    """Save what the page looks like."""
    time.sleep(0.3)  # what moves comes to rest
    tab.screenshot(FOLDER / name)


def while_recording(tab: Page) -> None:
    """The microphone hears the recording: on a desk, in a hand, and in big letters."""
    look(tab, 1100, 640, "light")
    tab.click("#record")
    tab.wait(f"{WORDS} >= 22 && document.querySelector('.guess').textContent")
    take(tab, "live.png")
    look(tab, 390, 760, "dark")
    tab.click("#caution-close")
    take(tab, "phone.png")
    while_watched(tab)
    tab.click("#record")
    tab.wait(f"{STATE} === 'ready'")


def while_watched(tab: Page) -> None:
    """Captions for viewers: over a picture, and on a phone."""
    tab.click("#share-show")
    tab.click("#share-open")
    tab.wait("Boolean(document.querySelector('#share-code svg'))")
    url = tab.evaluate("document.getElementById('share-address').value")
    tab.evaluate("document.getElementById('share').close()")
    with page() as viewer:
        viewer.size(1100, 620)
        viewer.go(f"{url}?background=transparent&size=1.3")
        viewer.wait("document.getElementById('text').innerText.split(' ').length >= 16")
        viewer.evaluate(PICTURE)
        take(viewer, "watching.png")
        viewer.size(390, 560, mobile=True)
        viewer.go(url)
        viewer.wait("document.getElementById('text').innerText.split(' ').length >= 16")
        take(viewer, "watching-phone.png")
    tab.click("#share-show")
    tab.click("#share-end")
    tab.wait("document.getElementById('share-open').checkVisibility()")
    tab.evaluate("document.getElementById('share').close()")


def while_playing(tab: Page, recording: Path) -> None:
    """The recording is transcribed as a file, and plays from a word on."""
    look(tab, 1100, 640, "dark")
    tab.evaluate("window.confirm = () => true")
    tab.click("#clear")
    drop(tab, recording.read_bytes(), recording.name)
    tab.wait(f"{WORDS} > 40 && {STATE} === 'ready'", 60)
    tab.point(".word", "click", number=30)
    tab.wait("Boolean(document.querySelector('.word.heard'))")
    take(tab, "playing.png")


def main() -> None:
    """Serve, open the page, take the pictures."""
    if find_chromium() is None:
        sys.exit("expected Chromium for taking pictures of the page; found none. Debian: apt install chromium")
    FOLDER.mkdir(exist_ok=True)
    with bundled_files() as (recording, _), tempfile.TemporaryDirectory() as folder, serving() as address:
        sound = Path(folder) / "microphone.wav"
        save_wav(sound, soxr.resample(load_audio(recording), SAMPLE_RATE, MICROPHONE_RATE), MICROPHONE_RATE)
        with page(*FAKE_MICROPHONE, f"--use-file-for-fake-audio-capture={sound}%noloop") as tab:
            tab.go(address)
            tab.wait(f"{STATE} === 'ready'")
            while_recording(tab)
            while_playing(tab, recording)


if __name__ == "__main__":
    main()
