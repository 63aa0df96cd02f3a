"""Cuts a window's decode into segments at its timestamps, and finds where the next window begins.

Works on token ids and sample counts alone. Source: the segment loop of openai/whisper, transcribe.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from whispertide.types import FRAME_SAMPLES


@dataclass(frozen=True, slots=True)
class TimedSegment:
    """Tokens (timestamps included) and the stretch of audio they belong to, in samples from the window's start."""

    start: int
    end: int
    tokens: tuple[int, ...]

    def shifted(self, offset: int) -> TimedSegment:
        """The same segment, `offset` samples later."""
        return TimedSegment(self.start + offset, self.end + offset, self.tokens)


@dataclass(frozen=True, slots=True)
class Segmentation:
    """A window's segments, and how many samples of it are dealt with.

    `ends_in_speech` is false where a single timestamp at the end says that no speech follows it.
    """

    segments: tuple[TimedSegment, ...]
    consumed: int
    ends_in_speech: bool = True

    def before(self, index: int) -> Segmentation:
        """The segments before one of them; the next window begins where that one does."""
        return Segmentation(self.segments[:index], self.segments[index].start)


def split_segments(tokens: Sequence[int], timestamp_begin: int, duration: int) -> Segmentation:
    """Cut `tokens` at pairs of timestamps; `duration` is the window's real audio in samples.

    A segment that is not closed by a second timestamp is left for the next window, unless it is all there is.
    """
    times = [token >= timestamp_begin for token in tokens]
    single_ending = times[-2:] == [False, True]
    # Of two timestamps in a row the first ends a segment, and the second opens the next.
    cuts = [place for place in range(1, len(times)) if times[place - 1] and times[place]]

    def time_of(token: int) -> int:
        # Text without a timestamp in front begins with the window.
        return max(token - timestamp_begin, 0) * FRAME_SAMPLES

    if not cuts:
        # The one that opens the segment does not tell where it ends: then it lasts as long as the audio. The original
        # says so of `<|0.00|>` alone, and ends others where their text begins.
        last = next((token for token in reversed(tokens[1:]) if token >= timestamp_begin), timestamp_begin)
        end = duration if last == timestamp_begin else time_of(last)
        return Segmentation((TimedSegment(0, end, tuple(tokens)),), duration, not single_ending)

    bounds = [0, *cuts, *([len(tokens)] if single_ending else [])]
    pieces = [tuple(tokens[start:stop]) for start, stop in itertools.pairwise(bounds)]
    segments = tuple(
        TimedSegment(start, max(start, time_of(piece[-1])), piece)
        for piece, start in ((piece, time_of(piece[0])) for piece in pieces)
    )
    # A single timestamp at the end: nothing is said after it, so the whole window is dealt with. Else the last text has
    # no end in this window and is dropped; the next window begins where the last whole segment ended.
    consumed = duration if single_ending else time_of(tokens[bounds[-1] - 1])
    return Segmentation(segments, consumed, not single_ending)
