"""`whispertide compress`: a checkpoint with palettes in place of weights. Parsing and printing only."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say

if TYPE_CHECKING:
    from whispertide.types import FloatArray


@guarded
def compress(
    model: arguments.ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="A new folder for the checkpoint.")],
    size: Annotated[float, typer.Option("--size", help="Largest size, as a share of fp16.")] = 0.4,
    bits: Annotated[
        int | None, typer.Option("--bits", help="1, 2, 3, 4, 6 or 8 for every tensor. Default: by sensitivity.")
    ] = None,
    way: Annotated[
        Literal["budget", "thresholds"],
        typer.Option(
            "--way", metavar="NAME", help="budget: the least divergence for the size; thresholds: as published."
        ),
    ] = "budget",
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", metavar="FILE", help="Recordings to measure on; repeatable. Default: the bundled one."),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=0, help="0 = one per core, at most 4.")] = 0,
    revision: arguments.Revision = None,
) -> ExitCode:
    """Make a checkpoint smaller: palettes of 1 to 8 bits, bits per layer by sensitivity (lab/docs/compression.md).

    After Ctrl-C the same command continues.
    """
    from whispertide.checkpoint.names import as_argument
    from whispertide.cli.progress import counting
    from whispertide.model.whisper import load_model
    from whispertide.options import EngineOptions
    from whispertide.tuning.page import Table, text_table
    from whispertide_lab.compression.compress import CompressOptions
    from whispertide_lab.compression.compress import compress as make
    from whispertide_lab.compression.report import COLUMNS, LEGEND

    options = CompressOptions(size=size, way=way, bits=bits)
    loaded = load_model(model, EngineOptions(threads=threads), revision=revision, announce=say)
    with counting("measurements") as progress:
        report = make(loaded, output, options, _recordings(data), progress=progress, announce=say)
    typer.echo(text_table(Table(COLUMNS, tuple(report.cells()))))
    say(LEGEND)
    say(report.summary())
    typer.echo(as_argument(output))
    return ExitCode.OK


def _recordings(data: list[Path] | None) -> "list[FloatArray]":
    from whispertide.audio.file import load_audio
    from whispertide.cli.bundled import bundled_audio

    return [load_audio(path) for path in data] if data else [bundled_audio()]
