"""A kind of harm: how much of it there is to be done, and how one seed of it is run."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from campaign.lines import Line

Runner = Callable[[int], Line]


@dataclass(frozen=True)
class Scenario:
    """`opened` gives what runs a seed; what many seeds share lives as long as it, or in the folder that it is given.

    target    how many `unit`s of harm make a whole campaign
    share     of the time, where time is short, in comparison with the others
    exact     whether every word has to be as it was said (the model knows them), or a sentence at least (nano.en)
    missing   why it cannot be run on this machine, or ""
    steady    whether one server or session lives for all seeds, so that memory has to be flat
    """

    name: str
    about: str
    unit: str
    target: int
    opened: Callable[[Path], AbstractContextManager[Runner]]
    share: float = 1.0
    exact: bool = True
    steady: bool = False
    missing: Callable[[], str] = str
