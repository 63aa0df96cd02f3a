"""`whispertide train card` and `train curve`: what a checkpoint can do, and what more training brought.

Parsing and printing only; measuring is in `whispertide.evaluation`, which is imported when a command runs.
"""

from pathlib import Path
from typing import Annotated

import typer

from whispertide.cli.arguments import ModelArgument, PrecisionOption, ProviderOption, ThreadsOption
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.errors import OptionError, OutputError
from whispertide.extras import require
from whispertide.options import EngineOptions

ManifestOption = Annotated[
    Path | None,
    typer.Option(
        "--manifest",
        metavar="PATH",
        help="Recordings of yours: a manifest as for `train prepare`; or a folder with a manifest.jsonl.",
    ),
]
QuickOption = Annotated[bool, typer.Option("--quick", help="A small part of everything: shows that it works.")]


def card(
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.md", help="The card; figures beside it.")],
    against: Annotated[
        str, typer.Option("--against", metavar="PREVIOUS", help="A checkpoint, or the JSON file of its card.")
    ] = "",
    manifest: ManifestOption = None,
    quick: QuickOption = False,
    seed: Annotated[int, typer.Option("--seed", help="Of the sentences and sounds that are made.")] = 0,
    precision: PrecisionOption = "int8",
    provider: ProviderOption = "auto",
    threads: ThreadsOption = 0,
) -> None:
    """Measure a checkpoint and write its model card: word errors in known and new voices, padded and unpadded, words
    invented on sounds without speech, errors of word times; with a previous checkpoint, what got better and what worse.
    An interrupted run goes on where it was.
    """

    def body() -> ExitCode:
        require("bench", "measuring")
        from whispertide.cli.progress import counting
        from whispertide.evaluation.card import CardOptions, make_card, previous_card, write_card

        if output.suffix != ".md":
            raise OutputError(f"expected a file that ends with .md; got {output}: the figures go beside it as .json")
        options = CardOptions(manifest, quick, seed, EngineOptions(precision, provider, threads), output, against)
        try:
            with counting("recognitions") as advance:
                made = make_card(model, options, announce=say, advance=advance)
                before = previous_card(against, model, options, announce=say, advance=advance) if against else None
        except KeyboardInterrupt:
            say("what is done is kept; the same command goes on from there")
            raise
        figures = write_card(made, output, before)
        say(f"wrote {output} and {figures}")
        return ExitCode.OK

    guarded(body)


def curve(
    cards: Annotated[list[Path], typer.Argument(metavar="CARD.json…", help="The JSON files of several cards.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.html", help="Draw it as well, on a page (needs matplotlib)."),
    ] = None,
) -> None:
    """A table of word errors against hours heard in training, from the cards of several checkpoints."""

    def body() -> ExitCode:
        from whispertide.evaluation.card_curve import curve_table, draw_curve, points
        from whispertide.evaluation.card_results import read_card
        from whispertide.evaluation.page import text_table
        from whispertide.evaluation.store import write_text

        found = points([read_card(path) for path in cards])
        if not found:
            raise OptionError("expected cards of checkpoints whose training.json says hours; none of these does")
        typer.echo(text_table(curve_table(found)))
        if output is not None:
            try:
                write_text(output, draw_curve(found))
            except OSError as error:
                raise OutputError(f"expected a file that can be written; got {error}: choose another") from error
            say(f"wrote {output}")
        return ExitCode.OK

    guarded(body)
