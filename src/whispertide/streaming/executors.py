"""Choices of where a recipe's rounds are computed; `executor` and `pipelined` compute them."""

from dataclasses import dataclass
from typing import ClassVar

from whispertide.streaming.choice import Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorChoice(Choice):
    """The place where rounds are computed, and nothing else.

    overlaps  whether rounds overlap: one is planned while the one before it is decoded
    ahead     whether a round is planned before the one before it is done, though they are computed one after the other
    """

    overlaps: ClassVar[bool] = False
    ahead: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial(ExecutorChoice):
    """One round after the other."""

    kind: ClassVar[str] = "serial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipelined(ExecutorChoice):
    """A round is encoded while the one before it is decoded, each by a worker of its own (WhisperFlow)."""

    kind: ClassVar[str] = "pipelined"
    overlaps: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(ExecutorChoice):
    """The best executor that `whispertide profile` found on this machine."""

    kind: ClassVar[str] = "auto"
