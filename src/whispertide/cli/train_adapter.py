"""What the commands that train in epochs have in common: options, and the run with its progress bar."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whispertide.cli.exit import say

if TYPE_CHECKING:
    from whispertide.lab.training.epochs import EpochTrainer

STEPS = 2000  # where neither updates nor minutes are given

StepsOption = Annotated[
    int | None, typer.Option("--steps", min=1, help=f"Updates in all. Default: {STEPS}, or what --minutes allow.")
]
MinutesOption = Annotated[
    float | None, typer.Option("--minutes", help="End after so many minutes of training, if that is earlier.")
]
RateOption = Annotated[float, typer.Option("--rate", help="Highest learning rate.")]
RunOption = Annotated[
    Path | None,
    typer.Option(
        "--run", metavar="FOLDER", help="Folder of the run. An existing run continues. Default: a new one here."
    ),
]


def updates(steps: int | None, minutes: float | None) -> int:
    """Updates in all, by what the user said."""
    return steps or (STEPS if minutes is None else 10**6)


def train_adapter(trainer: "EpochTrainer[Any]", workers: int) -> bool:
    """Train with a progress bar; whether the end was reached."""
    from whispertide.cli.interrupt import Interrupts
    from whispertide.cli.progress import counting

    say(f"update {trainer.step}, {trainer.gone:.0%} of the run, on {trainer.device}, {workers} workers")
    with Interrupts() as interrupts, counting("thousandths") as advance:

        def progress(step: int, figures: dict[str, float]) -> None:
            advance("training", round(1000 * min(1.0, trainer.gone)), 1000)
            if "held_out" in figures:
                say(f"{step}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))

        ended = trainer.run(progress, workers, stop=lambda: interrupts.pressed)
    if not ended:
        say(f"saved at update {trainer.step}; the same command continues")
    return ended
