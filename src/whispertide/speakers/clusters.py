"""The voices heard so far, and which of them a new vector belongs to.

A vector goes to the voice that it is likeliest of, if it is likelier of that one than of somebody new. It is taken for
the sum of what is the voice's and of what is the moment's, both normally distributed and equal in all directions
(the two-covariance model of Brümmer and de Villiers, The speaker partitioning problem, Odyssey 2010; Ioffe,
Probabilistic linear discriminant analysis, ECCV 2006). So a voice that was hardly heard may lie further off than one
that is well known, and one whose moments are unlike each other further than one whose moments are alike.

A vector that is likelier of somebody new may be that, or only an odd moment of a known voice, or two at once: it waits
for a second that is like it. Until then it counts for the likeliest voice; then both get a number, so the first one's
label changes once. Numbers count from 1 in the order in which voices were found, and never change their meaning. Knows
nothing of time and audio.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from whispertide.types import FloatArray

_COMMON = 0.55  # of a vector's squared length that of its voice: the mean cosine of two moments of one voice
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

    def likelier(self, vector: FloatArray) -> float:
        """The log likelihood ratio for this voice against a new one, per two dimensions; above 0 it is this one's."""
        kept = _COMMON / (self.weight * _COMMON + 1 - _COMMON)
        spread = (1 - _COMMON) * (1 + kept)  # of the voice's next vector around what is expected; of a new voice's: 1
        beside = vector - self.total * np.float32(kept)
        return 1 - math.log(spread) - float(beside @ beside) / spread

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
        scores = [voice.likelier(vector) for voice in self.known]
        best = int(np.argmax(scores))
        self.likeness = self.known[best].near(vector)
        if scores[best] >= 0:
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
