"""`whispertide train drafter`: the recurrent drafter of a model."""

from pathlib import Path
from typing import Annotated

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say, writing
from whispertide.cli.train_adapter import RunOption
from whispertide.cli.train_fit import SpokenOption, train_device
from whispertide.cli.train_hush import speech_or_synthetic


@guarded
def drafter(
    model: arguments.ModelArgument,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", metavar="PATH", help="A manifest, or folders of shards. Default: synthetic speech."),
    ] = None,
    output: arguments.Attachment = None,
    windows: Annotated[int, typer.Option("--windows", min=40, help="Windows of speech to learn from.")] = 2000,
    known: Annotated[int, typer.Option("--known", min=1, help="Tokens that it knows, the commonest.")] = 4096,
    size: Annotated[int, typer.Option("--size", min=1, help="Of its state.")] = 160,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Updates in all.")] = 1500,
    language: SpokenOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed for the windows, the weights and the batches.")] = 0,
    run: RunOption = None,
) -> ExitCode:
    """Train a drafter: a small network that guesses the next tokens, so that greedy search takes fewer decoder runs.

    The text stays the same (--set search=drafted). Ctrl-C saves and stops. The same command continues.
    """
    train_device("cpu")
    from whispertide.checkpoint.attachments import place
    from whispertide.cli.interrupt import Interrupts
    from whispertide.cli.progress import counting
    from whispertide.decoding.recurrent import KIND
    from whispertide.lab.training.drafter import DrafterOptions, open_trainer
    from whispertide.lab.training.loop import Figures
    from whispertide.model.whisper import load_model
    from whispertide.options import EngineOptions

    loaded = load_model(model, EngineOptions(precision="fp32"), announce=say)
    options = DrafterOptions(
        windows=windows,
        known=known,
        size=size,
        steps=steps,
        language=language,
        seed=seed,
        content_hash=loaded.content_hash,
    )
    path = output or place(loaded.checkpoint, KIND)
    folder = run or Path(f"drafter-{loaded.content_hash[:8]}")
    speech = speech_or_synthetic(data or [], folder)
    say(f"the run is kept in {folder}")
    with Interrupts() as interrupts, counting("done") as advance:

        def progress(stage: str, done: int, total: int, figures: Figures) -> None:
            advance(stage, done, total)
            if "held_out" in figures:
                say(f"{done}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))

        trainer = open_trainer(loaded, speech, options, folder, progress, lambda: interrupts.pressed)
        is_done = trainer is not None and trainer.run(progress, lambda: interrupts.pressed)
    if trainer is None or not is_done:
        say("saved; the same command continues")
        return ExitCode.INTERRUPTED
    weights = trainer.result()
    with writing(path):
        weights.save(path)
    say(", ".join(f"{name} {value}" for name, value in weights.report.items() if name != "options"))
    typer.echo(path)
    return ExitCode.OK
