"""`whispertide export`: models in forms that other runtimes take."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.errors import OptionError

export = typer.Typer(help="Write models in formats that other runtimes read.", no_args_is_help=True)


@export.callback()
def group() -> None:
    """Write models in formats that other runtimes read."""


@export.command()
@guarded
def npu(
    model: arguments.ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="A new folder for the graphs.")],
    precision: Annotated[
        Literal["fp32", "fp16"], typer.Option("--precision", metavar="NAME", help="fp32 or fp16.")
    ] = "fp32",
    buckets: Annotated[
        str, typer.Option("--buckets", metavar="S,S", help="Lengths of audio, in whole seconds.")
    ] = "3,4,5,6,30",
    plans: Annotated[
        str,
        typer.Option("--plans", metavar="K,K/K,K", help="Tokens per chunk. One plan or several, separated by slashes."),
    ] = "4,6,5,5,5,5/6,4,5,5,5,5",
    revision: arguments.Revision = None,
) -> ExitCode:
    """Write static ONNX graphs of several decoder steps each, for accelerators that compile them (lab/docs/npu.md)."""
    from whispertide.checkpoint import load_checkpoint
    from whispertide.checkpoint.download import format_size
    from whispertide.checkpoint.hub import folder_size
    from whispertide_lab.npu.chunks import layout_for
    from whispertide_lab.npu.export import export_npu

    lengths, chunks = _numbers(buckets), [_numbers(plan) for plan in plans.split("/")]
    checkpoint = load_checkpoint(model, revision=revision, announce=say)
    layout = layout_for(checkpoint, plans=chunks, buckets=lengths)
    folder = export_npu(checkpoint, output, precision=precision, layout=layout)
    graphs, size = sum(file.suffix == ".onnx" for file in folder.iterdir()), format_size(folder_size(folder))
    say(f"{checkpoint.name}: {graphs} graphs, {size}; {folder / 'README.md'} says how to run them")
    typer.echo(folder)
    return ExitCode.OK


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"expected whole numbers separated by commas, for example 3,4,5; got {text!r}") from None
