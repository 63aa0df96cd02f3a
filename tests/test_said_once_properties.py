"""What was said once is confirmed once: real decoding by nano.en, over gains, rates, codecs, rules and framings.

nano.en seldom loses its place. Checkpoints that know no short windows do, and begin anew with what they have written.
So rounds are made to forget what was confirmed, too: without the guard (`attention/listening.py`) nearly every such
stream has a sentence twice.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whispertide
from coded_audio import CODECS, through
from few_examples import quick
from sounds import silence
from spoken_clips import clip, said_again, streamed
from whispertide.api import Transcriber
from whispertide.methods.attention.steadiness import Rule, read_rule
from whispertide.methods.attention.tide import Tide
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.streaming.choice import field_types
from whispertide.streaming.round import RoundPlan
from whispertide.types import FloatArray

pytestmark = pytest.mark.slow

STEMS = ("letter", "quiet", "river", "winter")


@cache
def nano() -> Transcriber:
    return whispertide.load("nano.en", threads=1)


@dataclass(frozen=True)
class Recording:
    """Clips, each once, after pauses (seconds), louder by `gain_db`, and what they go through."""

    stems: tuple[str, ...]
    pauses: tuple[float, ...]
    gain_db: float
    codec: str
    rate: int
    bit_rate: int | None

    def samples(self) -> FloatArray:
        parts = [
            part for pause, stem in zip(self.pauses, self.stems, strict=True) for part in (silence(pause), clip(stem))
        ]
        loud = np.concatenate([*parts, silence(0.3)]) * np.float32(10 ** (self.gain_db / 20))
        return through(loud, self.codec, self.rate, self.bit_rate)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    stems = tuple(draw(st.permutations(STEMS))[: draw(st.integers(1, 2))])
    codec = draw(st.sampled_from(sorted(CODECS)))
    bits = CODECS[codec][2]
    return Recording(
        stems,
        tuple(draw(st.sampled_from([0.2, 0.6, 1.2, 3.0, 6.0])) for _ in stems),
        gain_db=draw(st.integers(-30, 12)),
        codec=codec,
        rate=draw(st.one_of(st.sampled_from([7_350, 8_000, 16_000, 44_100]), st.integers(7_350, 48_000))),
        bit_rate=draw(st.sampled_from(bits)) if bits else None,
    )


@dataclass(frozen=True)
class Forgetful(Tide):
    """Every third round hears what was confirmed once more, as a decoder does that begins anew."""

    def plan(self, *args: Any, **options: Any) -> RoundPlan:
        plan = super().plan(*args, **options)
        return plan if plan.id % 3 else replace(plan, prefix=())


def forgetful(recipe: Recipe) -> Recipe:
    policy = recipe.policy
    assert isinstance(policy, Tide)
    return replace(recipe, policy=Forgetful(**{name: getattr(policy, name) for name in field_types(Tide)}))


@st.composite
def tides(draw: st.DrawFn) -> dict[str, Any]:
    """Settings of `tide`: framings, steps, steadiness, and a rule that is off by chance, as one fitted to little is."""
    framing = draw(st.sampled_from(["bare", "buckets", "zeros", "pad30"]))
    chosen: dict[str, Any] = {"framing": framing, "shift_guard": draw(st.booleans())}
    chosen["step_s"] = draw(st.sampled_from([0.3, 0.4, 0.7, 1.0]))
    chosen["longest_step_s"] = 2.0
    chosen["max_revision_rate"] = draw(st.sampled_from([0.01, 0.03, 0.1]))
    noise = draw(st.sampled_from([0.0, 0.3, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 1_000)))
    shipped = read_rule("").weights
    chosen["rule"] = Rule(tuple(round(w + noise * float(rng.normal()), 3) for w in shipped)).text() if noise else ""
    return chosen


@given(recordings(), tides())
@quick(3)
def test_tide_confirms_nothing_twice(recording: Recording, chosen: dict[str, Any]) -> None:
    text = streamed(nano(), get_recipe("tide").replace(**chosen), recording.samples())
    assert said_again(text, *recording.stems) == [], text


@given(recordings(), tides())
@quick(4)
def test_nor_does_it_where_a_decoder_begins_anew(recording: Recording, chosen: dict[str, Any]) -> None:
    text = streamed(nano(), forgetful(get_recipe("tide").replace(**chosen)), recording.samples())
    assert said_again(text, *recording.stems) == [], text


@given(recordings(), st.sampled_from(["simulstreaming", "whisper-streaming", "whisperkit", "whisperrt", "npusper"]))
@quick(3)
def test_other_recipes_confirm_nothing_twice(recording: Recording, name: str) -> None:
    text = streamed(nano(), get_recipe(name), recording.samples())
    assert said_again(text, *recording.stems) == [], text
