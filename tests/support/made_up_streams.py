"""What a rule for confirming words is fitted to, made up: facts of guessed words, and whether they stayed."""

import numpy as np

from whispertide.methods.attention.steadiness import FEATURES, Facts, Rule
from whispertide.tuning.steadiness import Examples
from whispertide.types import SAMPLE_RATE as S

TRUTH = {"one": -1.0, "probability": 3.0, "firm": 1.5, "heard_twice": 1.0}


def made_up(count: int, voice: str, seed: int, true: Rule | None = None) -> Examples:
    """Words that stay or change by the rule `true`."""
    dice = np.random.default_rng(seed)
    true = true or Rule(tuple(TRUTH.get(name, 0.0) for name in FEATURES))
    facts = []
    for _ in range(count):
        probability, before, following = dice.random(3)
        frontier, rounds, after = int(dice.integers(0, 2 * S)), int(dice.integers(1, 5)), int(dice.integers(0, 5))
        firm, closes = bool(dice.integers(2)), bool(dice.integers(2))
        width = int(dice.integers(1, 20))
        facts.append(
            Facts(
                frontier, frontier, width, probability, before, before, following, after, rounds, firm, closes, S // 3
            )
        )
    outcome = tuple(bool(dice.random() < true.chance(one)) for one in facts)
    return Examples(tuple(facts), outcome, voice)
