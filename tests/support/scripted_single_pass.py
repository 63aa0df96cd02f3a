"""SinglePass over a scripted model, for the tests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scripted_model import ScriptedModel, story
from whispertide.checkpoint.generation import Head
from whispertide.decoding.guards import Halt, HaltReason, Scene
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, Framing
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import FloatArray, Span

START = 3200 * 320  # somewhere in the middle of a stream


WALK = story((" we", 10), (" walk", 40), (" home", 70))


TOKENS = tuple(token for token, _ in WALK)


SECONDS = 2 * 16_000


def hear(
    model: ScriptedModel,
    listen: SinglePass | None = None,
    *,
    frame: Framing = BARE,
    samples: int = SECONDS,
    options: DecodeOptions | None = None,
    detector: Any = None,
    suffix: FloatArray | None = None,
    **plan: Any,
) -> Any:
    executor = SerialExecutor(RoundResources(model, frame, suffix, detector))  # type: ignore[arg-type]
    planned = RoundPlan(7, Span(START, START + samples), hearing=listen or SinglePass(), **plan)
    return executor.run(planned, np.zeros(samples, np.float32), options or DecodeOptions())


def listened(result: Any) -> HeardWords:
    assert result.heard is not None
    heard: HeardWords = result.heard
    return heard


@dataclass(frozen=True)
class Stop:
    """Halts at the token `at`, which stays if `keep` is one more; notes the scenes it is put into."""

    at: int
    reason: HaltReason = "frontier"
    keep: int = 0
    wanted: tuple[Head, ...] = ()
    last_frame: int | None = None
    scenes: list[Scene] = field(default_factory=list, compare=False)

    def heads(self, model: Any) -> tuple[Head, ...]:
        return self.wanted

    def guard(self, scene: Scene, model: Any) -> "StopGuard":
        self.scenes.append(scene)
        return StopGuard(self)


class StopGuard:
    def __init__(self, rule: Stop) -> None:
        self.rule = rule
        self.halt: Halt | None = None
        self.last_frame = rule.last_frame

    def check(self, tokens: Sequence[int], attention: FloatArray | None, logprob: float) -> int | None:
        assert attention is not None
        if len(tokens) < self.rule.at + max(self.rule.keep, 1):
            return None
        self.halt = Halt(self.rule.reason, self.rule.at, tokens[self.rule.at])
        return self.rule.at + self.rule.keep


class Detector:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def fires(self, hidden: Any) -> bool:
        self.seen.append(hidden)
        return True


OTHER = story((" they", 10), (" run", 40), (" far", 70), (" off", 80))
