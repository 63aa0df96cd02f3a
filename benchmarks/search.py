"""Look for better settings of a recipe: `python benchmarks/search.py` (see --help); --quick shows that it works.

Settings are drawn at random around the ones that are best so far: those that no other beats in both confirmed latency
and word error rate (the Pareto front). Everything measured stays in a folder, and every draw depends on the seed and on
what was measured before it, so a search that was interrupted goes on where it was, and one that was finished can be
prolonged by a larger --trials. Prints the front as a table and one JSON line per trial; the plot is `pareto.png` in the
folder, with its numbers next to it. The measuring is that of `whispertide bench`.
"""

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from whispertide.errors import OptionError
from whispertide.options import EngineOptions, Precision
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.tuning.drawing import Curve
from whispertide.tuning.page import Table, text_table
from whispertide_lab.evaluation import plots
from whispertide_lab.evaluation.grid import CellRequest, Setup, changes_of
from whispertide_lab.evaluation.marks import finds_fewer
from whispertide_lab.evaluation.runner import Runner
from whispertide_lab.evaluation.watch import Watch

Changes = dict[str, Any]

PRECISION = "precision"  # the one thing tried that is the engine's and no field of a recipe

# What is tried of each field; the rest of the recipe stays as it is.
SPACE: dict[str, tuple[Any, ...]] = {
    "step_s": (0.2, 0.3, 0.4, 0.5, 0.7),
    "margin_s": (0.12, 0.2, 0.24, 0.3, 0.4, 0.5),
    "backward_s": (0.0, 0.06, 0.12),
    "attention_floor": (0.0, 0.1, 0.3),
    "max_revision_rate": (0.01, 0.02, 0.03, 0.05),
    "settle_s": (0.5, 0.75, 1.0, 1.5),
    "window_s": (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0),
    "carry": (1, 2, 3, 5),
    "context_tokens": (0, 30, 60, 120),
    "framing": ("bare", "buckets", "pad30"),
    "rewind_s": (0.0, 1.0, 2.0, 4.0),
    "rescue_logprob": (0.0, -1.0, -0.6),
    "lookahead_tokens": (0, 6, 12),
    PRECISION: ("int8", "int8-weights", "fp32"),
}
MUTATIONS = 2  # fields changed at once, at most, in a variant of a setting that is good
EXPLORE = 0.25  # share of trials that are drawn from the whole space


@dataclass(frozen=True)
class Trial:
    """One measured setting."""

    changes: Changes
    latency_s: float
    wer: float
    score: Mapping[str, Any]

    def beats(self, other: "Trial") -> bool:
        """At least as good in both, better in one."""
        at_least = self.latency_s <= other.latency_s and self.wer <= other.wer
        return at_least and (self.latency_s, self.wer) != (other.latency_s, other.wer)


def front(trials: Sequence[Trial]) -> list[Trial]:
    """Those that no other beats, fastest first."""
    best = [trial for trial in trials if not any(other.beats(trial) for other in trials)]
    return sorted(best, key=lambda trial: (trial.latency_s, trial.wer))


def draw(recipe: Recipe, trials: Sequence[Trial], seed: int) -> Changes:
    """The next setting to try, not tried before."""
    rng = random.Random(f"{seed} {len(trials)}")
    tried = [trial.changes for trial in trials]
    for _ in range(1000):
        if not trials:
            return {}
        if rng.random() < EXPLORE:
            changes = {name: rng.choice(values) for name, values in SPACE.items()}
        else:
            changes = dict(rng.choice(front(trials)).changes)
            for name in rng.sample(sorted(SPACE), rng.randint(1, MUTATIONS)):
                changes[name] = rng.choice(SPACE[name])
        changes = {name: value for name, value in changes.items() if value != _usual(recipe, name)}
        if changes not in tried and _is_possible(recipe, changes):
            return changes
    raise OptionError("expected settings that were not tried yet; there are none left: widen SPACE")


def _usual(recipe: Recipe, name: str) -> Any:
    """What holds where nothing is changed."""
    return EngineOptions().precision if name == PRECISION else recipe.settings()[name]


def _changed(recipe: Recipe, changes: Changes) -> Recipe:
    return recipe.replace(**{name: value for name, value in changes.items() if name != PRECISION})


