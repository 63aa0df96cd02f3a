"""`whispertide train commands`: spoken commands with what is wanted, by synthesizers."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded


@guarded
def commands(
    listed: Annotated[
        Path, typer.Argument(metavar="LIST", help='JSON lines with "sentence" and "intent", as in SLURP.')
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="A new folder, or one to continue.")],
    voices: Annotated[
        Literal["trained", "held-out"],
        typer.Option("--voices", metavar="NAME", help="Those to train with, or those held out for tests."),
    ] = "trained",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the voices.")] = 0,
    jobs: arguments.Jobs = None,
) -> ExitCode:
    """Synthesize every command of a list once, with exact word times, to train `latecontext`.

    After Ctrl-C whole shards remain. The same command continues.
    """
    from whispertide.cli.progress import counting
    from whispertide.model.providers import usable_cpus
    from whispertide_lab.training.commands import make_commands

    with counting("shards") as advance:
        make_commands(
            listed,
            output,
            seed=seed,
            voices=voices,
            jobs=jobs or len(usable_cpus()),
            progress=lambda done, count: advance("saying commands", done, count),
        )
    typer.echo(output)
    return ExitCode.OK
