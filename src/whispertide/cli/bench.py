"""`whispertide bench`: measure recipes, models and other programs; compare, report, and redo the papers' figures.

Parsing and printing only; measuring is in `whispertide.lab.evaluation`, which is imported when a command runs.
"""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whispertide.cli import arguments, completion
from whispertide.cli.exit import ExitCode, code_for, combine, guarded, say, speaking_through, writing
from whispertide.cli.progress import above, counted_bar
from whispertide.errors import OptionError, WhispertideError
from whispertide.extras import require

if TYPE_CHECKING:
    from rich.progress import Progress

    from whispertide.lab.evaluation.grid import CellRequest, Setup
    from whispertide.lab.evaluation.paper import Item, Outcome, Paper
    from whispertide.lab.evaluation.runner import Runner
    from whispertide.lab.evaluation.store import Cell

bench = typer.Typer(
    help="Measure latency, accuracy and cost. Compare runs, make reports, repeat the papers' figures.",
    no_args_is_help=True,
)

DEFAULT_FOLDER = Path("bench-results")
DEFAULT_RECIPES = "tide,whisper-streaming"
DEFAULT_MODELS = "nano.en"
DEFAULT_CORPORA = "talks"
DEFAULT_EXCERPT_S = 900.0
PAPER_EXCERPT_S = 120.0  # so that an item takes minutes
PIECES = 16
ALL = "all"


def _excerpt(text: str) -> float:
    """Seconds, or infinity for "all"."""
    try:
        length_s = math.inf if text == ALL else float(text)
    except ValueError:
        length_s = math.nan
    if not length_s > 0:
        raise typer.BadParameter(f"expected more than 0 s, for example 900, or {ALL!r}; got {text!r}")
    return length_s


def _listed(flag: str, short: str, what: str, names: completion.Complete) -> Any:
    """An option that takes several names."""
    return typer.Option(flag, short, metavar="A,B", help=what, autocompletion=completion.listed(names))


