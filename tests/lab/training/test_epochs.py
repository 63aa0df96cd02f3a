"""Which epochs of a run are kept. What is learned in them is tested with each thing that is trained."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from whispertide_lab.training.epochs import EpochOptions, EpochTrainer, Lessons

pytestmark = pytest.mark.slow


@dataclass
class Token:
    """A batch of one."""

    seconds: float = 1.0
    count: int = 1

    def to(self, device: torch.device) -> "Token":
        return self


class Told(EpochTrainer[Token]):
    """Its held-out losses are those that it is told, one after the other."""

    told: Iterator[float]

    def loss(self, batch: Token) -> Tensor:
        return torch.tensor(next(self.told))


def trainer(folder: Path, *losses: float) -> Told:
    batches: Any = None
    options = EpochOptions(best=1, held_out=1)
    made = Told([torch.zeros(1)], Lessons(batches, [Token()]), options, folder, "cpu")
    made.told = iter(losses)
    return made


def test_an_epoch_whose_loss_is_no_number_is_never_the_best(tmp_path: Path) -> None:
    """Nothing is less than nan: where it came first it was kept, and all later epochs were forgotten."""
    made = trainer(tmp_path, math.nan, 2.0, math.nan)
    for step in (1, 2, 3):
        made.step = step
        made.end_epoch()
    assert [(epoch.step, epoch.loss) for epoch in made.best] == [(2, 2.0)]


def test_a_mean_whose_loss_is_no_number_is_not_chosen(tmp_path: Path) -> None:
    made = trainer(tmp_path, 3.0, math.nan, 2.0)
    made.end_epoch()
    assert made.take_mean((2, 1)) == (1, 2.0)
