"""An utterance sent to a server that speaks OpenAI's `POST /v1/audio/transcriptions`: whispertide's own, or another.

A request is made of audio as it comes: it may begin before the last of it is there. Everything about it has one
deadline, from the moment when the audio is complete; until then it may be tried again. A server can be gone, slow or
wrong, so an answer is checked before it counts. The requests run in an event loop on a thread of their own, where a
deadline ends them whatever they are doing. Knows no model and no recipe.
"""

import asyncio
import io
import json
import threading
import unicodedata
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx2

from whispertide.audio.wav import pcm, wav_writer, write_samples
from whispertide.errors import OptionError, WhispertideError
from whispertide.punctuation import CHINESE_OR_JAPANESE
from whispertide.types import SAMPLE_RATE, FloatArray, Span, Word, to_samples

_LONGEST_ANSWER = 2**20  # bytes; an hour of speech has fewer
FASTEST = 40  # characters a second that anybody speaks, at the most
LONGEST_S = 1e6  # later than any word
PAUSE_S = 0.1  # between two tries
_NO_TEXT = ("Cc", "Cs", "Co", "Cn")  # control characters, surrogates, private and unassigned ones (Unicode)


class RemoteError(WhispertideError):
    """A server gave no answer, or none that can be used."""


@dataclass(frozen=True, slots=True)
class Server:
    """The server that requests go to.

    url    up to and without `/v1/audio/transcriptions`
    model  the model that is asked for; "": whatever the server chooses
    key    for `Authorization: Bearer`; "": none is sent
    tries  how often a request is made in all, before its deadline
    """

    url: str
    model: str = ""
    key: str = field(default="", repr=False)
    tries: int = 2

    def __post_init__(self) -> None:
        try:
            parsed = httpx2.URL(self.url)
        except (httpx2.InvalidURL, TypeError) as error:
            raise OptionError(f"expected the address of a server; got {self.url!r}: {error}") from error
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise OptionError(f"expected a server such as http://localhost:8000; got {self.url!r}")

    @property
    def endpoint(self) -> str:
        """The address that files are posted to."""
        base = self.url.rstrip("/")
        return base + ("" if base.endswith("/v1") else "/v1") + "/audio/transcriptions"

    @property
    def headers(self) -> dict[str, str]:
        """Those of every request."""
        return {"authorization": f"Bearer {self.key}"} if self.key else {}


class Upload:
    """One utterance on its way. `sent` are its samples so far. Made by `Remote.open`."""

    def __init__(self, remote: "Remote", audio: FloatArray) -> None:
        self.sent = audio
        self._remote = remote
        self._pieces: asyncio.Queue[FloatArray | None] = asyncio.Queue()
        self._early = asyncio.run_coroutine_threadsafe(remote.post_as_it_comes(audio, self._pieces), remote.loop)

    def add(self, audio: FloatArray) -> None:
        """All of the audio up to now, which begins with what was sent."""
        new, self.sent = audio[len(self.sent) :], audio
        # An asyncio queue is not safe across threads: only its own loop may fill it.
        self._remote.loop.call_soon_threadsafe(self._pieces.put_nowait, new)

    def finish(self, within_s: float) -> "Future[Mapping[str, Any]]":
        """That was all: the answer, within so many seconds."""
        self._remote.loop.call_soon_threadsafe(self._pieces.put_nowait, None)
        return self._remote.answer(self.sent, within_s, self._early)

    def abandon(self) -> None:
        """Nobody wants it."""
        self._early.cancel()


