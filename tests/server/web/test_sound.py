"""Sound from a (fake) microphone of a real Chromium, through the page and the server, to words: the bundled model.

What the page shows is exactly what the session on the server confirmed, and that session got exactly the samples that
the page captured, also when the connection was cut or the session was lost. A local session that is given what the page
captured, with the same rounds, says exactly the same. What the command line makes of that sound is nearly the same: its
rounds end elsewhere. The recording itself is no measure, because the browser starts it a moment later, takes it through
48 kHz and back, and leaves samples out when the machine is busy.
"""

import asyncio
import difflib
import re
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import soxr
from typer.testing import CliRunner

import whispertide
from headless_chromium import SLOW_IN_CHROMIUM, Page, page
from served import in_thread
from served_page import FAKE_MICROPHONE, STATE, drop, start_anew
from watcher import Watcher
from wav_file import save_wav
from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.cli.main import app
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.hub import Hub
from whispertide.server.options import Limits, ServerOptions, Work
from whispertide.server.serving import run_server
from whispertide.session import Session
from whispertide.types import SAMPLE_RATE, FloatArray, join_words

pytestmark = SLOW_IN_CHROMIUM

RECIPE = get_recipe("whisper-streaming")
SECONDS = 9.0
SHOWN = "[...document.querySelectorAll('.paragraph p')].map((p) => p.textContent.trim()).join(' ')"


class Wire:
    """A TCP proxy between page and server whose connections can be cut, and stay cut for a while."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.port = 0
        self.is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers |= {writer, back}
        await asyncio.gather(self._copy(reader, back), self._copy(there, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()
        with suppress(OSError):
            writer.close()

    def cut(self) -> None:
        self.is_cut = True
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()


@dataclass
class Served:
    model: Transcriber
    watcher: Watcher
    wire: Wire = field(init=False)
    hub: Hub = field(init=False)
    call: Callable[..., object] = field(init=False)  # in the server's thread

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.wire.port}/"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served(whispertide.load("nano.en", threads=1), Watcher())

    @asynccontextmanager
    async def opened() -> AsyncIterator[Served]:
        options = ServerOptions(Limits(stall_s=600.0), Work(workers=1, degrade=False))
        served.hub = Hub({"nano.en": served.model}, RECIPE, options, record=served.watcher.opened)
        served.call = asyncio.get_running_loop().call_soon_threadsafe
        async with run_server(served.hub) as server:
            served.wire = Wire(server.port)
            async with await served.wire.start():
                yield served
                served.wire.cut()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whispertide.server.load.HIGH", float("inf"))  # a slow machine would refuse the next client
        with in_thread(opened()) as served:
            yield served


@pytest.fixture(scope="module")
def demo() -> FloatArray:
    path = files("whispertide") / "bundled" / "audio" / "demo.flac"
    return load_audio(Path(str(path)))[: round(SECONDS * SAMPLE_RATE)]


@pytest.fixture(scope="module")
def listener(demo: FloatArray, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser whose microphone hears the recording once whenever it is opened."""
    sound = tmp_path_factory.mktemp("sound") / "demo.wav"
    save_wav(sound, soxr.resample(demo, SAMPLE_RATE, 48_000), 48_000)
    with page(*FAKE_MICROPHONE, f"--use-file-for-fake-audio-capture={sound}%noloop") as listener:
        yield listener


@pytest.fixture
def tab(listener: Page, served: Served) -> Iterator[Page]:
    """The page, ready. `heard` has what it captured."""
    served.watcher.sessions.clear()
    served.wire.is_cut = False
    listener.go(served.address)
    listener.wait(f"{STATE} === 'ready'")
    listener.evaluate("""import('/backlog.js').then(({ Backlog }) => {
      const { push } = Backlog.prototype;
      window.heard = [];
      Backlog.prototype.push = function (samples) {
        for (const sample of samples) heard.push(sample);
        push.call(this, samples);
      };
    })""")
    yield listener
    start_anew(listener)
    assert not listener.complaints


def heard(tab: Page) -> FloatArray:
    size = tab.evaluate("heard.length")
    values: list[int] = []
    for at in range(0, size, 50_000):
        values += tab.evaluate(f"heard.slice({at}, {at + 50_000})")
    return np.array(values, np.float32) / np.float32(32_768)


def local(served: Served, number: int, sound: FloatArray) -> str:
    """What a local session says to the same sound with the rounds that the session on the server had."""
    watched = served.watcher.sessions[number]
    executor = served.model.session(RECIPE).executor
    session = Session(
        RECIPE, executor, RECIPE.schedule.gate(), options=watched.live.asked_options, schedule=watched.schedule
    )
    session.push(sound)
    session.finish()
    return join_words(session.transcript.words)


def stop(tab: Page) -> str:
    tab.click("#record")
    tab.wait(f"{STATE} === 'ready'", 60)
    return str(tab.evaluate(SHOWN))