ModelsOption = Annotated[str, _listed("--models", "-m", "Models, separated by commas.", completion.models)]
QuickOption = Annotated[
    bool,
    typer.Option(
        "--quick", help="Only a small part of each corpus, within two minutes. It shows that everything works."
    ),
]
ClockOption = Annotated[
    str,
    typer.Option(
        "--clock",
        metavar="NAME",
        help="simulated (computing takes its measured time), free (it takes none) or live (real time).",
    ),
]
FolderOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Where results are kept. An interrupted run continues.")
]
ExcerptOption = Annotated[
    float | None,
    typer.Option(
        "--excerpt",
        metavar="S",
        parser=_excerpt,
        help=f"Only S seconds of each corpus, in as many voices as fit, or {ALL}. bench run: "
        f"{DEFAULT_EXCERPT_S:g}, bench paper: {PAPER_EXCERPT_S:g}, or as many clips as the paper has; with --quick 60. "
        "Live programs: at most 900.",
    ),
]
CORPORA_HELP = (
    "talks, rooms, noisy, nonspeech (made here), manifest:FILE (your own recordings: "
    "docs/guides/compare-your-own-audio.md), or librispeech:, tedlium:, meanwhile:, timit:, fleurs:, commands: (of "
    "`train commands`) with a folder"
)
PiecesOption = Annotated[
    int,
    typer.Option("--pieces", min=1, metavar="N", help="In how many pieces an excerpt is cut. 1: one long recording."),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Of corpora that are made on the spot.")]


@bench.command()
@guarded
@arguments.grouped
def run(
    *,
    recipes: Annotated[
        str, _listed("--recipes", "-r", "Recipes, separated by commas; none: only peers.", completion.recipes)
    ] = DEFAULT_RECIPES,
    models: ModelsOption = DEFAULT_MODELS,
    corpora: Annotated[
        str, _listed("--corpora", "-c", f"{CORPORA_HELP}. Separated by commas.", completion.corpora)
    ] = DEFAULT_CORPORA,
    steps: Annotated[
        str, typer.Option("--steps", "-s", metavar="S,S", help="Seconds between rounds. Default: each recipe's own.")
    ] = "",
    peers: Annotated[
        str,
        typer.Option(
            "--peers",
            metavar="A,B",
            help="Other programs, at their defaults and without fallback. 'all' for all of them.",
        ),
    ] = "",
    settings: arguments.Changes = None,
    quick: QuickOption = False,
    excerpt: ExcerptOption = None,
    pieces: PiecesOption = PIECES,
    align: Annotated[
        bool,
        typer.Option("--align", help="Word times by forced alignment where nobody knows exact ones; they are marked."),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Also say where the wait of words comes from: a table, and DIR/waits.png."),
    ] = False,
    clock: ClockOption = "simulated",
    output: FolderOption = DEFAULT_FOLDER,
    seed: SeedOption = 0,
    engine: arguments.Engine,
) -> ExitCode:
    """Measure every combination of recipes, models, corpora and steps. It prints a table, then one JSON line
    per cell.

    Without options: tide and the baseline whisper-streaming, on a quarter of an hour of synthetic talks.
    What cannot be measured is said first, then about how long it takes. An interrupted run goes on where it was.
    """
    require("bench", "measuring")
    from whispertide.lab.evaluation.estimate import estimate
    from whispertide.lab.evaluation.grid import Setup, grid
    from whispertide.lab.evaluation.preparation import prepare

    requests = grid(
        _names(recipes), _names(models), _names(corpora), _numbers(steps), tuple(settings or ()), _names(peers)
    )
    length_s = DEFAULT_EXCERPT_S if excerpt is None and not quick else excerpt
    with _runner(output, Setup(clock, quick, length_s, seed, engine, _names(models), align, pieces)) as runner:
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
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="What is compared with it.")] = None,
    output: FolderOption = DEFAULT_FOLDER,
) -> ExitCode:
    """Compare two cells, or two folders cell by cell: paired by utterance, with bootstrap intervals.

    Without names it lists what there is.
    """
    require("bench", "measuring")
    from whispertide.lab.evaluation.compare import compare, compare_all
    from whispertide.lab.evaluation.named import find, listing, pairs
    from whispertide.lab.evaluation.page import text_table
    from whispertide.lab.evaluation.store import open_results

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
    require("bench", "measuring")
    from whispertide.lab.evaluation.report import build
    from whispertide.lab.evaluation.store import open_results

    _write_page(output, build(open_results(folder), title))
    return ExitCode.OK


@bench.command()
@guarded
@arguments.grouped
def paper(
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="whisperflow, npusper, whisperkit, whisperrt, pilot, or all.")
    ],
    items: Annotated[
        str, typer.Option("--items", metavar="A,B", help="Some of them: 'table 1,figure 11'. Default: all.")
    ] = "",
    models: ModelsOption = DEFAULT_MODELS,
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus",
            "-c",
            metavar="NAME",
            help=f"{CORPORA_HELP}. Default: talks, and noisy for what is about inventions.",
            autocompletion=completion.corpora,
        ),
    ] = None,
    quick: QuickOption = False,
    excerpt: ExcerptOption = None,
    pieces: PiecesOption = PIECES,
    clock: ClockOption = "simulated",
    output: FolderOption = DEFAULT_FOLDER,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="The page. Default: DIR/paper-NAME.html.")
    ] = None,
    seed: SeedOption = 0,
    engine: arguments.Engine,
) -> ExitCode:
    """Repeat the tables and figures of a paper, or of all, where that is possible. For the others say what is missing.

    An item that fails says why, and the others go on.
    """
    require("bench", "measuring")
    from whispertide.lab.evaluation import paper as papers
    from whispertide.lab.evaluation.grid import Setup
    from whispertide.lab.evaluation.paper_page import build

    wanted = papers.choose(name, _names(items))
    setup = Setup(clock, quick, excerpt, seed, engine, _names(models), pieces=pieces, usual_s=PAPER_EXCERPT_S)
    outcomes: dict[tuple[str, str], papers.Outcome] = {}
    codes: list[ExitCode] = []
    with _runner(output, setup) as runner:
        runner.use_corpus(corpus or _usual_corpus(wanted))
        about = runner.about()
        for one in wanted:
            for item in one.items:
                if measure := item.function():
                    try:
                        with runner.on_corpus(corpus or item.corpus):
                            outcome = measure(runner)
                    except WhispertideError as error:
                        codes.append(code_for(error))
                        outcome = papers.Outcome(note=f"not measured: {error}")
                    outcomes[one.name, item.id] = outcome
                _print_item(one.name if len(wanted) > 1 else "", item, outcomes.get((one.name, item.id)))
    _write_page(page or output / f"paper-{name}.html", build(wanted, outcomes, about))
    return combine(codes)


