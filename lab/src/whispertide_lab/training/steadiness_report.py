"""The report of a fitted rule for confirming words: what its predictions were worth, as text, plot and file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whispertide.atomic import replacing, write_text
from whispertide.methods.attention.steadiness import FEATURES, Rule
from whispertide.tuning.steadiness import squared_error

STEPS = (0.02, 0.05, 0.1, 0.2)  # of `max_revision_rate`, that a report shows


@dataclass(frozen=True, slots=True)
class Bin:
    """Words with predicted probabilities in one range: their number, the mean prediction, the share that stayed."""

    count: int
    predicted: float
    stayed: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """The calibration of predicted probabilities. `error`: mean distance between predicted and true share, weighted by
    words (expected calibration error); `brier`: mean squared error; `base`: that of always predicting the share that
    stayed.
    """

    bins: tuple[Bin, ...]
    error: float
    brier: float
    base: float


def reliability(chances: Sequence[float], stayed: Sequence[bool], bins: int = 10) -> Reliability:
    """Compare predictions with outcomes, in ranges that hold equally many words."""
    predicted, truth = np.asarray(chances, np.float64), np.asarray(stayed, np.float64)
    order = np.argsort(predicted, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    found = tuple(Bin(len(part), float(predicted[part].mean()), float(truth[part].mean())) for part in parts)
    error = sum(one.count * abs(one.predicted - one.stayed) for one in found) / len(truth)
    return Reliability(found, error, squared_error(chances, stayed), float(truth.var()))


def accepted(chances: Sequence[float], stayed: Sequence[bool], rate: float) -> tuple[float, float]:
    """Of all words the share that is more likely to stay than `1 - rate`, and of these the share that changed."""
    taken = [outcome for chance, outcome in zip(chances, stayed, strict=True) if chance >= 1 - rate]
    changed = sum(not outcome for outcome in taken)
    return len(taken) / max(len(stayed), 1), changed / max(len(taken), 1)


def report(chances: Sequence[float], stayed: Sequence[bool]) -> str:
    """The worth of predictions, for a person: a table of chances, and one of what each `max_revision_rate` accepts."""
    found = reliability(chances, stayed)
    lines = [
        f"{len(stayed)} words of guesses, {sum(stayed) / len(stayed):.1%} of which stayed; each predicted by a rule",
        f"fitted without its voice: calibration error {found.error:.4f}, Brier score {found.brier:.4f} (of a constant "
        f"{found.base:.4f})",
        "predicted  stayed   words",
        *(f"{one.predicted:9.3f}  {one.stayed:6.3f}  {one.count:6d}" for one in found.bins),
        "max_revision_rate  accepted  of these changed",
    ]
    for rate in STEPS:
        taken, changed = accepted(chances, stayed, rate)
        lines.append(f"{rate:17.2f}  {taken:8.1%}  {changed:16.2%}")
    return "\n".join(lines)


def draw(chances: Sequence[float], stayed: Sequence[bool], output: Path) -> None:
    """The predicted chances against the shares that stayed. Raises `OptionError` without matplotlib, and `OSError`."""
    from whispertide.tuning.drawing import new_figure

    found = reliability(chances, stayed, bins=20)
    with new_figure(figsize=(5, 5)) as figure:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], linestyle=":", label="as predicted")
        axes.plot([one.predicted for one in found.bins], [one.stayed for one in found.bins], marker="o", label="words")
        axes.set_xlabel("predicted chance to stay, by a rule fitted without the voice")
        axes.set_ylabel("share that stayed")
        axes.legend()
        with replacing(output) as unfinished:
            figure.savefig(unfinished, dpi=120, format=output.suffix[1:])


def save(rule: Rule, chances: Sequence[float], stayed: Sequence[bool], output: Path) -> None:
    """Write the rule as the package ships it, with what it was worth on held-out voices. Raises `OSError`."""
    found = reliability(chances, stayed)
    about = {
        "weights": {name: round(weight, 4) for name, weight in zip(FEATURES, rule.weights, strict=True)},
        "words": len(stayed),
        "stayed": round(sum(stayed) / len(stayed), 4),
        "calibration_error": round(found.error, 4),
        "brier": round(found.brier, 4),
        "brier_of_a_constant": round(found.base, 4),
    }
    write_text(output, json.dumps(about, indent=2) + "\n")
