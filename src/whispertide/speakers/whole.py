"""Whose words those of a whole recording are: all of it is heard before the first word gets its label.

A stream has to decide about each stretch as it comes. Here all of them are known, so they are joined two by two, the
most alike first, until no two voices are alike (agglomerative clustering with average linkage); what lasts only for a
moment goes to the nearest voice. Knows the network and words, no files and no models.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from whispertide.speakers.embedding import VoiceEmbedding
from whispertide.speakers.track import Heard, SpeakerTrack
from whispertide.types import FloatArray, IntArray, OfflineSegment, Span, Word

_ALIKE = 0.35  # mean cosine of the stretches of two voices from which they are one
_SURELY = 0.6  # the same where only a part of the recording is looked at
_LEAST = 3  # stretches of a voice: 2.5 s of audio
_AT_ONCE = 1000  # stretches that are compared with each other: 8 minutes; of more, parts are joined first


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
        self._most = most
        self._kept = _Kept(embedding)
        self._track = SpeakerTrack(self._kept, most, kept=None)

    def hearing(self, blocks: Iterable[FloatArray]) -> Iterator[FloatArray]:
        """Pass the blocks of the recording on, and hear them; after the last one every word can be labelled."""
        for block in blocks:
            self._track.feed(block)
            yield block
        self._settle()

    def speaker(self, start: int, end: int) -> int | None:
        """The number of the voice from sample `start` to `end`; None: nobody spoke near it."""
        return self._track.speaker(start, end)

    def label(self, words: Sequence[Word]) -> tuple[Word, ...]:
        """The words with the numbers of their voices."""
        return self._track.label(words)

    def _settle(self) -> None:
        heard = self._track.heard
        if heard:
            numbers = settled(np.stack(self._kept.vectors), self._most)
            self._track.relabel(tuple(map(Heard, (one.middle for one in heard), numbers)))
        self._kept.vectors.clear()


def settled(vectors: FloatArray, most: int) -> list[int]:
    """The numbers of the voices of vectors [n, size] of length 1, `most` voices at most.

    Voices count from 1 in the order in which they are first heard.
    """
    groups = [np.array([number]) for number in range(len(vectors))]
    while len(groups) > _AT_ONCE:
        parts = (groups[start : start + _AT_ONCE] for start in range(0, len(groups), _AT_ONCE))
        fewer = [group for part in parts for group in _joined(vectors, part, _SURELY, len(part))]
        if len(fewer) > 0.9 * len(groups):  # the rest are odd moments, which are like nothing
            groups = sorted(fewer, key=len, reverse=True)[:_AT_ONCE]
            if len(groups[0]) < _LEAST:  # hardly two are alike: then nobody can tell
                return [1] * len(vectors)
            break
        groups = fewer
    groups = _joined(vectors, groups, _ALIKE, len(groups))
    # A moment is no voice: counted as one, it would leave two of them to be joined.
    lasting = [group for group in groups if len(group) >= _LEAST] or [max(groups, key=len)]
    large = _joined(vectors, lasting, _ALIKE, most)
    means = np.stack([vectors[group].sum(axis=0) for group in large])
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    chosen = np.argmax(vectors @ means.T, axis=1)
    for number, group in enumerate(large):
        chosen[group] = number
    order = {int(one): number for number, one in enumerate(dict.fromkeys(chosen.tolist()), 1)}
    return [order[int(one)] for one in chosen]


def _joined(vectors: FloatArray, groups: Sequence[IntArray], alike: float, most: int) -> list[IntArray]:
    """Groups of vectors joined until no two are `alike` on average, and there are `most` at most."""
    kept: dict[int, IntArray] = dict(enumerate(groups))
    sums = np.stack([vectors[group].sum(axis=0) for group in groups])
    counts = np.array([len(group) for group in groups], np.float32)
    near = (sums @ sums.T) / np.outer(counts, counts)
    np.fill_diagonal(near, -np.inf)
    while len(kept) > 1:
        first, second = divmod(int(np.argmax(near)), len(groups))
        if near[first, second] < alike and len(kept) <= most:
            break
        kept[first] = np.concatenate((kept[first], kept.pop(second)))
        sums[first], counts[first] = sums[first] + sums[second], counts[first] + counts[second]
        row = (sums @ sums[first]) / (counts * counts[first])
        row[[number for number in range(len(groups)) if number not in kept or number == first]] = -np.inf
        near[first], near[:, first] = row, row
        near[second], near[:, second] = -np.inf, -np.inf
    return list(kept.values())


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
