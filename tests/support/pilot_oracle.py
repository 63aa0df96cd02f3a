"""A model that is told what was said, for the policy that hears an utterance whole; and one whose rounds take time."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from listening_oracle import ListeningOracle
from whispertide.events import RoundStats
from whispertide.methods.pilot.pilot import HeardUtterance, Pilot, Scores
from whispertide.options import DecodeOptions
from whispertide.streaming.ahead import HeardAhead
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import FloatArray


@dataclass
class PilotOracle(ListeningOracle):
    """The executor. A pilot's text ends where it has as many tokens as it may."""

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        if isinstance(plan.hearing, HeardAhead):
            return replace(plan.hearing.result, plan=plan, stats=RoundStats())
        assert isinstance(plan.hearing, Pilot)
        assert len(audio) == len(plan.window)
        self.plans.append(plan)
        if plan.reference is not None:
            assert plan.reference.tokens
            assert not plan.reference.recover
        heard = self._listen(plan.window, plan.prefix, random.Random(f"{self.seed} {plan.window} {plan.is_last}"))
        words = tuple(heard[: plan.hearing.most])
        tokens = tuple(token for word in words for token in word.tokens)
        found = HeardUtterance(
            words, tokens, Scores((-0.1,) * len(tokens), 0.5), "length" if len(heard) > len(words) else "end_of_text"
        )
        return RoundResult(plan, found, stats=RoundStats(encode_s=self.seconds(plan)))


@dataclass
class Flying:
    """A round that is done when `Slow` says so. Satisfies `stages.Pending`."""

    found: RoundResult[Any]
    owner: "Slow"
    done: bool = False
    cancelled: bool = False

    @property
    def plan(self) -> RoundPlan:
        return self.found.plan

    def result(self) -> RoundResult[Any]:
        assert not self.cancelled
        return self.found

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Slow:
    """An executor in the background. Of the rounds that begin a share `quick` is done at once; `land` does the rest."""

    oracle: PilotOracle
    quick: float = 0.0
    depth: int = 2
    begun: list[Flying] = field(default_factory=list)

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        return self.oracle.run(plan, audio, options, state)

    def begin(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None, after: Any = None
    ) -> Flying:
        if plan.is_last:
            assert after is None, "a pilot in flight is given up before the last round begins"
        done = random.Random(plan.window.end).random() < self.quick
        self.begun.append(Flying(self.oracle.run(plan, audio, options), self, done))
        return self.begun[-1]

    def land(self) -> None:
        """All that is under way is done."""
        for flying in self.begun:
            flying.done = True


def scored(perplexity_of: float, count: int = 3) -> Scores:
    """Scores of a text with that perplexity."""
    from math import log

    return replace(Scores(), logprobs=(-log(perplexity_of),) * count)
