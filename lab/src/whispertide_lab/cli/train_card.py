"""`whispertide train card` and `train curve`: what a checkpoint can do, and what more training brought.

Parsing and printing only; measuring is in `whispertide_lab.evaluation`, which is imported when a command runs.
"""

from pathlib import Path
from typing import Annotated

import typer

from whispertide.atomic import writing
from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.errors import OptionError
from whispertide.extras import require

ManifestOption = Annotated[
    Path | None,
    typer.Option(
        "--manifest",
        metavar="PATH",
        help="As for `train prepare`: a manifest of your recordings, or a folder with one.",
    ),
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Only a small part of everything, as a test run.")]


@guarded
@arguments.group_options
def card(
    *,
    model: arguments.ModelArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.md", help="The card. Its figures go next to it.")
    ],
    against: Annotated[
        str, typer.Option("--against", metavar="PREVIOUS", help="A checkpoint, or the JSON file of its card.")
    ] = "",
    manifest: ManifestOption = None,
    quick: QuickOption = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed for the generated sentences and sounds.")] = 0,
    engine: arguments.Engine,
) -> ExitCode:
    """Measure a checkpoint and write its model card.

    The card shows word errors in known and new voices, padded and unpadded.
    It shows words invented in audio without speech, and errors of word times.
    With --against it also shows the differences from another checkpoint.
    An interrupted run continues.
    """
    require("lab", "measuring")
    from whispertide.cli.progress import counting
    from whispertide_lab.evaluation.card.make import CardOptions, check_asked, make_card, previous_card, write_card

    if output.suffix != ".md":
        raise OptionError(f"expected a file that ends with .md; got {output}. The figures go next to it as .json")
    check_asked(output, against)
    options = CardOptions(manifest, quick, seed, engine, output, against)
    try:
        with counting("recognitions") as advance:
            made = make_card(model, options, announce=say, advance=advance)
            before = previous_card(against, model, options, announce=say, advance=advance) if against else None
    except KeyboardInterrupt:
        say("finished parts are kept; the same command continues from there")
        raise
    figures = write_card(made, output, before)
    say(f"wrote {output} and {figures}")
    return ExitCode.OK


@guarded
def curve(
    cards: Annotated[list[Path], typer.Argument(metavar="CARD.json...", help="The JSON files of several cards.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.html", help="Also draw it, on a page (needs matplotlib)."),
    ] = None,
) -> ExitCode:
    """Print word errors against hours of training, from the cards of several checkpoints."""
    from whispertide.atomic import write_text
    from whispertide.tuning.page import text_table
    from whispertide_lab.evaluation.card.curve import curve_table, draw_curve, points
    from whispertide_lab.evaluation.card.results import read_card

    found = points([read_card(path) for path in cards])
    if not found:
        raise OptionError("expected cards of checkpoints with hours in their training.json; none of these has them")
    typer.echo(text_table(curve_table(found)))
    if output is not None:
        with writing(output):
            write_text(output, draw_curve(found))
        say(f"wrote {output}")
    return ExitCode.OK
