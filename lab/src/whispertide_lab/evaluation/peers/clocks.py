"""Feeding a peer: the simulated clock for those that compute when asked, and settling for those that rewrite.

The simulated clock is that of our own recipes: audio arrives at the speed of speech, a round occupies the worker for
the time it was measured to take, and the next round takes all that has arrived, at least one step.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from whispertide.streaming.repetition import normalise
from whispertide.types import SAMPLE_RATE, FloatArray, seconds, to_samples
from whispertide_lab.evaluation.peers.wire import PeerResult, Recogniser
from whispertide_lab.evaluation.trace import FREE, PROCESSOR, ClockName, RoundCost, Shown

Words = tuple[str, ...]

# Faint noise for a first run, in which libraries allocate and tune: two seconds, so that nothing is skipped as silent.
WARM_UP: FloatArray = (np.random.default_rng(0).standard_normal(2 * SAMPLE_RATE) * 0.01).astype(np.float32)


class Stepped(Protocol):
    """A recogniser that computes only when it is called."""

    def feed(self, samples: FloatArray) -> tuple[Words, Words]:
        """Take more audio and compute: all words committed so far, and the guess after them."""

    def finish(self) -> Words:
        """The audio is over: all words."""


def offline(transcribe: Callable[[FloatArray], str]) -> Recogniser:
    """A recogniser that shows everything at the end, warmed up."""
    transcribe(WARM_UP)
    return partial(whole, transcribe=transcribe)


def whole(samples: FloatArray, transcribe: Callable[[FloatArray], str]) -> PeerResult:
    """An offline recogniser: it starts when all audio is there, and shows everything when it is done."""
    end = seconds(len(samples))
    began = time.perf_counter()
    words = tuple(transcribe(samples).split())
    took = time.perf_counter() - began
    return PeerResult("simulated", (Shown(end + took, words),), (RoundCost(end, took, end),))


@dataclass(frozen=True, slots=True)
class Screen:
    """All that a viewer saw at one moment: the text that the program calls committed, and its guess."""

    at_s: float
    committed: Words
    guess: Words = ()


def step_through(samples: FloatArray, recogniser: Stepped, step_s: float, *, by: ClockName = "simulated") -> PeerResult:
    """Run a recogniser over `samples` under the simulated clock, that of the processor's seconds, or the free one, on
    which computing takes no time.

    Audio that is shorter than a step at the end gets a round as well.
    """
    step, free = max(1, to_samples(step_s)), by == FREE
    timer = time.process_time if by == PROCESSOR else time.perf_counter
    clock, fed = 0.0, 0
    screens: list[Screen] = []
    rounds: list[RoundCost] = []
    while fed < len(samples):
        due = min(fed + step, len(samples))
        clock = max(clock, seconds(due))
        arrived = min(len(samples), max(due, int(clock * SAMPLE_RATE)))
        began = timer()
        committed, guess = recogniser.feed(samples[fed:arrived])
        took = timer() - began
        rounds.append(RoundCost(clock, took, seconds(arrived - fed)))
        clock += 0.0 if free else took
        screens.append(Screen(clock, committed, guess))
        fed = arrived
    began = timer()
    committed = recogniser.finish()
    took = timer() - began
    rounds.append(RoundCost(clock, took, 0.0))
    screens.append(Screen(clock + (0.0 if free else took), committed))
    return PeerResult(by, settle(screens), tuple(rounds))


def settle(screens: Sequence[Screen]) -> tuple[Shown, ...]:
    """What was confirmed when, from a program that shows all its text again each time and may change all of it.

    A committed word counts as confirmed from the moment after which it never changed but in case and punctuation, which
    no figure depends on; until then it is part of the guess. For a program that keeps its word that is the moment it
    was committed. Screens that show nothing new are left out, but for the last.
    """
    final = screens[-1].committed if screens else ()
    stable = len(final)
    kept = [0] * len(screens)
    for place in range(len(screens) - 1, -1, -1):
        stable = min(stable, _agreement(screens[place].committed, final))
        kept[place] = stable
    shown: list[Shown] = []
    done = 0
    for screen, count in zip(screens, kept, strict=True):
        now = Shown(screen.at_s, final[done:count], (*screen.committed[count:], *screen.guess))
        if now.confirmed or now.hypothesis != (shown[-1].hypothesis if shown else ()) or screen is screens[-1]:
            shown.append(now)
        done = count
    return tuple(shown)


def _agreement(words: Words, final: Words) -> int:
    """How many words at the start are the same, case and punctuation apart."""
    for place, (ours, theirs) in enumerate(zip(words, final, strict=False)):
        if normalise(ours) != normalise(theirs):
            return place
    return min(len(words), len(final))
