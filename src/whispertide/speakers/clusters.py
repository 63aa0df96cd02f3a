"""The voices heard so far, and which of them a new vector belongs to.

A vector goes to the voice with the nearest mean direction, if that is near enough. One that is near none may be a new
voice, or only an odd moment of a known one, or two at once: it waits for a second that is like it. Until then it counts
for the nearest voice; then both get a number, so the first one's label changes once. Numbers count from 1 in the order
in which voices were found, and never change their meaning. Knows nothing of time and audio.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from whispertide.types import FloatArray

NEAR = 0.5  # cosine with a voice's mean from which a vector is that voice's
_ALIKE = 0.6  # cosine of two vectors that are a new voice
_WAITING = 8  # of odd vectors; older ones were odd moments
_MOST_WEIGHT = 60.0  # of a voice's mean: what is newer counts, so it follows a voice that changes


@dataclass(slots=True)
class Voice:
    """A voice: the sum of its vectors."""

    total: FloatArray
    weight: float = 1.0

    def near(self, vector: FloatArray) -> float:
        """The cosine of the vector with the mean."""
        return float(self.total @ vector / max(float(np.linalg.norm(self.total)), 1e-9))

    def add(self, vector: FloatArray) -> None:
        self.total, self.weight = self.total + vector, self.weight + 1.0
        if self.weight > _MOST_WEIGHT:
            self.total, self.weight = self.total * np.float32(_MOST_WEIGHT / self.weight), _MOST_WEIGHT

    def copy(self) -> "Voice":
        return Voice(self.total.copy(), self.weight)


@dataclass(slots=True)
class Voices:
    """The voices of one stream, `most` at most.

    `waiting` are odd vectors and their keys; `before` the numbers of voices that were forgotten. After an `assign`,
    `moved` are the keys whose voice is now the newest one, and `likeness` is the cosine of the vector with its voice,
    as that was before it.
    """

    most: int
    known: list[Voice] = field(default_factory=list)
    waiting: list[tuple[int, FloatArray]] = field(default_factory=list)
    moved: tuple[int, ...] = ()
    likeness: float = 1.0
    before: int = 0

    def assign(self, vector: FloatArray, key: int) -> int:
        """The number of the voice of a vector of length 1, from 1; `key` names the vector in `moved` later."""
        self.moved, self.likeness = (), 1.0
        if not self.known:
            return self._begin(vector)
        scores = [voice.near(vector) for voice in self.known]
        best = int(np.argmax(scores))
        self.likeness = scores[best]
        if scores[best] >= NEAR:
            self.known[best].add(vector)
            return self.before + best + 1
        if len(self.known) >= self.most:
            return self.before + best + 1
        alike = [(other, odd) for other, odd in self.waiting if float(odd @ vector) >= _ALIKE]
        if not alike:
            self.waiting = [*self.waiting, (key, vector)][-_WAITING:]
            return self.before + best + 1
        number, self.likeness = self._begin(vector), 1.0
        for _, odd in alike:
            self.known[-1].add(odd)
        self.moved = tuple(other for other, _ in alike)
        self.waiting = [(other, odd) for other, odd in self.waiting if other not in self.moved]
        return number

    def waits(self, key: int) -> bool:
        """True if the vector of this key was odd, and may still be of a new voice."""
        return any(other == key for other, _ in self.waiting)

    def _begin(self, vector: FloatArray) -> int:
        self.known.append(Voice(vector.copy()))
        return self.before + len(self.known)

    def emptied(self) -> "Voices":
        """Voices of which none is known any more; their numbers are not given again."""
        return Voices(self.most, before=self.before + len(self.known))

    def copy(self) -> "Voices":
        """An independent copy."""
        return replace(self, known=[voice.copy() for voice in self.known], waiting=list(self.waiting))