def _usual_corpus(wanted: "Sequence[Paper]") -> str:
    """The one that all items are made on, if there is one."""
    names = {item.corpus for one in wanted for item in one.items if item.measure}
    return names.pop() if len(names) == 1 else DEFAULT_CORPORA


def _print_item(paper: str, item: "Item", outcome: "Outcome | None") -> None:
    from whispertide.lab.evaluation.page import text_table
    from whispertide.lab.evaluation.paper import missing_line

    name = f"{paper}, " if paper else ""
    if outcome is not None:
        typer.echo(f"{name}{item.id}: {item.title}")
        for line in (outcome.note, *(text_table(table) for table in outcome.tables)):
            if line:
                typer.echo(line)
    if line := missing_line(item):
        typer.echo(f"{name}{line}")


def _measure(runner: "Runner", requests: "list[CellRequest]") -> "list[Cell]":
    """All cells that can be measured. A peer that fails says why, and the others go on."""
    from whispertide.lab.evaluation.peer_cells import PeerMissing

    cells: list[Cell] = []
    for number, request in enumerate(requests, 1):
        try:
            cells.append(runner.run(request, place=f"{number}/{len(requests)}"))
        except PeerMissing as missing:
            say(f"{request.recogniser} cannot run: {missing}")
    return cells


def _print_cells(cells: "list[Cell]") -> None:
    from whispertide.lab.evaluation.page import text_table
    from whispertide.lab.evaluation.report import notes, summary_table

    if cells:
        typer.echo(text_table(summary_table(cells)))
    for line in notes(cells):
        say(line)
    for cell in cells:
        typer.echo(json.dumps(_finite({**cell.score, "cell": cell.key}), allow_nan=False))


def _explain(cells: "list[Cell]", stem: Path) -> None:
    """Where the wait comes from, as a table and as a plot."""
    from whispertide.lab.evaluation.charts import waits_plot
    from whispertide.lab.evaluation.page import text_table
    from whispertide.lab.evaluation.report import waits_table

    timed = [cell for cell in cells if cell.spec.streaming and cell.score.get("waits_s")]
    if not timed:
        say("--explain: no live recogniser heard words whose times are known")
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


@contextmanager
def _runner(folder: Path, setup: "Setup") -> "Iterator[Runner]":
    """A runner with a progress bar on standard error."""
    from rich.console import Console

    from whispertide.lab.evaluation.runner import Runner, Watch

    console = Console(stderr=True)

    class Bar(Watch):
        """The runner's view of the progress bar, which is there only while a cell is being measured."""

        progress: "Progress | None" = None

        def begin(self, label: str, total_s: float) -> None:
            """Show a new bar."""
            self.progress = counted_bar("s of audio", console)
            self.progress.add_task(label, total=total_s)
            if console.is_terminal:
                self.progress.start()
            else:
                say(label)

        def advance(self, done_s: float) -> None:
            """Move it."""
            if self.progress is not None:
                self.progress.advance(self.progress.task_ids[0], done_s)

        def end(self) -> None:
            """Take it away."""
            if self.progress is not None and console.is_terminal:
                self.progress.stop()

        def say(self, message: str) -> None:
            """A line above it."""
            say(message)

    with speaking_through(above(console)):
        try:
            yield Runner(folder, setup, Bar())
        except KeyboardInterrupt:
            say(f"finished utterances are kept in {folder}; the same command continues from there")
            raise


def _write_page(path: Path, text: str) -> None:
    from whispertide.atomic import write_text

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    say(f"wrote {path}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in _names(text))
    except ValueError:
        raise OptionError(f"expected seconds separated by commas, for example 0.5,1,2; got {text!r}") from None