class Remote:
    """A server, and the thread that talks to it; any number of sessions may share one."""

    def __init__(self, server: Server) -> None:
        """Raises `OptionError` where no request could be made."""
        self.server = server
        self.loop: asyncio.AbstractEventLoop
        self._client: httpx2.AsyncClient
        self._stop: asyncio.Event
        self._failed: Exception | None = None
        ready = threading.Event()
        # A daemon, so that a program which forgets to close it still exits.
        self._thread = threading.Thread(target=self._run, args=(ready,), name="remote", daemon=True)
        self._thread.start()
        # The loop and the client exist only when the thread has made them.
        ready.wait()
        if self._failed is not None:
            raise OptionError(f"expected a server and a key that can be asked with; {server.url}: {self._failed}")

    def open(self, audio: FloatArray) -> Upload:
        """Begin to send an utterance whose end is not there yet."""
        return Upload(self, audio)

    def send(self, audio: FloatArray, within_s: float) -> "Future[Mapping[str, Any]]":
        """Send a whole utterance, [samples] at 16 kHz. The answer comes within so many seconds, or a `RemoteError`."""
        return self.answer(audio, within_s)

    def close(self) -> None:
        """End the thread; what is under way is lost."""
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    # --- in the loop --------------------------------------------------------------------------------------------------

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._serve(ready))
        except Exception as error:  # such as a key that no header can hold; whoever made this waits for an answer
            self._failed = error
        finally:
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with httpx2.AsyncClient(
            # No timeout here: the deadline is that of the whole answer, its tries included (`_answer`).
            headers=self.server.headers,
            follow_redirects=False,
            timeout=None,
        ) as self._client:
            ready.set()
            await self._stop.wait()

    def answer(
        self, audio: FloatArray, within_s: float, first: "Future[Mapping[str, Any]] | None" = None
    ) -> "Future[Mapping[str, Any]]":
        """As `send`; `first` is a try that is under way."""
        return asyncio.run_coroutine_threadsafe(self._answer(audio, within_s, first), self.loop)

    async def _answer(
        self, audio: FloatArray, within_s: float, first: "Future[Mapping[str, Any]] | None"
    ) -> Mapping[str, Any]:
        # Told where not even one try has come to an end.
        problem = RemoteError("no answer in time")
        try:
            async with asyncio.timeout(within_s):
                for attempt in range(self.server.tries):
                    if attempt:
                        await asyncio.sleep(PAUSE_S)
                    try:
                        # The try that is under way is the first.
                        if first is not None and not attempt:
                            return await asyncio.wrap_future(first)
                        return await self._post(audio)
                    except RemoteError as error:
                        problem = error
                raise problem
        except TimeoutError:
            raise RemoteError(f"expected an answer within {within_s:g} s; got {problem}") from None

    async def _post(self, audio: FloatArray) -> Mapping[str, Any]:
        frame = _Form(self.server.model)
        return await self._exchange(frame, frame.head + wav(audio) + frame.tail)

    async def post_as_it_comes(
        self, audio: FloatArray, pieces: "asyncio.Queue[FloatArray | None]"
    ) -> Mapping[str, Any]:
        """One try whose audio comes in pieces, to the one that is None."""
        frame = _Form(self.server.model)

        async def body() -> AsyncIterator[bytes]:
            yield frame.head + wav(audio, streamed=True)
            while (piece := await pieces.get()) is not None:
                yield pcm(piece)
            yield frame.tail

        return await self._exchange(frame, body())

    async def _exchange(self, form: "_Form", body: bytes | AsyncIterator[bytes]) -> Mapping[str, Any]:
        headers = {"content-type": f"multipart/form-data; boundary={form.boundary}"}
        try:
            async with self._client.stream("POST", self.server.endpoint, content=body, headers=headers) as response:
                if response.status_code != 200:
                    raise RemoteError(f"the server refused with status {response.status_code}")
                content = bytearray()
                async for piece in response.aiter_bytes():
                    content += piece
                    # Checked while it arrives: an endless answer would fill the memory before its end.
                    if len(content) > _LONGEST_ANSWER:
                        raise RemoteError(f"the server's answer has more than {_LONGEST_ANSWER} bytes")
            answer = json.loads(content)
        # First, or the last clause would take our own errors for a broken network.
        except (RemoteError, asyncio.CancelledError):
            raise
        # JSON that is nested deeply enough exhausts the parser's stack.
        except (ValueError, RecursionError) as error:
            raise RemoteError("the server's answer is not JSON") from error
        except Exception as error:  # whatever a network can do
            raise RemoteError(f"the server could not be reached: {type(error).__name__}") from error
        if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
            raise RemoteError("the server's answer has no text")
        return answer


class _Form:
    """The parts of a multipart body before and after the file's bytes."""

    def __init__(self, model: str) -> None:
        # Long and random, so that no audio holds it by chance.
        self.boundary = uuid4().hex
        fields = {
            # The interface requires the field, also where the server is to choose.
            "model": model or "whisper-1",
            "response_format": "verbose_json",
            "timestamp_granularities[]": "word",
        }
        head = "".join(
            f'--{self.boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields.items()
        )
        head += f'--{self.boundary}\r\ncontent-disposition: form-data; name="file"; filename="speech.wav"\r\n'
        self.head = (head + "content-type: audio/wav\r\n\r\n").encode()
        self.tail = f"\r\n--{self.boundary}--\r\n".encode()


def wav(audio: FloatArray, *, streamed: bool = False) -> bytes:
    """A WAV file of 16 bits at 16 kHz; `streamed`: its header leaves open how much more will come."""
    file = io.BytesIO()
    with wav_writer(file) as writer:
        write_samples(writer, audio)
    content = bytearray(file.getvalue())
    if streamed:
        # Both lengths in the header at their largest, as programs that record into a pipe write them.
        content[4:8] = content[40:44] = (0xFFFFFFFF).to_bytes(4, "little")
    return bytes(content)


def words_of(answer: Mapping[str, Any], window: Span) -> tuple[Word, ...]:
    """The words of an answer, in absolute samples inside `window`; where it has no usable times they are spread evenly.

    Raises `RemoteError` for a text that nobody can have said in that time.
    """
    spoken = str(answer["text"]).split()
    text = " ".join(spoken)
    # Not `isprintable`, which refuses the joiners of Persian, Hindi and emoji and the marks of direction.
    strange = any(unicodedata.category(char) in _NO_TEXT for char in text)
    # A second is added, or the only word of a very short window would be too much.
    if len(text) > FASTEST * (len(window) / SAMPLE_RATE + 1) or strange:
        raise RemoteError("the server's answer is not a text of this audio")
    timed = _timed(answer.get("words"), spoken, window)
    if timed is None:
        length = sum(map(len, spoken)) or 1
        ends = [sum(map(len, spoken[: n + 1])) * len(window) // length for n in range(len(spoken))]
        timed = list(zip([0, *ends[:-1]], ends, strict=True)) if ends else []
    # As a model's own words begin: utterances are joined as they are.
    first = "" if CHINESE_OR_JAPANESE.match(text) else " "
    return tuple(
        Word((" " if number else first) + word, window.start + start, window.start + end)
        for number, (word, (start, end)) in enumerate(zip(spoken, timed, strict=True))
    )


def _timed(words: Any, spoken: list[str], window: Span) -> list[tuple[int, int]] | None:
    """Start and end of each word, from the window's start; None where they are not times of these words."""
    if not isinstance(words, list) or len(words) != len(spoken):
        return None
    found: list[tuple[int, int]] = []
    for item in words:
        given = [item.get(name) for name in ("start", "end")] if isinstance(item, dict) else []
        # No comparison holds for nan, so it is refused here, too.
        times = [time for time in given if isinstance(time, int | float) and -1 <= time <= LONGEST_S]
        if len(times) < 2:
            return None
        start, end = (min(max(to_samples(time), 0), len(window)) for time in times)
        if end < start or (found and start < found[-1][0]):
            return None
        found.append((start, end))
    return found
