"""`whispertide train prepare`: a user's own recordings to train on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.plural import counted

if TYPE_CHECKING:
    from whispertide_lab.training.prepare import Prepared


@guarded
def prepare(
    manifest: Annotated[Path, typer.Argument(metavar="MANIFEST", help="A file of JSON lines (lab/docs/training.md).")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="A new folder for the shards.")],
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out lines that cannot be used.")] = False,
    jobs: arguments.Jobs = None,
) -> ExitCode:
    """Make a folder of shards from recordings and their transcripts, listed in a manifest.

    Each line of the manifest is {"audio": FILE, "text": TEXT}.
    "start", "end", "speaker" and "words" are optional.
    If lines are unusable, all of them are listed by number and nothing is written.
    An interrupted run continues.
    One sentence in ten is reserved for evaluation and left out.
    """
    made = prepared(manifest, output, skip_bad=skip_bad, jobs=jobs)
    for problem in made.left_out:
        say(f"left out: {problem}")
    say(
        f"{counted(made.utterances, 'utterance')}, {made.seconds / 3600:.2f} h; left out: {made.reserved} "
        f"reserved for tests, {len(made.left_out)} bad"
    )
    typer.echo(output)
    return ExitCode.OK


def prepared(manifest: Path, output: Path, *, skip_bad: bool = False, jobs: int | None = None) -> "Prepared":
    """The shards of a manifest, with a progress bar. Raises what `training.prepare.prepare` raises."""
    from whispertide.cli.progress import counting
    from whispertide.model.providers import usable_cpus
    from whispertide_lab.training.prepare import prepare as make

    with counting("lines") as advance:
        return make(manifest, output, skip_bad=skip_bad, workers=jobs or len(usable_cpus()), advance=advance)
