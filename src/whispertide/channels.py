"""Audio whose channels are kept apart: each is heard by itself, and its words are those of a speaker with its number.

Channels are numbered from 1. Who speaks at once is heard, too, and no voices have to be told apart.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.audio.pcm import MAX_CHANNELS
from whispertide.errors import AudioError, OptionError
from whispertide.events import Event, of_channel
from whispertide.options import DecodeOptions, check_range
from whispertide.session import Session
from whispertide.types import OfflineSegment, Word, spoken_by

_NOTHING = np.zeros(0, np.float32)


class ChannelSessions:
    """A session for each channel of one stream, to be used as one. Not safe for use by several threads at once.

    Every event has its `channel` and its session's `seq`, so each channel has its numbers, and an `End`.
    """

    def __init__(self, sessions: Sequence[Session]) -> None:
        self.sessions = tuple(sessions)
        self._told: list[Event] = []  # what no call has returned yet, because a later channel failed

    @property
    def received(self) -> int:
        """The number of samples received of each channel."""
        return self.sessions[0].received

    def push(self, samples: npt.NDArray[Any]) -> list[Event]:
        """Take audio [n, channels] at 16 kHz, and run every round that is due; see `Session.push`.

        Raises `AudioError` for another number of channels, and what `Session.push` raises. What no call has returned by
        then comes with the next one, or `drain`. Only where a gate has failed are the channels no longer at the same
        place in the audio: close them.
        """
        count, shape = len(self.sessions), samples.shape if isinstance(samples, np.ndarray) else None
        if shape is None or len(shape) != 2 or shape[1] != count:
            got = type(samples).__name__ if shape is None else list(shape)
            raise AudioError(f"expected samples of shape [n, {count}], a column for each channel; got {got}")
        # All of them first: whichever round fails then, the channels are at the same place in the audio.
        for at, session in enumerate(self.sessions):
            session.ingest(samples[:, at])
        return self._labelled(lambda session: session.push(_NOTHING))

    def flush(self) -> list[Event]:
        """End the utterances here, not the sessions; see `Session.flush`."""
        return self._labelled(lambda session: session.flush())

    def finish(self) -> list[Event]:
        """End the sessions; see `Session.finish`."""
        return self._labelled(lambda session: [] if session.ended else session.finish())

    def collect(self) -> list[Event]:
        """Take results that are ready, without waiting; see `Session.collect`."""
        return self._labelled(lambda session: session.collect())

    def drain(self) -> list[Event]:
        """The events that no call has returned yet; see `Session.drain`."""
        return self._labelled(lambda session: session.drain())

    def forget(self) -> None:
        """Drop old words that nothing later depends on; see `Session.forget`."""
        for session in self.sessions:
            session.forget()

    def close(self) -> None:
        """Give up the rounds under way; see `Session.close`."""
        for session in self.sessions:
            session.close()

    def _labelled(self, each: Callable[[Session], list[Event]]) -> list[Event]:
        """The events of each channel as its own, after those that wait."""
        for number, session in enumerate(self.sessions, 1):
            self._told += [of_channel(event, number) for event in each(session)]
        told, self._told = self._told, []
        return told


def apart_options(options: DecodeOptions | None, channels: int = 2) -> DecodeOptions:
    """The options for each of several channels: words, which carry its number. None: those by default.

    Raises `OptionError` for fewer than two channels, and where voices are to be told apart, too.
    """
    check_range("channels", channels, 2, MAX_CHANNELS)
    options = options or DecodeOptions()
    if options.speakers:
        raise OptionError("expected separate channels, one speaker each, or `speakers` to be told apart; got both")
    return replace(options, word_timestamps=True)


def in_order(channels: Iterable[Iterable[OfflineSegment]]) -> tuple[OfflineSegment, ...]:
    """The segments of all channels of a recording by their times, each with the number of its channel as speaker."""
    known = (labelled(segment, number) for number, segments in enumerate(channels, 1) for segment in segments)
    by_time = sorted(known, key=lambda segment: segment.span.start)
    return tuple(replace(segment, id=number) for number, segment in enumerate(by_time))


def labelled(segment: OfflineSegment, number: int) -> OfflineSegment:
    """The segment with the number of its channel as speaker of its words. One without words, such as a mark alone, is a
    word, or nobody would have said it.
    """
    words = segment.words or (Word(segment.text, segment.span.start, segment.span.end),)
    return replace(segment, words=spoken_by(words, number))
