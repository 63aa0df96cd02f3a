"""`whispertide train truncation`: the word-truncation detector of a model."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from whispertide.atomic import writing
from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide_lab.cli.train_epochs import file_for, timed_speech, told_figures
from whispertide_lab.cli.train_fit import train_device


@guarded
def truncation(
    model: arguments.ModelArgument,
    output: arguments.Attachment = None,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", metavar="DIR", help="Speech with word times, as shards. Default: synthetic speech."),
    ] = None,
    minutes: Annotated[float, typer.Option("--minutes", min=1.0, help="Hours of synthetic speech.")] = 30.0,
    windows: Annotated[int, typer.Option("--windows", min=20, help="Windows to train on.")] = 1500,
    framing: Annotated[
        Literal["bare", "pad30", "both"],
        typer.Option("--framing", metavar="NAME", help="How windows reach the encoder: bare, pad30 or both."),
    ] = "both",
    seed: Annotated[int, typer.Option("--seed", help="Seed for speech, cuts and training.")] = 0,
) -> ExitCode:
    """Train a linear layer that detects whether a window's last word is whole (recipe simulstreaming)."""
    train_device("cpu")
    from whispertide.methods.attention.truncation import KIND
    from whispertide.model.whisper import load_model
    from whispertide.options import EngineOptions
    from whispertide_lab.training.truncation import TruncationOptions, train_truncation

    options = TruncationOptions(windows=windows, framing=framing, seed=seed)
    loaded = load_model(model, EngineOptions(precision="fp32"), announce=say)
    path = file_for(loaded.checkpoint, KIND, asked=output)
    with timed_speech(data, minutes, seed) as speech:
        detector = train_truncation(loaded, speech, options, announce=say)
    with writing(path):
        detector.save(path)
    say(told_figures(detector.report))
    typer.echo(path)
    return ExitCode.OK
