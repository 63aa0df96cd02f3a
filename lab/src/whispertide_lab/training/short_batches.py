"""Batches of lessons in short windows: what the student hears bare, and some of it padded as the teacher heard it.

A batch is a function of the seed and its number. Needs torch. Knows nothing of networks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whispertide.audio.buffer import to_float
from whispertide.features import log_mel, padded
from whispertide.types import N_FRAMES, SAMPLE_RATE
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.batches import Numbered, Tensors, in_rows
from whispertide_lab.training.short_lessons import Lesson, bare_mel

_PADDED = 4  # one batch in so many, where each lesson is heard once


@dataclass(slots=True)
class ShortBatch(Tensors):
    """Windows of one length.

    bare     [b, mels, frames]
    padded   [p, mels, 3000] the first p of them once more
    tokens   int64 [b, t] what the decoder is given
    targets  int64 [b, t] what it should say after each; -1: does not count
    heard    bool [b, t] after which tokens the teacher's distribution counts
    hidden   float16 [heard, width] the teacher's states there, row by row
    seconds  of sound
    """

    bare: Tensor
    padded: Tensor
    tokens: Tensor
    targets: Tensor
    heard: Tensor
    hidden: Tensor
    seconds: float

    @property
    def count(self) -> int:
        """How many tokens count: those of windows that are heard twice count twice."""
        return int((self.heard | (self.targets >= 0)).sum()) + int(self.heard[: len(self.padded)].sum())


class ShortBatches(Numbered[ShortBatch]):
    """Of `size` lessons each, as far as there are so many of a length; `again` is the share that is padded, too."""

    def __init__(self, lessons: Sequence[Lesson], size: int, again: float, n_mels: int, filler: int, seed: int) -> None:
        super().__init__(seed)
        self._groups = by_length(lessons)
        self._shares = np.array([len(group) for group in self._groups]) / len(lessons)
        self._size, self._again, self._n_mels, self._filler = size, again, n_mels, filler

    def make(self, number: int, dice: Dice) -> ShortBatch:
        """Batch `number`, by its dice."""
        return collated(*self.draw(dice), self._n_mels, self._filler)

    def draw(self, dice: Dice) -> tuple[list[Lesson], int]:
        """Lessons of one length; so many of them, from the first on, are padded, too."""
        group = self._groups[int(dice.choice(len(self._groups), p=self._shares))]
        chosen = dice.choice(len(group), min(self._size, len(group)), replace=False)
        # As many as the share says, on average.
        twice = int(self._again * len(chosen) + dice.random_sample())
        return [group[at] for at in chosen], twice


def by_length(lessons: Sequence[Lesson]) -> list[list[Lesson]]:
    """The lessons of each length, the shortest first."""
    groups: dict[int, list[Lesson]] = {}
    for lesson in lessons:
        groups.setdefault(len(lesson.samples), []).append(lesson)
    return [groups[length] for length in sorted(groups)]


def in_order(lessons: Sequence[Lesson], size: int) -> Iterator[tuple[list[Lesson], int]]:
    """What `collated` takes, of all of them, each once; of some batches one is padded, too, which takes as long as ten
    short ones.
    """
    parts = [group[at : at + size] for group in by_length(lessons) for at in range(0, len(group), size)]
    for number, part in enumerate(parts):
        yield part, int(number % _PADDED == 0)


def collated(lessons: Sequence[Lesson], twice: int, n_mels: int, filler: int) -> ShortBatch:
    """Lessons of one length; the first `twice` are padded, too. `filler` stands after shorter rows."""
    again = [padded(log_mel(to_float(lesson.samples), n_mels), N_FRAMES) for lesson in lessons[:twice]]
    return ShortBatch(
        torch.from_numpy(np.stack([bare_mel(lesson.samples, n_mels) for lesson in lessons])),
        torch.from_numpy(np.stack(again) if again else np.zeros((0, n_mels, N_FRAMES), np.float32)),
        in_rows([lesson.tokens.astype(np.int64) for lesson in lessons], filler),
        in_rows([lesson.targets.astype(np.int64) for lesson in lessons], -1),
        in_rows([lesson.heard for lesson in lessons], False),
        torch.from_numpy(np.concatenate([lesson.hidden for lesson in lessons])),
        sum(len(lesson.samples) for lesson in lessons) / SAMPLE_RATE,
    )
