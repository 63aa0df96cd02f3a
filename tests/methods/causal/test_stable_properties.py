"""What holds for every stream under WhisperRT's policy: nothing lost, nothing said twice, whatever the portions."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from listening_oracle import MANGLED, ListeningOracle
from oracle import make_gate
from slow_rows import slow_but
from test_session_properties import Talk, check_every_word, check_recorded, check_restored
from whispertide.decoding.token_words import TokenWord
from whispertide.methods.causal.stable_beam import HeardStream, StableBeam
from whispertide.methods.causal.stable_search import Scored
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import FloatArray, Span

RECIPE = get_recipe("whisperrt").replace(drop_below=0.0)  # else words that are cut would be dropped with others
RECIPES = {
    "whisperrt": RECIPE,
    "never stuck": RECIPE.replace(stuck_s=0.0, step_s=0.3),
    "short streams": RECIPE.replace(stream_s=6.0, step_s=0.5, carry=1),
    "nothing carried": RECIPE.replace(stream_s=5.0, step_s=0.7, carry=0),
}


class StreamOracle(ListeningOracle):
    """The executor. It goes on with the text of the round before, by as many tokens as a round may add."""

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        hearing = plan.hearing
        assert isinstance(hearing, StableBeam)
        assert len(audio) == len(plan.window)
        rng = random.Random(f"{self.seed} {plan.window} {plan.is_last}")
        known = len(hearing.earlier[0].tokens) if hearing.earlier else 0
        words = self._listen(plan.window, plan.prefix, rng)[: known + hearing.most_tokens]
        tokens = tuple(token for word in words for token in word.tokens)
        return RoundResult(plan, HeardStream(tuple(words), (Scored(tokens, (-0.1,) * len(tokens)),)))

    def _word(self, text: str, token: int, start: int, end: int, window: Span, sure: float = 0.9) -> TokenWord:
        # A word that is cut is another one in each round.
        token = token if token < MANGLED else MANGLED + window.end
        return super()._word(text, token, start, end, window, sure)


def build(talk: Talk, recipe: Recipe, *, gated: bool = False, slow_s: float = 0.0, **more: Any) -> Session:
    oracle = StreamOracle(talk.words, talk.seed, slow_s=slow_s)
    return Session(recipe, oracle, make_gate(talk.words) if gated else None, **{"live": True, **more})


@pytest.mark.parametrize("name", slow_but(RECIPES, "whisperrt"))
@quick(4)
@given(data=st.data(), gated=st.booleans())
def test_every_word_is_confirmed_once_and_in_order(name: str, gated: bool, data: st.DataObject) -> None:
    check_every_word(build, RECIPES[name], data, gated)


@quick(4)
@given(data=st.data(), gated=st.booleans(), name=st.sampled_from(sorted(RECIPES)))
def test_portions_do_not_matter_for_recorded_boundaries(data: st.DataObject, gated: bool, name: str) -> None:
    check_recorded(build, RECIPES[name], data, gated)


@pytest.mark.slow
@quick(4)
@given(data=st.data(), name=st.sampled_from(sorted(RECIPES)))
def test_a_restored_session_has_the_same_future(data: st.DataObject, name: str) -> None:
    check_restored(build, RECIPES[name], data, gated=True)