def words(text: str) -> list[str]:
    return re.sub(r"[^\w' ]", "", text.lower().replace("\n", " ")).split()


def test_the_microphone_and_the_text_that_is_downloaded(tab: Page, served: Served, tmp_path: Path) -> None:
    """The text is that of the session, and nearly that of `whispertide transcribe` with the same recipe and sound.

    Rounds end elsewhere there. So what a round cuts in two may be heard otherwise: the first and last word do not
    count, and one word in eight may differ.
    """
    tab.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    tab.click("#record")
    tab.wait(f"heard.length > {round((SECONDS + 0.5) * SAMPLE_RATE)}")
    text = stop(tab)
    (watched,) = served.watcher.sessions
    assert text == watched.text
    assert watched.live.session.ended
    sound = heard(tab)
    np.testing.assert_array_equal(watched.audio, sound)
    assert text == local(served, 0, sound)

    tab.click("#save")
    tab.click("[data-format=txt]")
    # Chromium makes an empty file of that name before it moves the download there.
    deadline = time.monotonic() + 60
    while not (found := [path for path in tmp_path.glob("*.txt") if path.stat().st_size]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (downloaded,) = found
    assert words(downloaded.read_text("utf-8")) == words(text)
    save_wav(tmp_path / "captured.wav", sound, SAMPLE_RATE)
    command = ["transcribe", str(tmp_path / "captured.wav"), "--model", "nano.en", "--recipe", RECIPE.name]
    ran = CliRunner().invoke(app, [*command, "--threads", "1", "--format", "txt"])
    assert ran.exit_code == 0, ran.stderr
    page, line = words(text)[1:-1], words(ran.stdout)[1:-1]
    assert len(line) > 10
    same = sum(block.size for block in difflib.SequenceMatcher(None, page, line, autojunk=False).get_matching_blocks())
    assert same >= 0.875 * max(len(page), len(line)), (page, line)


def test_the_connection_is_cut_and_no_word_is_lost(tab: Page, served: Served, demo: FloatArray) -> None:
    tab.click("#record")
    tab.wait("document.querySelectorAll('.word').length >= 2")
    served.call(served.wire.cut)
    tab.wait(f"{STATE} === 'away'")
    before = tab.evaluate("heard.length")
    tab.wait(f"heard.length > {before + 2 * SAMPLE_RATE}")  # two seconds are said to nobody
    served.wire.is_cut = False
    tab.wait(f"{STATE} === 'live'")
    tab.wait(f"heard.length > {round((SECONDS + 0.5) * SAMPLE_RATE)}")
    text = stop(tab)
    assert len(served.watcher.sessions) == 1
    assert text == served.watcher.sessions[0].text
    sound = heard(tab)
    np.testing.assert_array_equal(served.watcher.sessions[0].audio, sound)
    assert text == local(served, 0, sound)


def test_the_session_itself_is_lost(tab: Page, served: Served, demo: FloatArray) -> None:
    """As after a restart of a server without a journal: a new session hears what was not confirmed yet."""
    tab.click("#record")
    tab.wait("document.querySelectorAll('.word').length >= 2")
    served.call(served.wire.cut)
    tab.wait(f"{STATE} === 'away'")
    served.call(served.hub.drop, served.watcher.sessions[0].live)
    time.sleep(1)
    shown = str(tab.evaluate("[...document.querySelectorAll('.word')].map((w) => w.textContent).join(' ')"))
    served.wire.is_cut = False
    tab.wait(f"heard.length > {round((SECONDS + 0.5) * SAMPLE_RATE)}")
    text = stop(tab)
    assert len(served.watcher.sessions) == 2
    assert text == f"{shown} {served.watcher.sessions[1].text}"
    everything, again = heard(tab), served.watcher.sessions[1].audio
    np.testing.assert_array_equal(again, everything[len(everything) - len(again) :])
    assert len(again) < len(everything)
    assert served.watcher.sessions[1].text == local(served, 1, again)


def test_files(tab: Page, demo: FloatArray, tmp_path: Path) -> None:
    """One that the browser decodes, one that only the server can (Sun's), and one that nobody can."""
    drop(tab, save_wav(tmp_path / "demo.wav", demo).read_bytes())
    tab.wait(f"document.querySelectorAll('.word').length >= 10 && {STATE} === 'ready'", 300)
    tab.evaluate("window.confirm = () => true")
    tab.click("#clear")
    pcm = (demo * 32_767).astype(">i2").tobytes()
    drop(tab, struct.pack(">4sIIIII", b".snd", 24, len(pcm), 3, SAMPLE_RATE, 1) + pcm)
    tab.wait(f"document.querySelectorAll('.word').length >= 10 && {STATE} === 'ready'", 300)
    drop(tab, b"this is no sound")
    tab.wait("document.querySelector('#problem-title').innerText.includes('no sound')")
