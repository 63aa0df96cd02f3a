"""Which guessed words stayed, and fitting a rule that says so beforehand."""

from dataclasses import replace

import numpy as np
import pytest

from listening_oracle import ListeningOracle
from made_up_streams import TRUTH, made_up
from oracle import audio_between
from whispertide.errors import OptionError
from whispertide.methods.attention.steadiness import FEATURES, Rule
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.tuning.steadiness import (
    Guess,
    at_pace,
    fit_rule,
    held_out,
    outcomes,
    record_stream,
    squared_error,
    with_patience,
)
from whispertide.types import Word

S = 16_000


def words(text: str, *, start: float = 0.0) -> tuple[Word, ...]:
    """A word every half second."""
    return tuple(
        Word(f" {one}", round((start + n / 2) * S), round((start + n / 2 + 0.4) * S))
        for n, one in enumerate(text.split())
    )


def stayed(guess: str, final: str, *, confirmed: int = 0, start: float = 0.0) -> list[bool]:
    return outcomes(Guess(confirmed, words(guess, start=start), ()), words(final))


# --- outcomes -----------------------------------------------------------------------------------------------------


def test_a_word_stays_if_the_final_text_has_it_there() -> None:
    assert stayed("A large game", "a large bird came") == [True, True, False]
    assert stayed("large bird", "a large bird", confirmed=1, start=0.5) == [True, True]


def test_the_same_word_elsewhere_is_another_one() -> None:
    assert stayed("bird", "one two three four bird") == [False]


def test_a_word_before_which_the_guess_left_one_out_did_not_stay() -> None:
    late = (words("a")[0], replace(words("bird")[0], start=S, end=round(1.4 * S)))
    assert outcomes(Guess(0, late, ()), words("a large bird")) == [True, False]
    replaced = (words("a")[0], words("x huge")[1], replace(words("bird")[0], start=S, end=round(1.4 * S)))
    assert outcomes(Guess(0, replaced, ()), words("a large bird")) == [True, False, True]


def test_a_full_stop_that_is_no_end_did_not_stay() -> None:
    assert stayed("of steel.", "of steel and glass.") == [True, False]
    assert stayed("of steel.", "Of steel. His") == [True, True]
    assert stayed("of steel", "of steel. His") == [True, True]


# --- fitting ------------------------------------------------------------------------------------------------------


def test_a_fitted_rule_predicts_voices_that_it_never_met() -> None:
    examples = [made_up(800, voice, seed) for seed, voice in enumerate("abcd")]
    chances, truth = held_out(examples)
    assert squared_error(chances, truth) < 0.85 * np.var(truth)
    weights = dict(zip(FEATURES, fit_rule(examples).weights, strict=True))
    assert weights["probability"] == pytest.approx(TRUTH["probability"], abs=0.8)
    assert weights["firm"] == pytest.approx(TRUTH["firm"], abs=0.4)


@pytest.mark.slow
def test_from_a_known_rule_few_words_go_a_long_way_and_many_go_where_they_say() -> None:
    known = Rule(tuple(TRUTH.get(name, 0.0) for name in FEATURES))

    def off(rule: Rule, other: Rule) -> float:
        return float(np.linalg.norm(np.array(rule.weights) - other.weights))

    few, many = [made_up(150, "a", 5)], [made_up(8000, "a", 5)]
    assert off(fit_rule(few, near=known), known) < 0.8 * off(fit_rule(few), known)
    elsewhere = Rule(tuple(weight + 0.5 for weight in known.weights))
    assert off(fit_rule(many, near=elsewhere), known) < 0.5 * off(elsewhere, known)


def test_one_voice_is_held_out_by_halves() -> None:
    chances, truth = held_out([made_up(600, "alone", 3)])
    assert len(chances) == len(truth) == 600
    assert squared_error(chances, truth) < 0.9 * np.var(truth)


def test_too_little_is_no_rule() -> None:
    with pytest.raises(OptionError, match="use more audio"):
        fit_rule([made_up(50, "a", 0)])
    same = made_up(300, "a", 0)
    with pytest.raises(OptionError, match="use more audio"):
        fit_rule([replace(same, stayed=(True,) * 300)])


# --- recording ----------------------------------------------------------------------------------------------------


class Hearing:
    """A transcriber whose model is the oracle of the policies' tests."""

    def __init__(self, said: tuple[Word, ...]) -> None:
        self.said = said

    def session(self, recipe: Recipe) -> Session:
        return Session(recipe, ListeningOracle(self.said, 1))


def test_a_stream_is_recorded_with_patience_and_its_guesses_are_judged_by_its_end() -> None:
    said = words("w0 w1 w2 w3 w4 w5 w6 w7 w8 w9")
    examples = record_stream(Hearing(said), get_recipe("tide"), audio_between(0, 6 * S), voice="v")  # type: ignore[arg-type]
    assert len(examples.facts) == len(examples.stayed) > 30
    assert np.mean(examples.stayed) > 0.8
    assert max(known.rounds for known in examples.facts) >= 3
    assert examples.voice == "v"


@pytest.mark.parametrize(("number", "step_s"), [(0, 0.4), (1, 0.2), (2, 0.8), (3, 0.4)])
def test_rounds_are_as_far_apart_as_live_and_for_other_delays(number: int, step_s: float) -> None:
    said, heard_as = words("w0 w1 w2 w3 w4 w5 w6 w7 w8 w9"), at_pace(get_recipe("tide"), number)
    examples = record_stream(Hearing(said), heard_as, audio_between(0, 6 * S))  # type: ignore[arg-type]
    steps = [known.step for known in examples.facts]
    assert np.median(steps) == pytest.approx(step_s * S, abs=S / 8)


def test_only_tide_can_be_recorded() -> None:
    assert with_patience(get_recipe("tide")).settings()["settle_s"] == 1.5
    with pytest.raises(OptionError, match="policy=tide"):
        with_patience(get_recipe("npusper"))
