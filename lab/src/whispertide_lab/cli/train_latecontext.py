"""`whispertide train latecontext`: a small network for commands that does most of its work while somebody speaks."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded
from whispertide_lab.cli.train_epochs import RUN, RateOption, Training, length
from whispertide_lab.cli.train_fit import train_device

_ALIGNED = 0.3  # of the run, frames learn what is said in them


@guarded
@arguments.group_options
def latecontext(
    *,
    data: Annotated[
        list[Path],
        typer.Option("--data", metavar="FOLDER", help="Folders of shards with intents."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="A new folder for the network.")],
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Continue this network, with its shape, weights and vocabulary."),
    ] = None,
    kind: Annotated[
        Literal["late", "branchformer", "conformer", "rnnt"],
        typer.Option("--kind", metavar="NAME", help="late, or a rival to compare with: branchformer, conformer, rnnt."),
    ] = "late",
    convolving: Annotated[int, typer.Option("--convolving", min=0, help="Layers of convolution alone.")] = 6,
    attending: Annotated[int, typer.Option("--attending", min=1, help="Layers of attention after them.")] = 3,
    attending_inner: Annotated[
        int | None,
        typer.Option("--attending-inner", min=0, help="Inner width of these; 0: attention alone. Default: 4 widths."),
    ] = None,
    width: Annotated[int, typer.Option("--width", min=8, help="Width of a frame.")] = 160,
    rate: RateOption = 1.5e-3,
    training: Annotated[Training, {**length(20_000), **RUN}],
) -> ExitCode:
    """Train a network that recognises the intents of commands: convolutions first, attention at the end.

    `whispertide train commands` makes its data. Ctrl-C saves and stops. The same command continues.
    """
    where = train_device(training.device)
    from whispertide.understand.checkpoint import LateDims, load_late
    from whispertide_lab.new_folder import check_new
    from whispertide_lab.training.latecontext.folder import save_late
    from whispertide_lab.training.latecontext.run import LateOptions, open_trainer
    from whispertide_lab.training.shards import open_shards

    check_new(output, "for the network")
    known = None if start is None else load_late(start)
    new = LateDims(
        kind=kind,
        convolving=convolving,
        attending=attending,
        attending_inner=attending_inner,
        width=width,
        inner=4 * width,
    )
    dims, aligned = (new, _ALIGNED) if known is None else (known.dims, 0.0)
    options = LateOptions(dims=dims, rate=rate, seed=training.seed, aligned=aligned, **training.length)
    folder = training.run or Path(f"latecontext-{kind}-{training.seed}")
    trainer = open_trainer(open_shards(data), options, folder, where, known)
    return training.train(trainer, output, _told, save_late)


def _told(report: dict[str, Any]) -> str:
    said = f"{report['parameters']:,} weights; loss per token on held-out utterances {report['held_out']}"
    if not report["attention"]:
        return said
    shares = ", ".join(f"{share:.2f}" for share in report["attention"])
    return f"{said}\nhow much attention counts, layer by layer: {shares}"
