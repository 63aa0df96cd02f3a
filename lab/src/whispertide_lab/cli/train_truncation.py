"""`whispertide train truncation`: the word-truncation detector of a model."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from whispertide.atomic import writing
from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide_lab.cli.train_epochs import (
    DataOption,
    file_for,
    speech_folders,
    timed_speech,
    told_figures,
    with_word_times,
)
from whispertide_lab.cli.train_fit import SpokenOption, train_device


@guarded
def truncation(
    model: arguments.ModelArgument,
    output: arguments.Attachment = None,
    data: DataOption = None,
    language: SpokenOption = None,
    minutes: Annotated[float, typer.Option("--minutes", min=1.0, help="Minutes of synthetic speech.")] = 30.0,
    windows: Annotated[int, typer.Option("--windows", min=20, help="Windows to train on.")] = 1500,
    framing: Annotated[
        Literal["bare", "pad30", "both"],
        typer.Option("--framing", metavar="NAME", help="How windows reach the encoder: bare, pad30 or both."),
    ] = "both",
    seed: Annotated[int, typer.Option("--seed", help="Seed for speech, cuts and training.")] = 0,
) -> ExitCode:
    """Train a linear layer that detects whether a window's last word is whole (recipe simulstreaming).

    Where speech has no word times, the model's own attention places the words first.
    """
    train_device("cpu")
    from whispertide.methods.attention.truncation import KIND
    from whispertide.model.whisper import load_model
    from whispertide.options import EngineOptions
    from whispertide_lab.training.truncation import TruncationOptions, train_truncation

    options = TruncationOptions(windows=windows, framing=framing, seed=seed)
    loaded = load_model(model, EngineOptions(precision="fp32"), announce=say)
    path = file_for(loaded.checkpoint, KIND, asked=output)
    folders = speech_folders(data, Path.cwd() / f"truncation-{loaded.content_hash[:8]}")
    with timed_speech(folders, minutes, seed) as speech:
        spoken = with_word_times(loaded.checkpoint, speech, language)
        detector = train_truncation(loaded, spoken, options, announce=say)
    with writing(path):
        detector.save(path)
    say(told_figures(detector.report))
    typer.echo(path)
    return ExitCode.OK
