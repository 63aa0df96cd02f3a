"""Cursor latency as OpenBench (Argmax) defines it, so that our figures can stand next to theirs.

At each interim result the *audio cursor* A is how much audio had been sent, in packets of 20 ms, and the *transcript
cursor* C the end of the last reference word that an alignment with the interim text calls right. Its latency lies
between A - C and A - C of the result before (for the first: A); the middle is taken, and results are weighted by the
audio from the first word that changed to C. A result without a new or changed word does not count.

Published figures set a negative bound to 0, which hides guesses ahead of time; both forms are here, named. Kept as
published: A is never more than the audio there is, and the reference loses its apostrophes while those of the text
become spaces. One departure: OpenBench aligns with the whole reference, which in a sentence is harmless, but in a talk
matches words with others that nobody has said yet (and gives minutes of negative latency). Here only reference words
that had begun by A take part. Ours, for claims, is `latency`.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import punctuation
from typing import Literal

from whispertide.types import seconds
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.evaluation.views import joiner_of
from whispertide_lab.evaluation.wer import normalise_word
from whispertide_lab.speech.utterance import Utterance

PACKET_S = 0.02
_BASIC = "und"  # any language but English: Whisper's basic normaliser, which is what OpenBench takes for English too
_NO_PUNCTUATION = str.maketrans("", "", punctuation)

Stream = Literal["shown", "confirmed"]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Sums over interim results: latency times weight in both forms, and the weights, in seconds."""

    clamped: float = 0.0
    unclamped: float = 0.0
    weight: float = 0.0
    results: int = 0

    def __add__(self, other: "Cursor") -> "Cursor":
        return Cursor(
            self.clamped + other.clamped,
            self.unclamped + other.unclamped,
            self.weight + other.weight,
            self.results + other.results,
        )

    @property
    def sums(self) -> tuple[float, float, float]:
        """What sums over recordings are made of."""
        return self.clamped, self.unclamped, self.weight

    @property
    def clamped_s(self) -> float | None:
        """The mean as published; None without a result that counts."""
        return self.clamped / self.weight if self.weight else None

    @property
    def unclamped_s(self) -> float | None:
        """The mean with negative latencies kept."""
        return self.unclamped / self.weight if self.weight else None


@dataclass(frozen=True, slots=True)
class _Interim:
    sent_s: float
    words: tuple[str, ...]


def cursor_latency(utterance: Utterance, trace: Trace, stream: Stream = "shown") -> Cursor:
    """Cursor latency of what was shown (confirmed text and guess) or of the confirmed text alone.

    Empty for an utterance without word times.
    """
    words = [
        (token, word.start, word.end)
        for word in utterance.words
        if word.start is not None and word.end is not None
        for token in normalise_word(word.text.translate(_NO_PUNCTUATION), _BASIC).split()
    ]
    if not utterance.word_times or not words:
        return Cursor()
    reference = [token for token, _, _ in words]
    starts = [seconds(start) for _, start, _ in words]
    ends = [seconds(end) for _, _, end in words]
    total = Cursor()
    before: tuple[str, ...] | None = None
    last = 0.0  # the transcript cursor of the last result that counted
    for interim in _interims(trace, stream):
        counted = _count(interim, before, reference, starts, ends)
        before = interim.words
        if counted is not None:
            start, cursor = counted
            low, high = interim.sent_s - cursor, interim.sent_s - last
            weight, last = cursor - start, cursor
            total += Cursor(weight * (max(low, 0) + max(high, 0)) / 2, weight * (low + high) / 2, weight, 1)
    return total


def _interims(trace: Trace, stream: Stream) -> Iterator[_Interim]:
    """Each text that differs from the one before, with the audio sent by then."""
    joiner = joiner_of(trace)
    text = ""
    before: tuple[str, ...] | None = None
    for shown in trace.shown:
        text += "".join(piece + joiner for piece in shown.confirmed)
        guess = shown.hypothesis if stream == "shown" else ()
        written = (text + joiner.join(guess)).split()
        words = tuple(token for word in written for token in normalise_word(word, _BASIC).split())
        if words != before and (words or before):
            sent = min(shown.at_s, trace.audio_s)
            yield _Interim(int(sent / PACKET_S + 1e-6) * PACKET_S, words)
        before = words


def _count(
    interim: _Interim,
    before: tuple[str, ...] | None,
    reference: Sequence[str],
    starts: Sequence[float],
    ends: Sequence[float],
) -> tuple[float, float] | None:
    """Where the first changed word begins and where the last right one ends; None if the result does not count."""
    import jiwer

    begun = bisect_left(starts, interim.sent_s)
    if not interim.words or before == () or not begun:
        return None
    chunks = jiwer.process_words(" ".join(reference[:begun]), " ".join(interim.words)).alignments[0]
    right = [chunk for chunk in chunks if chunk.type == "equal"]
    if not right:
        return None
    cursor = ends[right[-1].ref_end_idx - 1]
    if before is None:
        return starts[right[0].ref_start_idx], cursor
    changed = _first_changed(before, interim.words)
    if changed is None:
        return None
    for chunk in chunks:
        if chunk.hyp_start_idx <= changed < chunk.hyp_end_idx:
            at = chunk.ref_start_idx + changed - chunk.hyp_start_idx
            return (starts[at], cursor) if at < begun else None
    return None


def _first_changed(before: Sequence[str], words: Sequence[str]) -> int | None:
    """The first word that is new or another."""
    import jiwer

    same = next((at for at, (old, new) in enumerate(zip(before, words, strict=False)) if old != new), None)
    if same is None:
        return len(before) if len(words) > len(before) else None
    for chunk in jiwer.process_words(" ".join(before[same:]), " ".join(words[same:])).alignments[0]:
        if chunk.type in ("insert", "substitute"):
            return same + int(chunk.hyp_start_idx)
    return None
