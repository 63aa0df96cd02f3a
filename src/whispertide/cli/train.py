"""`whispertide train`: checkpoints made from other checkpoints."""

from pathlib import Path
from typing import Annotated

import typer

from whispertide.cli.exit import ExitCode, guarded, say

train = typer.Typer(help="Make checkpoints out of others.", no_args_is_help=True)


@train.callback()
def group() -> None:
    """Make checkpoints out of others."""


@train.command()
def widen(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A small model, such as nano.en, or a folder.")],
    to: Annotated[str, typer.Option("--to", help="The shape to take: base.en, small.en or medium.en.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder for the checkpoint.")],
) -> None:
    """Give a small model the shape and cost of a larger one. It says the same: for measuring, not for use."""

    def body() -> ExitCode:
        from whispertide.checkpoint.download import format_size
        from whispertide.training.widen import widen as make

        folder = make(model, to, output, announce=say)
        size = sum(file.stat().st_size for file in folder.iterdir())
        say(f"{model} in the shape of {to}: {format_size(size)}")
        typer.echo(folder)
        return ExitCode.OK

    guarded(body)
