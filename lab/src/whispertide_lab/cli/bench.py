"""`whispertide bench`: measure recipes, models and other programs; compare, report, and redo the papers' figures.

Parsing and printing only; measuring is in `whispertide_lab.evaluation`, which is imported when a command runs.
"""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whispertide.atomic import writing
from whispertide.cli import arguments, completion
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.cli.misplaced import WithModelHints
from whispertide.errors import OptionError
from whispertide.extras import require
from whispertide_lab.cli.bench_options import (
    CORPORA_HELP,
    DEFAULT_CORPORA,
    DEFAULT_EXCERPT_S,
    DEFAULT_FOLDER,
    DEFAULT_MODELS,
    PIECES,
    AlignerOption,
    AlignOption,
    ClockOption,
    ExcerptOption,
    FolderOption,
    ModelsOption,
    PiecesOption,
    QuickOption,
    SeedOption,
    listed,
    measuring,
    names_in,
    numbers_in,
    write_page,
)
from whispertide_lab.cli.bench_paper import paper
from whispertide_lab.cli.completion import corpora as names_of_corpora

if TYPE_CHECKING:
    from whispertide_lab.evaluation.grid import CellRequest
    from whispertide_lab.evaluation.runner import Runner
    from whispertide_lab.evaluation.store import Cell

bench = typer.Typer(
    help="Measure latency, accuracy and cost. Compare runs, make reports, repeat the papers' figures.",
    no_args_is_help=True,
)
DEFAULT_RECIPES = "tide,whisper-streaming"


@bench.command(cls=WithModelHints)
@guarded
@arguments.group_options
def run(
    *,
    recipes: Annotated[
        str, listed("--recipes", "-r", "Recipes, separated by commas; none: only peers.", completion.recipes)
    ] = DEFAULT_RECIPES,
    models: ModelsOption = DEFAULT_MODELS,
    corpora: Annotated[
        str, listed("--corpora", "-c", f"{CORPORA_HELP}. Separated by commas.", names_of_corpora)
    ] = DEFAULT_CORPORA,
    steps: Annotated[
        str, typer.Option("--steps", "-s", metavar="S,S", help="Seconds between rounds. Default: each recipe's own.")
    ] = "",
    peers: Annotated[
        str,
        typer.Option(
            "--peers",
            metavar="A,B",
            help="Other programs, with their defaults and without fallback, or 'all'.",
        ),
    ] = "",
    settings: arguments.Changes = None,
    quick: QuickOption = False,
    excerpt: ExcerptOption = None,
    pieces: PiecesOption = PIECES,
    align: AlignOption = False,
    aligner: AlignerOption = "",
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Also show the causes of the delay: a table, and DIR/waits.png."),
    ] = False,
    clock: ClockOption = "simulated",
    output: FolderOption = DEFAULT_FOLDER,
    seed: SeedOption = 0,
    engine: arguments.Engine,
) -> ExitCode:
    """Measure every combination of recipes, models, corpora and steps. It prints a table, then one JSON line
    per cell.

    Without options: tide and the baseline whisper-streaming, on a quarter of an hour of synthetic talks.
    It checks everything first, then estimates the time. An interrupted run continues.
    """
    require("lab", "measuring")
    from whispertide_lab.evaluation.estimate import estimate
    from whispertide_lab.evaluation.grid import Setup, grid
    from whispertide_lab.evaluation.preparation import prepare

    requests = grid(
        names_in(recipes),
        names_in(models),
        names_in(corpora),
        numbers_in(steps),
        tuple(settings or ()),
        names_in(peers),
    )
    length_s = DEFAULT_EXCERPT_S if excerpt is None and not quick else excerpt
    setup = Setup(clock, quick, length_s, seed, engine, names_in(models), align or bool(aligner), aligner, pieces)
    with measuring(output, setup) as runner:
        able = prepare(runner, requests)
        if expected := str(estimate(runner, able)):
            say(expected)
        cells = _measure(runner, able)
    _print_cells(cells)
    if explain:
        _explain(cells, output / "waits")
    if not cells:
        raise OptionError("expected at least one cell that can be measured; got none: see above")
    return ExitCode.OK


