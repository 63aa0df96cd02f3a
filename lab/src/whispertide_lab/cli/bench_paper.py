"""`whispertide bench paper`: the tables and figures of a paper once more, and what is missing for the others."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.cli import arguments, completion
from whispertide.cli.exit import ExitCode, code_for, combine, guarded
from whispertide.errors import WhispertideError
from whispertide.extras import require
from whispertide_lab.cli.bench_options import (
    CORPORA_HELP,
    DEFAULT_CORPORA,
    DEFAULT_FOLDER,
    PAPER_EXCERPT_S,
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
    measuring,
    names_in,
    wanted_in,
    write_page,
)
from whispertide_lab.cli.completion import corpora

USUAL_MODEL = "tiny.en"  # real: what a paper says of Whisper is no matter of a checkpoint of our own

if TYPE_CHECKING:
    from whispertide_lab.evaluation.paper import Item, Outcome, Paper
    from whispertide_lab.evaluation.runner import Runner


@guarded
@arguments.group_options
def paper(
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="whisperflow, npusper, whisperkit, whisperrt, pilot, or all.")
    ],
    items: Annotated[
        str, typer.Option("--items", metavar="A,B", help="Some of them: 'table 1,figure 11'. Default: all.")
    ] = "",
    models: ModelsOption = USUAL_MODEL,
    corpora: Annotated[
        str,
        typer.Option(
            "--corpus",
            "-c",
            metavar="A,B",
            help=f"{CORPORA_HELP}. Default: talks, or noisy for items on invented words; two if the paper has "
            "two corpora.",
            autocompletion=completion.complete_last(corpora),
        ),
    ] = "",
    quick: QuickOption = False,
    excerpt: ExcerptOption = None,
    pieces: PiecesOption = PIECES,
    align: AlignOption = False,
    aligner: AlignerOption = "",
    hush: Annotated[
        str,
        typer.Option(
            "--hush",
            metavar="FILE,FILE",
            help="Hush words (.npz, .csv) in place of those next to the checkpoint: all for WhisperFlow's table 1, "
            "figure 11 and text, the first for recipes.",
        ),
    ] = "",
    clock: ClockOption = "simulated",
    output: FolderOption = DEFAULT_FOLDER,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="The page. Default: DIR/paper-NAME.html.")
    ] = None,
    seed: SeedOption = 0,
    engine: arguments.Engine,
) -> ExitCode:
    """Repeat the tables and figures of a paper, or of all, and list the missing parts of the others.

    `whispertide models pull tiny.en` downloads the default model. Most of the papers use base (`--models base`). If
    an item fails, the reason is shown, and the others are made.
    """
    require("lab", "measuring")
    from whispertide.checkpoint.names import find_model
    from whispertide.methods.short.hush import HushWord
    from whispertide.understand.checkpoint import is_late
    from whispertide_lab.evaluation import papers
    from whispertide_lab.evaluation.grid import Setup
    from whispertide_lab.evaluation.paper import joined
    from whispertide_lab.evaluation.paper_page import build

    wanted = papers.choose(name, wanted_in(items))
    for model in names_in(models):  # some items use only the first
        if not is_late(Path(model)):
            find_model(model)
    setup = Setup(
        *(clock, quick, excerpt, seed, engine, names_in(models), align or bool(aligner), aligner, pieces),
        usual_s=PAPER_EXCERPT_S,
        hush=tuple(HushWord.load(Path(file)) for file in names_in(hush)),
    )
    outcomes: dict[tuple[str, str], Outcome] = {}
    codes: list[ExitCode] = []
    with measuring(output, setup) as runner:
        asked = wanted_in(corpora)
        runner.use_corpus(asked[0] if asked else _usual_corpus(wanted))
        about = runner.about()
        for one in wanted:
            for item in one.items:
                if measure := item.function():
                    made = {corpus: _on(runner, corpus, item, measure, codes) for corpus in asked or item.corpora}
                    outcomes[one.name, item.id] = joined(made)
                _print_item(one.name if len(wanted) > 1 else "", item, outcomes.get((one.name, item.id)))
    write_page(page or output / f"paper-{name}.html", build(wanted, outcomes, about))
    return combine(codes)


def _usual_corpus(wanted: "Sequence[Paper]") -> str:
    """The first of those that all items are made on, if these are the same."""
    names = {item.corpora for one in wanted for item in one.items if item.measure}
    return names.pop()[0] if len(names) == 1 else DEFAULT_CORPORA


def _on(
    runner: "Runner", corpus: str, item: "Item", measure: "Callable[[Runner], Outcome]", codes: list[ExitCode]
) -> "Outcome":
    """What an item comes to on a corpus; if it fails, why, and the exit code is noted."""
    from whispertide_lab.evaluation.paper import Outcome

    try:
        with runner.on_corpus(corpus, item.usual_s), runner.timed_fairly() if item.timed else nullcontext():
            return measure(runner)
    except WhispertideError as error:
        codes.append(code_for(error))
        return Outcome(note=f"not measured: {error}")


def _print_item(paper: str, item: "Item", outcome: "Outcome | None") -> None:
    from whispertide.tuning.page import text_table
    from whispertide_lab.evaluation.paper import missing_line

    name = f"{paper}, " if paper else ""
    if outcome is not None:
        typer.echo(f"{name}{item.id}: {item.title}")
        for line in (outcome.note, *(text_table(table) for table in outcome.tables)):
            if line:
                typer.echo(line)
    if line := missing_line(item):
        typer.echo(f"{name}{line}")
