"""Whose words those of a whole recording are: all of it is heard before the first word gets its label.

The stream's voices are only where it begins. With all stretches known, each goes to the nearest voice again, as those
were at the end; voices that turn out to be one are joined, and those of a moment given to the others. Knows the network
and words, no files and no models.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from whispertide.decoding.longform import OfflineSegment
from whispertide.speakers.embedding import VoiceEmbedding
from whispertide.speakers.track import Heard, SpeakerTrack
from whispertide.types import FloatArray, Span, Word

_SAME = 0.65  # cosine of the means of two voices that are one
_LEAST = 3  # stretches of a voice: 2.5 s of audio
_PASSES = 4


class _Kept:
    """An embedding that keeps the vectors it gave, for as long as one recording is heard."""

    def __init__(self, embedding: VoiceEmbedding) -> None:
        self._embedding = embedding
        self.vectors: list[FloatArray] = []

    def vector(self, audio: FloatArray) -> FloatArray:
        self.vectors.append(self._embedding.vector(audio))
        return self.vectors[-1]


class WholeTrack:
    """The voices of one recording, `most` at most."""

    def __init__(self, embedding: VoiceEmbedding, most: int) -> None:
        self._kept = _Kept(embedding)
        self._track = SpeakerTrack(self._kept, most, kept=None)

    def hearing(self, blocks: Iterable[FloatArray]) -> Iterator[FloatArray]:
        """Pass the blocks of the recording on, and hear them; after the last one every word can be labelled."""
        for block in blocks:
            self._track.feed(block)
            yield block
        self._settle()

    def label(self, words: Sequence[Word]) -> tuple[Word, ...]:
        """The words with the numbers of their voices."""
        return self._track.label(words)

    def _settle(self) -> None:
        heard = self._track.heard
        if heard:
            numbers = settled(np.stack(self._kept.vectors), [one.speaker for one in heard])
            self._track.relabel(tuple(map(Heard, (one.middle for one in heard), numbers)))
        self._kept.vectors.clear()


def settled(vectors: FloatArray, numbers: Sequence[int]) -> list[int]:
    """Better numbers for the vectors [n, size] of a whole recording, given those that they had as they came.

    Voices count from 1 in the order in which they are first heard.
    """
    chosen = np.array(numbers)
    for _ in range(_PASSES):
        names, counts = np.unique(chosen, return_counts=True)
        names = names[(counts >= _LEAST) | (counts == counts.max())]
        means = np.stack([vectors[chosen == name].sum(axis=0) for name in names])
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
        joined = _joined(means)
        before, chosen = chosen, joined[np.argmax(vectors @ means.T, axis=1)]
        if np.array_equal(before, chosen):
            break
    order = {int(name): number for number, name in enumerate(dict.fromkeys(chosen.tolist()), 1)}
    return [order[int(name)] for name in chosen]


def _joined(means: FloatArray) -> npt.NDArray[np.int64]:
    """For each voice the first one that it is the same as."""
    same = means @ means.T >= _SAME
    return np.array([int(np.argmax(row)) for row in same], np.int64)


def parted(segments: Iterable[OfflineSegment], track: WholeTrack) -> Iterator[OfflineSegment]:
    """The segments with labelled words, cut where the voice changes between two of them."""
    count = 0
    for segment in segments:
        words = track.label(segment.words)
        pieces = [tuple(group) for _, group in groupby(words, key=lambda word: word.speaker)]
        if len(pieces) < 2:
            yield replace(segment, id=count, words=words)
            count += 1
            continue
        for number, piece in enumerate(pieces):
            start = segment.span.start if number == 0 else piece[0].start
            end = segment.span.end if number == len(pieces) - 1 else pieces[number + 1][0].start
            text = "".join(word.text for word in piece)
            # The tokens are of the segment as it was heard; nobody knows which piece each is of.
            span = Span(start, max(start, end))
            yield replace(segment, id=count, span=span, text=text, words=piece, tokens=())
            count += 1
