"""`whispertide train heads`: the alignment heads of a checkpoint. Parsing and printing only."""

from typing import Annotated

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say


@guarded
def heads(
    model: arguments.ModelArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the scores; write nothing.")] = False,
) -> ExitCode:
    """Choose the attention heads for word times, by the exact word times of synthetic speech.

    They are written into the checkpoint's generation_config.json, unless they are worse than its present ones.
    flite's voices are used if flite is installed.
    """
    from whispertide.tuning.page import Table, text_table
    from whispertide_lab.training import heads as choosing

    folder = None if dry_run else choosing.own_folder(model)
    windows = choosing.timed_windows()
    choice = choosing.choose_heads(choosing.load_for_heads(model, announce=say), windows)
    columns = ("layer", "head", "score ms", "median ms", "p90 ms", "")
    typer.echo(text_table(Table(columns, tuple(choosing.table_rows(choice)))))
    for title, pairs, found in (
        ("used so far", choice.previous, choice.before),
        ("chosen", choice.heads, choice.after),
    ):
        named = " ".join(f"{layer}.{head}" for layer, head in pairs)
        typer.echo(f"{title}: {named}: score {found.score:.0f} ms, median {found.median:.0f}, p90 {found.p90:.0f}")
    if folder is None:
        return ExitCode.OK
    if not choice.is_better:
        say("on held-out sentences the chosen heads are worse than the present ones; nothing was written")
        return ExitCode.OK
    choosing.write_heads(folder, choice.heads)
    say(f"wrote the alignment heads into {folder / choosing.GENERATION}")
    return ExitCode.OK
