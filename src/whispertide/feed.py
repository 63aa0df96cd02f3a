"""A session fed with blocks of audio as they come, and its events in order, up to `End`.

Also where the audio breaks off or a round fails: what was heard before comes first, then the error.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator

from whispertide.channels import ChannelSessions
from whispertide.errors import AudioError
from whispertide.events import Event
from whispertide.session import Session
from whispertide.types import FloatArray


def feed(session: Session | ChannelSessions, blocks: Iterable[FloatArray], *, live: bool) -> Iterator[Event]:
    """Yield the events of a session that gets these blocks, [n] or [n, channels] at 16 kHz; `live`: see `Session`.

    Where `blocks` raises `AudioError`, or a block is no audio, all words before it are confirmed and `End` comes; then
    the error is raised. It is raised at once where there was no audio before. Where a round fails, what was confirmed
    before comes, then its error.
    """
    broken: AudioError | None = None
    try:
        try:
            for block in blocks:
                yield from session.push(block)
                if live:
                    yield from session.collect()
                session.forget()
        except AudioError as error:
            if session.received == 0:
                raise
            broken = error
        yield from session.finish()
    except Exception:
        yield from session.drain()
        raise
    if broken is not None:
        raise broken


async def afeed(
    session: Session | ChannelSessions, blocks: AsyncIterable[FloatArray], *, live: bool
) -> AsyncGenerator[Event, None]:
    """Feed in asyncio, else as `feed`: the model computes in a worker thread and the event loop stays free."""
    broken: AudioError | None = None
    try:
        try:
            async for block in blocks:
                events = await asyncio.to_thread(session.push, block)
                for event in [*events, *session.collect()] if live else events:
                    yield event
                session.forget()
        except AudioError as error:
            if session.received == 0:
                raise
            broken = error
        for event in await asyncio.to_thread(session.finish):
            yield event
    except Exception:
        for event in session.drain():
            yield event
        raise
    if broken is not None:
        raise broken
