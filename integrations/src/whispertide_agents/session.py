"""One session with `whispertide serve`, over as many connections as it takes.

    session = Session("ws://127.0.0.1:8000", rate=16_000)
    session.send(audio)              # 16-bit little-endian mono
    session.flush()                  # confirm all of that now
    async for message in session:    # the server's events as dictionaries; "session", and "flushed" for each flush
        ...

Audio is kept until its words are confirmed. So nothing is lost when a connection breaks (the session is resumed), nor
when the server forgot the session (another one hears what was not confirmed). Knows no framework.
"""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

_WIDTH = 2  # bytes of a sample
_PORTION_S = 0.5  # of audio in one message, at most
_KEPT_S = 60.0  # of audio that is not confirmed: of what the server has, or of all where the session is over
_REST_S = 0.05  # after the end of a session no word is so short, and resampling may leave less
_LEAVE_S = 1.0
_PAUSES_S = (0.1, 0.25, 0.5, 1.0, 2.0)
_TIMES = frozenset({"at", "start", "end", "duration"})
_LASTING = frozenset({"bad_setting", "bad_request", "too_large"})  # problems that a new connection does not solve


class SessionError(ConnectionError):
    """The session cannot go on. `is_lasting`: nor can another with the same settings."""

    def __init__(self, message: str, *, is_lasting: bool) -> None:
        super().__init__(message)
        self.is_lasting = is_lasting


@dataclass(slots=True)
class _Backlog:
    """Audio from sample `start` on, up to the newest."""

    start: int = 0
    data: bytearray = field(default_factory=bytearray)

    @property
    def end(self) -> int:
        return self.start + len(self.data) // _WIDTH

    def read(self, position: int, count: int) -> bytes:
        at = (position - self.start) * _WIDTH
        return bytes(self.data[at : at + count * _WIDTH])

    def drop(self, position: int) -> None:
        """Drop what lies before a sample."""
        if position > self.start:
            del self.data[: (position - self.start) * _WIDTH]
            self.start = position


