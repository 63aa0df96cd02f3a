"""The tests' models that know their words, as one for all recipes: by their times, or by attention."""

import time
from dataclasses import dataclass
from typing import Any

from listening_oracle import ListeningOracle
from oracle import audio_between, make_gate
from served import KnowingModel
from whispertide.options import DecodeOptions
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import FloatArray

RECIPES = ("whisper-streaming", "tide", "simulstreaming")


@dataclass
class Listening(ListeningOracle):
    """Takes any audio for that of the words, and its time."""

    round_s: float = 0.0

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        """The words of the window."""
        time.sleep(self.round_s)
        return super().run(plan, audio_between(plan.window.start, plan.window.end), options)


@dataclass
class AllKnowing(KnowingModel):
    """Knows its words under every recipe of `RECIPES`."""

    def session(
        self, recipe: Recipe, *, options: DecodeOptions | None = None, vad: bool | None = None, live: bool = False
    ) -> Session:
        """A session whose model knows what was said."""
        if recipe.name == "whisper-streaming":
            return super().session(recipe, options=options, vad=vad, live=live)
        gate = make_gate(self.words) if self.gated and vad is not False else None
        return Session(recipe, Listening(self.words, round_s=self.round_s), gate, options=options)
