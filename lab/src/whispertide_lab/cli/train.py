"""`whispertide train`: checkpoints made from speech, and from other checkpoints. Puts the commands together."""

from pathlib import Path
from typing import Annotated

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide_lab.cli.train_blocks import blocks
from whispertide_lab.cli.train_card import card, curve
from whispertide_lab.cli.train_causal import causal
from whispertide_lab.cli.train_commands import commands
from whispertide_lab.cli.train_fit import export, fit, plot, resume
from whispertide_lab.cli.train_heads import heads
from whispertide_lab.cli.train_hush import hush
from whispertide_lab.cli.train_latecontext import latecontext
from whispertide_lab.cli.train_offramp import offramp
from whispertide_lab.cli.train_prepare import prepare
from whispertide_lab.cli.train_short import short
from whispertide_lab.cli.train_speech import speech
from whispertide_lab.cli.train_steadiness import steadiness
from whispertide_lab.cli.train_truncation import truncation

train = typer.Typer(no_args_is_help=True)


@train.callback()
def group() -> None:
    """Make checkpoints from your own recordings, from synthetic speech, or from other checkpoints.

    Your own recordings, from a manifest to a measured model (lab/docs/training.md):

        whispertide train prepare mine.jsonl -o mine
        whispertide train fit mine --from base.en --lora 16 --run run
        whispertide train resume run
        whispertide train export run -o my-model
        whispertide train card my-model --manifest test.jsonl -o card.md
        whispertide transcribe talk.wav --model ./my-model

    test.jsonl lists other recordings, to measure with. Training needs an extra; in the checkout of whispertide run:

        pip install . './lab\\[train]'
    """


for command in (
    prepare,
    speech,
    fit,
    resume,
    plot,
    export,
    card,
    curve,
    heads,
    truncation,
    hush,
    causal,
    blocks,
    commands,
    latecontext,
    offramp,
    steadiness,
    short,
):
    train.command()(command)


@train.command()
@guarded
def widen(
    model: arguments.ModelArgument,
    to: Annotated[str, typer.Option("--to", help="The shape to take: base.en, small.en or medium.en.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder for the checkpoint.")],
) -> ExitCode:
    """Give a small model the shape and cost of a larger one, with the same text. For measuring speed, not for use."""
    from whispertide.checkpoint.download import format_size
    from whispertide.checkpoint.hub import folder_size
    from whispertide.checkpoint.names import as_argument
    from whispertide_lab.training.widen import widen as make

    folder = make(model, to, output, announce=say)
    say(f"{model} in the shape of {to}: {format_size(folder_size(folder))}")
    typer.echo(as_argument(folder))
    return ExitCode.OK
