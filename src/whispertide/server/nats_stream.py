"""Sessions in a NATS stream: appending with a fence, reading, claiming, leases. Runs in one event loop."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import Header, KeyValueConfig, RawStreamMsg, StorageType, StreamConfig
from nats.js.kv import KeyValue

from whispertide.server.nats_records import Record, fold, read_record
from whispertide.server.session_journal import JournalProgress, StoredSession, UnreachableError

log = logging.getLogger("whispertide.server")

STREAM = "whispertide-sessions"
LEASES = "whispertide-leases"
_SUBJECT = "whispertide.session."
_TRY_S = 1.0  # for one answer; slower counts as not there
_CONNECT_S = 5.0
_LEASE_S = 15.0
_KEPT_S = 24 * 3600.0  # a stream that we make: for sessions that nobody comes back to
_WRONG_LAST = 10071  # JetStream's "wrong last sequence"
_TRIES = 5  # to claim a session that somebody still writes to


class FencedError(Exception):
    """The session's last message is not ours: another server has it."""


@dataclass(frozen=True, slots=True)
class _Claimed:
    """A session that is ours now. `last` is its last message, `lease` the revision of its lease."""

    kept: StoredSession
    known: JournalProgress
    last: int
    lease: int


class SessionStream:
    """The stream and the leases at one address. `writer` marks every message and lease of this server."""

    def __init__(self, address: str, writer: str) -> None:
        self._address, self._writer = address, writer
        self._client = Client()
        self._js: JetStreamContext
        self._leases: KeyValue

    async def connect(self) -> None:
        """Connect, and make the stream and the bucket of leases if they are missing. Raises `UnreachableError`."""
        try:
            async with asyncio.timeout(_CONNECT_S):  # the client would try for ever, as it does later
                await self._client.connect(
                    self._address,
                    connect_timeout=_CONNECT_S,  # type: ignore[arg-type]
                    allow_reconnect=True,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.2,  # type: ignore[arg-type]
                    ping_interval=5,
                    error_cb=_log_error,
                )
        except (OSError, nats.errors.Error, TimeoutError) as error:
            await self.close()
            raise UnreachableError(str(error) or f"no answer within {_CONNECT_S:g} s") from error
        self._js = self._client.jetstream(timeout=_TRY_S)
        with _as_unreachable():
            await self._prepare()

    async def _prepare(self) -> None:
        try:
            await self._js.stream_info(STREAM)
        except nats.js.errors.NotFoundError:
            await self._js.add_stream(
                StreamConfig(STREAM, subjects=[f"{_SUBJECT}*"], max_age=_KEPT_S, storage=StorageType.FILE)
            )
        try:
            self._leases = await self._js.key_value(LEASES)
        except nats.js.errors.NotFoundError:
            self._leases = await self._js.create_key_value(KeyValueConfig(LEASES, ttl=_LEASE_S))

    async def close(self) -> None:
        with suppress(nats.errors.Error, OSError, TimeoutError):
            await self._client.close()

    # --- writing -----------------------------------------------------------------------------------------------------

    async def append(self, session: str, data: bytes, last: int, part: int = 0, more: bool = False) -> int:
        """Write a message after message `last` of this session; returns its number.

        Raises `FencedError` if another message is the last one, `UnreachableError` if it is not known whether this was
        written: then it may be tried again, as often as one likes.
        """
        mark = f"{self._writer}:{last}"  # one message of ours follows each message
        headers = {Header.EXPECTED_LAST_SUBJECT_SEQUENCE: str(last), "Whispertide": mark, "Part": str(part)}
        if more:
            headers["More"] = "1"
        try:
            with _as_unreachable():
                ack = await self._js.publish(_SUBJECT + session, data, headers=headers)
                return ack.seq
        except FencedError:
            found = await self._last(session)  # an earlier try may have arrived, and its answer not
            if found is not None and found.seq and (found.headers or {}).get("Whispertide") == mark:
                return found.seq
            raise
        except UnreachableError:
            if self._client.is_connected:
                with suppress(UnreachableError), _as_unreachable():
                    await self._prepare()  # NATS may have come back without the stream
            raise

    async def trim(self, session: str, before: int) -> None:
        """Delete the messages of this session before this one; if that fails, the next trim does it."""
        with suppress(UnreachableError), _as_unreachable():
            # NATS keeps the message `seq` itself.
            await self._js.purge_stream(STREAM, seq=before, subject=_SUBJECT + session)

    async def forget(self, session: str) -> None:
        """Delete this session. Remains of a failed delete expire by the stream's `max_age`."""
        with suppress(UnreachableError), _as_unreachable():
            await self._js.purge_stream(STREAM, subject=_SUBJECT + session)
            await self._leases.purge(session)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _last(self, session: str) -> RawStreamMsg | None:
        with _as_unreachable():
            try:
                return await self._js.get_last_msg(STREAM, _SUBJECT + session)
            except nats.js.errors.NotFoundError:
                return None

    async def _records(self, session: str) -> tuple[list[Record], int]:
        """Read all records, and the number of the last message. Pieces of an incomplete record are left out."""
        last = await self._last(session)
        if last is None or last.seq is None:
            return [], 0
        records, pieces, seen = [], list[bytes](), 0
        with _as_unreachable():
            messages = await self._js.subscribe(_SUBJECT + session, stream=STREAM, ordered_consumer=True)
            try:
                # Up to what was the last message at the beginning: whoever still writes is found out by the fence in
                # `claim`.
                while seen < last.seq:
                    message = await messages.next_msg(timeout=_TRY_S)
                    headers, seen = message.headers or {}, message.metadata.sequence.stream
                    # A record that was broken off is begun anew.
                    if headers.get("Part") == "0":
                        pieces = []
                    pieces.append(message.data)
                    if "More" not in headers:
                        records.append(read_record(b"".join(pieces)))
            finally:
                await messages.unsubscribe()
        return records, seen

    async def claim(self, session: str, owner: str) -> _Claimed | None:
        """Take this owner's session over; None if there is none, or it is over.

        Raises `UnreachableError`, or what reading damaged values raises.
        """
        # An id becomes part of a subject, where dots, blanks and wildcards have a meaning.
        if not session or not all(letter.isalnum() or letter in "-_" for letter in session) or not session.isascii():
            return None
        for _ in range(_TRIES):
            records, last = await self._records(session)
            found = fold(session, records)
            if found is None or found[0].about.owner != owner:
                return None
            try:
                last = await self.append(session, Record("claim").pieces()[0], last)
            except FencedError:  # its server still writes: look again
                continue
            return _Claimed(*found, last, await self.take_lease(session))
        raise UnreachableError("expected the session's last server to be silent; it still writes")

    # --- leases ------------------------------------------------------------------------------------------------------

    async def take_lease(self, session: str) -> int:
        """Take the lease of the session, whoever had it. Raises `UnreachableError`."""
        with _as_unreachable():
            return await self._leases.put(session, self._writer.encode())

    async def renew(self, session: str, revision: int) -> int:
        """Renew the lease. Raises `FencedError` if another server has it, `UnreachableError`."""
        try:
            with _as_unreachable():
                return await self._leases.update(session, self._writer.encode(), last=revision)
        except FencedError:
            if await self.owns(session):  # it had run out
                return await self.take_lease(session)
            raise

    async def release(self, session: str, revision: int) -> None:
        """Give the lease back; if that fails, another server has it or it expires by itself."""
        with suppress(FencedError, UnreachableError), _as_unreachable():
            await self._leases.delete(session, last=revision)

    async def owns(self, session: str) -> bool:
        """True if the last message of the session is ours, as far as can be known now."""
        with suppress(UnreachableError):
            last = await self._last(session)
            return last is not None and (last.headers or {}).get("Whispertide", "").startswith(self._writer + ":")
        return True


@contextmanager
def _as_unreachable() -> Iterator[None]:
    """Turn NATS' errors into `UnreachableError`."""
    try:
        yield
    except nats.js.errors.KeyWrongLastSequenceError as error:
        raise FencedError("another server has the session's lease") from error
    except nats.js.errors.APIError as error:
        if error.err_code == _WRONG_LAST:
            raise FencedError("another server has written to the session since") from error
        raise UnreachableError(error.description or str(error)) from error
    except (nats.errors.Error, OSError, TimeoutError) as error:
        raise UnreachableError(str(error) or type(error).__name__) from error


async def _log_error(error: Any) -> None:
    log.debug("NATS: %s", error)
