"""`whispertide train speech`: synthetic speech to train on."""

from pathlib import Path
from typing import Annotated

import typer

from whispertide.cli.exit import ExitCode, guarded, say


def speech(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="New, or one to be continued.")],
    hours: Annotated[float, typer.Option("--hours", min=0.01, help="In all; whole shards of 15 minutes are made.")],
    seed: Annotated[int, typer.Option("--seed", help="Of sentences, voices and manners.")] = 0,
    voices: Annotated[
        str, typer.Option("--voices", metavar="NAME,...", help="Like flite or espeak-ng:en-us; default: all.")
    ] = "",
    vocabulary: Annotated[
        int | None,
        typer.Option("--vocabulary", metavar="N", min=1, help="Only the texts' N most frequent words; default: all."),
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; default: one a core.")] = None,
) -> None:
    """Speech by espeak-ng, flite and festival with exact word times, from texts that Debian packages bring.

    Ctrl-C leaves whole shards; the same command goes on from there, and more hours add to them.
    """

    def body() -> ExitCode:
        from whispertide.cli.progress import counting
        from whispertide.model.runtime import usable_cpus
        from whispertide.training.speech.making import Recipe, make_speech
        from whispertide.training.speech.voices import choose_voices

        asked = [name.strip() for name in voices.split(",") if name.strip()]
        recipe = Recipe(seed=seed, voices=choose_voices(asked), vocabulary=vocabulary)
        with counting("shards") as advance:
            made = make_speech(output, recipe, hours, jobs or len(usable_cpus()), advance=advance, announce=say)
        say(str(made) if made.shards else f"{output} has {hours:g} hours already")
        typer.echo(output)
        return ExitCode.OK

    guarded(body)
