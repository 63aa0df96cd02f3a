"""`whispertide train steadiness`: the rule that says which heard words will stay, fitted to models."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.atomic import writing
from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.cli.output import check_file
from whispertide.extras import require

if TYPE_CHECKING:
    from whispertide.types import FloatArray


@guarded
def steadiness(
    models: arguments.ModelsArgument,
    audio: Annotated[
        list[Path] | None,
        typer.Option("--audio", metavar="FILE", help="Recordings, no text needed. Default: short synthetic talks."),
    ] = None,
    recipe: Annotated[str, typer.Option("--recipe", help="A recipe whose policy is tide.")] = "tide",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Save the rule as JSON.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Plot predicted against observed probabilities (png).")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", help="Seed of the synthetic talks. The default is reserved for fitting: report on others."
        ),
    ] = 909,
) -> ExitCode:
    """Fit the rule by which `tide` predicts which words will stay.

    It needs no text: streams are recorded, and their hypotheses compared with the final text. With several models one
    rule is fitted for all. All figures are from recordings, or voices, that the rule was not fitted on. The rule is
    printed last; use it with --set rule="...".
    """
    from whispertide.tuning.drawing import check_picture

    for path in filter(None, (output, plot)):
        check_file(path)
    if plot is not None:
        check_picture(plot)
    if not audio:
        require("lab", "measuring")
    from whispertide import api
    from whispertide.audio.file import load_audio
    from whispertide.cli.progress import counting
    from whispertide.recipes.catalogue import get_recipe
    from whispertide.tuning import steadiness as fitting
    from whispertide_lab.training import steadiness_report

    transcribers = [api.load(model, announce=say) for model in models]
    framed = [transcriber.framed(get_recipe(recipe)) for transcriber in transcribers]
    for model, one in zip(models, framed, strict=True):
        say(f"{model}: {one.why}")
    streams: list[tuple[str, Callable[[], FloatArray]]]
    if audio:
        streams = [(file.name, partial(load_audio, file)) for file in audio]
    else:
        from whispertide_lab.training.many_voices import many_voices

        streams = many_voices(seed)
    examples: list[fitting.Examples] = []
    with counting("recordings") as advance:
        for number, (voice, load) in enumerate(streams):
            advance(voice, number, len(streams))
            turn, which = divmod(number, len(models))
            heard_as = fitting.at_pace(framed[which].recipe, turn)
            examples.append(fitting.record_stream(transcribers[which], heard_as, load(), voice=voice))
    rule = fitting.fit_rule(examples)
    chances, stayed = fitting.held_out(examples)
    say(steadiness_report.report(chances, stayed))
    if output is not None:
        with writing(output):
            steadiness_report.save(rule, chances, stayed, output)
    if plot is not None:
        with writing(plot):
            steadiness_report.draw(chances, stayed, plot)
    typer.echo(rule.text())
    return ExitCode.OK