def _is_possible(recipe: Recipe, changes: Changes) -> bool:
    try:
        _changed(recipe, changes)
    except OptionError:
        return False
    return True


def measure(runner: Runner, recipe: Recipe, changes: Changes, model: str, corpus: str) -> Trial:
    """One cell; a setting whose latencies cover too few words counts as infinitely late."""
    chosen = _changed(recipe, changes)
    cell = runner.run(CellRequest(recipe.name, model, corpus, chosen, chosen.schedule.step_s))
    latency, wer = cell.score.get("confirmed_mean_s"), cell.score.get("wer")
    if finds_fewer(cell.score):
        latency = None
    return Trial(
        changes,
        float("inf") if latency is None else float(latency),
        float("inf") if wer is None else float(wer),
        cell.score,
    )


def search(args: argparse.Namespace) -> list[Trial]:
    """All trials, in the order in which they were drawn."""
    recipe = get_recipe(args.recipe)

    @cache
    def runner(precision: Precision) -> Runner:
        setup = Setup(
            clock=args.clock,
            quick=args.quick,
            excerpt_s=args.excerpt,
            seed=args.seed,
            engine=EngineOptions(precision, threads=args.threads),
            models=(args.model,),
        )
        return Runner(args.output, setup, Watch())

    trials: list[Trial] = []
    while len(trials) < args.trials:
        changes = draw(recipe, trials, args.seed)
        trials.append(
            measure(runner(changes.get(PRECISION, EngineOptions().precision)), recipe, changes, args.model, args.corpus)
        )
        plot(trials, f"{args.recipe}: {args.model} on {args.excerpt:g} s of {args.corpus}", args.output / "pareto")
    return trials


def plot(trials: Sequence[Trial], title: str, stem: Path) -> None:
    """All trials as dots, the front joined, the recipe as it is marked by a ring. Logarithmic: many draws are bad."""
    placed = [trial for trial in trials if max(trial.latency_s, trial.wer) < float("inf")]

    def curve(label: str, members: Sequence[Trial]) -> Curve:
        return Curve(label, tuple(t.latency_s for t in members), tuple(100 * t.wer for t in members))

    drawing = plots.front(
        curve("settings tried", placed),
        curve("the best of them", front(placed)),
        curve("the recipe as it is", [trial for trial in placed if not trial.changes]),
        x_label="confirmed latency, mean (s)",
        y_label="WER (%)",
        title=f"{len(trials)} settings of {title}",
    )
    drawing.save(stem)


def table(trials: Sequence[Trial], recipe: Recipe) -> Table:
    """The front, with what is different from the recipe."""
    rows = []
    for trial in front(trials):
        step = {"step_s": trial.changes["step_s"]} if "step_s" in trial.changes else {}
        engine = [f"{PRECISION}={trial.changes[PRECISION]}"] if PRECISION in trial.changes else []
        different = [*(f"{k}={v:g}" for k, v in step.items()), *changes_of(_changed(recipe, trial.changes)), *engine]
        p99 = trial.score.get("confirmed_p99_s")
        rows.append(
            (
                f"{trial.latency_s:.2f}",
                "" if p99 is None else f"{p99:.2f}",
                f"{100 * trial.wer:.1f}",
                f"{trial.score.get('gflop_per_s') or 0:.1f}",
                " ".join(different) or "as it is",
            )
        )
    return Table(("latency s", "p99 s", "WER %", "encoder GFLOP/s", "settings"), tuple(rows))


def main() -> None:
    """Parse, search, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="tide")
    parser.add_argument("--model", default="nano.en")
    parser.add_argument("--corpus", default="talks")
    parser.add_argument("--trials", type=int, default=200, help="measured settings in all, earlier runs included")
    parser.add_argument("--excerpt", type=float, default=600.0, metavar="S", help="seconds of the corpus")
    parser.add_argument("--clock", default="simulated")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("search-results"))
    parser.add_argument("--quick", action="store_true", help="three settings on one minute")
    args = parser.parse_args()
    if args.quick:
        args.trials, args.excerpt = min(args.trials, 3), min(args.excerpt, 60.0)
    args.output.mkdir(parents=True, exist_ok=True)
    trials = search(args)
    print(text_table(table(trials, get_recipe(args.recipe))))
    for trial in trials:
        print(json.dumps({"changes": trial.changes, **trial.score}))


if __name__ == "__main__":
    main()
