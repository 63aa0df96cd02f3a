"""`whispertide train speech`: synthetic speech to train on."""

from pathlib import Path
from typing import Annotated

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say


@guarded
def speech(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="A new folder, or one to continue.")],
    hours: Annotated[float, typer.Option("--hours", min=0.01, help="Hours in all, made in shards of 15 minutes.")],
    seed: Annotated[int, typer.Option("--seed", help="Seed of sentences, voices and speaking styles.")] = 0,
    voices: Annotated[
        str, typer.Option("--voices", metavar="NAME,...", help="Such as flite or espeak-ng:en-us. Default: all.")
    ] = "",
    vocabulary: Annotated[
        int | None,
        typer.Option("--vocabulary", metavar="N", min=1, help="Only the texts' N most frequent words. Default: all."),
    ] = None,
    sentences: Annotated[
        Path | None,
        typer.Option(
            "--sentences",
            metavar="FILE",
            help="Sentences, one a line, in place of the texts of Debian packages. About one in ten is reserved for "
            "tests.",
        ),
    ] = None,
    jobs: arguments.Jobs = None,
) -> ExitCode:
    """Make speech with exact word times by espeak-ng, flite and festival.

    Half of the texts come from Debian packages, or from --sentences.
    After Ctrl-C complete shards remain, and the same command continues.
    A larger --hours adds more.
    """
    from whispertide.cli.progress import counting
    from whispertide.model.providers import usable_cpus
    from whispertide_lab.speech.manners import choose_voices
    from whispertide_lab.training.making import Recipe, make_speech

    asked = [name.strip() for name in voices.split(",") if name.strip()]
    recipe = Recipe(seed=seed, voices=choose_voices(asked), vocabulary=vocabulary)
    with counting("shards") as advance:
        made = make_speech(
            output, recipe, hours, jobs or len(usable_cpus()), advance=advance, announce=say, sentences=sentences
        )
    say(str(made) if made.shards else f"{output} has {hours:g} hours already")
    typer.echo(output)
    return ExitCode.OK