class Session:
    """Opens at once. All times of its events are seconds of the audio that was sent, whatever happened meanwhile.

    It has to be made in a running event loop, and to be closed.
    """

    def __init__(
        self,
        url: str,
        *,
        rate: int,
        api_key: str = "",
        settings: Mapping[str, Any] | None = None,
        patience_s: float = 30.0,
    ) -> None:
        """`url` is the server's address (ws, wss, http or https); `settings` are fields of the native protocol's
        `start` message; `patience_s` is how long to look for a server that is gone.

        Raises `ValueError` for what is no such address.
        """
        self._url = _address(url)
        self._rate = rate
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._settings = dict(settings or {})
        self._patience_s = patience_s
        self._audio = _Backlog()
        self._odd = b""  # half a sample
        self._id: str | None = None
        self._origin = 0  # the sample with which the server's session began
        self._last_seq = -1
        self._settled = 0  # words before this sample are confirmed
        self._sent = 0
        self._stands = False
        self._was_there = False  # the server, on the connection that there is or was last
        self._flushes: deque[int] = deque()  # the samples up to which is to be confirmed, where that is not answered
        self._flushes_sent = 0
        self._finishing = self._finish_sent = self._over = False
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._work = asyncio.Event()
        self._error: SessionError | None = None
        self._socket: ClientConnection | None = None
        self._task = asyncio.create_task(self._run(), name="whispertide session")

    def send(self, audio: bytes | bytearray | memoryview) -> None:
        """Take audio; it is sent as soon as possible."""
        data = self._odd + bytes(audio)
        whole = len(data) - len(data) % _WIDTH
        self._audio.data += data[:whole]
        self._odd = data[whole:]
        if self._over:
            self._audio.drop(self._audio.end - self._most_kept)
        self._work.set()

    @property
    def unconfirmed(self) -> tuple[float, bytes]:
        """The audio whose words are not confirmed, for another session, and the second where it begins; of a session
        that is over the last minute of it.
        """
        start = min(max(self._settled, self._audio.start), self._audio.end)
        return start / self._rate, self._audio.read(start, self._audio.end - start) + self._odd

    def flush(self) -> None:
        """Ask for all words so far; `{"type": "flushed"}` follows them."""
        self._flushes.append(self._audio.end)
        self._work.set()

    def finish(self) -> None:
        """End the audio: the last words come, then the session is over."""
        self._finishing = True
        self._work.set()

    async def aclose(self) -> None:
        """Leave without the rest: the server forgets the session."""
        self._over = True
        if self._socket is not None and self._stands:
            with contextlib.suppress(ConnectionClosed, TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await self._socket.send('{"type":"abandon"}')
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._messages.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """Yield messages up to the end. Raises `SessionError`."""
        while (message := await self._messages.get()) is not None:
            yield message
        if self._error is not None:
            raise self._error

    # --- connections -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._stay_connected()
        except SessionError as error:
            self._error = error
        except Exception as error:  # a defect; whoever iterates is told
            self._error = SessionError(f"{type(error).__name__}: {error}", is_lasting=True)
        finally:
            self._over = True
            self._messages.put_nowait(None)

    async def _stay_connected(self) -> None:
        clock = asyncio.get_running_loop().time
        attempts, until = 0, clock() + self._patience_s
        while not self._over:
            reason = "the connection broke"
            try:
                async with connect(
                    self._url + self._query(),
                    additional_headers=self._headers,
                    max_size=None,
                    close_timeout=_LEAVE_S,
                ) as socket:
                    await self._talk(socket)
            except SessionError:
                raise
            except InvalidStatus as error:
                status = error.response.status_code
                reason = (
                    f"the server answered {status}: {bytes(error.response.body or b'')[:300].decode(errors='replace')}"
                )
                if 400 <= status < 500 and status != 429:
                    raise SessionError(reason, is_lasting=True) from error
            except (OSError, InvalidHandshake, ConnectionClosed, TimeoutError) as error:
                reason = str(error) or type(error).__name__
            if self._was_there:
                attempts, until = 0, clock() + self._patience_s
            self._stands = self._was_there = False
            if self._over:
                return
            if clock() > until:
                raise SessionError(f"expected a whispertide server at {self._url}; {reason}", is_lasting=False)
            await asyncio.sleep(_PAUSES_S[min(attempts, len(_PAUSES_S) - 1)])
            attempts += 1

    def _query(self) -> str:
        if self._id is None:
            return ""
        return "?" + urlencode({"session": self._id, "last_seq": self._last_seq, "rate": self._rate})

    async def _talk(self, socket: ClientConnection) -> None:
        """Talk until either side ends it."""
        self._socket = socket
        if self._id is None:
            start = {"type": "start", "rate": self._rate, "channels": 1, "format": "s16le", **self._settings}
            await socket.send(json.dumps(start))
        writer = asyncio.create_task(self._write(socket), name="whispertide writer")
        try:
            async for message in socket:
                self._take(json.loads(message))
                if self._over:
                    break
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self, socket: ClientConnection) -> None:
        """Send what is due, in order: audio, and after it what was asked for there."""
        acknowledged = -1
        while True:
            await self._work.wait()
            self._work.clear()
            if not self._stands:
                continue
            while self._sent < self._audio.end or self._flush_is_due:
                if self._flush_is_due:
                    self._flushes_sent += 1
                    await socket.send('{"type":"flush"}')
                    continue
                until = self._audio.end if self._next_flush is None else self._next_flush
                count = min(round(_PORTION_S * self._rate), until - self._sent)
                portion = self._audio.read(self._sent, count)
                self._sent += count
                await socket.send(portion)
            if self._finishing and not self._finish_sent:
                self._finish_sent = True
                await socket.send('{"type":"finish"}')
            if self._last_seq > acknowledged:
                acknowledged = self._last_seq
                await socket.send(json.dumps({"type": "ack", "seq": acknowledged}))

    @property
    def _next_flush(self) -> int | None:
        """The sample of the first flush that this connection was not asked for."""
        return self._flushes[self._flushes_sent] if self._flushes_sent < len(self._flushes) else None

    @property
    def _flush_is_due(self) -> bool:
        return self._next_flush is not None and self._next_flush <= self._sent

    # --- what comes --------------------------------------------------------------------------------------------------

    def _take(self, message: dict[str, Any]) -> None:
        match message.get("type"):
            case "session":
                self._stand(message)
            case "received":
                self._keep_from(self._origin + message["received"])
            case "flushed":
                if self._flushes:
                    self._flushes.popleft()
                    self._flushes_sent = max(0, self._flushes_sent - 1)
                self._messages.put_nowait(message)
            case "problem":
                self._complain(message)
            case _ if "seq" in message and "at" in message:
                self._event(message)

    def _stand(self, message: Mapping[str, Any]) -> None:
        """The session is there: go on from where the server says. A flush that it may have had is asked for again."""
        self._id = message["session"]
        self._sent = max(self._audio.start, self._origin + message["received"])
        self._flushes_sent, self._finish_sent = 0, False
        self._stands = self._was_there = True
        self._messages.put_nowait(dict(message))
        self._work.set()

    def _event(self, event: dict[str, Any]) -> None:
        if event["seq"] <= self._last_seq:
            return
        self._last_seq = event["seq"]
        event = _shifted(event, self._origin / self._rate)
        if event["type"] == "confirmed" and event["words"]:
            self._settle(event["words"][-1]["end"])
        elif event["type"] == "turn_end":
            self._settle(event["end"])
        elif event["type"] == "error" and event["fatal"]:
            raise SessionError(event["message"], is_lasting=False)
        elif event["type"] == "end":
            end = round(self._rate * event["duration"])
            if not self._finishing or self._audio.end - end > _REST_S * self._rate:
                self._start_anew(end)  # it was too long, or the server stops: another one follows
                return
            self._over = True
        self._messages.put_nowait(event)
        self._work.set()  # to acknowledge it

    def _complain(self, problem: Mapping[str, Any]) -> None:
        kind = problem["kind"]
        if kind == "unknown_session":
            self._start_anew(self._settled)
        elif kind in ("ahead", "behind"):
            self._last_seq = problem["last_seq"]
        elif problem["fatal"] and kind in _LASTING:
            raise SessionError(problem["message"], is_lasting=True)

    def _start_anew(self, position: int) -> None:
        """Let another session of the server hear everything from a sample on."""
        self._id, self._last_seq, self._stands = None, -1, False
        self._origin = max(position, self._audio.start)

    def _settle(self, at_s: float) -> None:
        self._settled = max(self._settled, round(at_s * self._rate))

    def _keep_from(self, received: int) -> None:
        self._audio.drop(max(min(received, self._settled), received - self._most_kept, 0))

    @property
    def _most_kept(self) -> int:
        return round(_KEPT_S * self._rate)


def _address(url: str) -> str:
    """The WebSocket of a server; other paths than none are that of a proxy."""
    parts = urlsplit(url)
    schemes = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
    if parts.scheme not in schemes or not parts.netloc:
        raise ValueError(f"expected the address of a whispertide server such as ws://127.0.0.1:8000; got {url!r}")
    path = parts.path.rstrip("/")
    return urlunsplit((schemes[parts.scheme], parts.netloc, path if path.endswith("/ws") else f"{path}/ws", "", ""))


def _shifted(event: Mapping[str, Any], by_s: float) -> dict[str, Any]:
    """The event with its times on the clock of all audio that was sent."""

    def moved(item: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value + by_s if key in _TIMES else value for key, value in item.items()}

    shifted = moved(event)
    if "words" in shifted:
        shifted["words"] = [moved(word) for word in shifted["words"]]
    return shifted