@bench.command()
@guarded
def compare(
    a: Annotated[
        str | None,
        typer.Argument(
            metavar="[A]", help="A name from the table ('tide', 'tide 0.5 s base.en'), a cell, or a folder of results."
        ),
    ] = None,
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="The one to compare it with.")] = None,
    output: FolderOption = DEFAULT_FOLDER,
) -> ExitCode:
    """Compare two cells, or two folders cell by cell: paired by utterance, with bootstrap intervals over speakers.

    Without names it lists all cells.
    """
    require("lab", "measuring")
    from whispertide.tuning.page import text_table
    from whispertide_lab.evaluation.compare import compare, compare_all
    from whispertide_lab.evaluation.named import find, listing, pairs
    from whispertide_lab.evaluation.store import open_results

    if a is None:
        typer.echo(listing(open_results(output)))
        return ExitCode.OK
    if b is None:
        raise OptionError(f"expected two names; got {a!r} alone. There are:\n{listing(open_results(output))}")
    if Path(a).is_dir() and Path(b).is_dir():
        comparisons = compare_all(open_results(a), open_results(b))
    else:
        sides = [open_results(x) if Path(x).is_dir() else find(open_results(output), x) for x in (a, b)]
        comparisons = [compare(*pair) for pair in pairs(*sides)]
    for comparison in comparisons:
        first, second = comparison.names
        if len(comparisons) > 1:
            typer.echo(comparison.place)
        typer.echo(f"A: {first}\nB: {second}\n{text_table(comparison.table)}\n{comparison.verdict}\n")
    return ExitCode.OK


@bench.command()
@guarded
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of results.")] = DEFAULT_FOLDER,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    title: Annotated[str, typer.Option("--title", help="Its heading.")] = "whispertide benchmark",
) -> ExitCode:
    """Write an HTML page with plots and tables of everything in a folder of results."""
    require("lab", "measuring")
    from whispertide_lab.evaluation.report import build
    from whispertide_lab.evaluation.store import open_results

    write_page(output, build(open_results(folder), title))
    return ExitCode.OK


bench.command(cls=WithModelHints)(paper)


def _measure(runner: "Runner", requests: "list[CellRequest]") -> "list[Cell]":
    """All cells that can be measured. A peer that fails says why, and the others go on."""
    from whispertide_lab.evaluation.peer_cells import PeerMissing

    cells: list[Cell] = []
    for number, request in enumerate(requests, 1):
        try:
            cells.append(runner.run(request, place=f"{number}/{len(requests)}"))
        except PeerMissing as missing:
            say(f"{request.recogniser} cannot run: {missing}")
    return cells


def _print_cells(cells: "list[Cell]") -> None:
    from whispertide.tuning.page import text_table
    from whispertide_lab.evaluation.report import notes, summary_table

    if cells:
        typer.echo(text_table(summary_table(cells)))
    for line in notes(cells):
        say(line)
    for cell in cells:
        typer.echo(json.dumps(_finite({**cell.score, "cell": cell.key}), allow_nan=False))


def _explain(cells: "list[Cell]", stem: Path) -> None:
    """Where the wait comes from, as a table and as a plot."""
    from whispertide.tuning.page import text_table
    from whispertide_lab.evaluation.charts import waits_plot
    from whispertide_lab.evaluation.report import waits_table

    timed = [cell for cell in cells if cell.spec.streaming and cell.score.get("waits_s")]
    if not timed:
        say("--explain: no recipe found words with known times, and other programs do not say what their rounds hear")
        return
    typer.echo(text_table(waits_table(timed)))
    with writing(stem):
        waits_plot(timed).save(stem)
    say(f"wrote {stem}.png, .pdf and .csv")


def _finite(value: Any) -> Any:
    """JSON knows no infinity and nothing undefined; both become null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
