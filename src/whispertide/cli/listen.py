"""`whispertide listen`: live captions of a microphone."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.cli.arguments import (
    DEFAULT_MODEL,
    ExecutorOption,
    FormatOption,
    FramingOption,
    HushOption,
    LanguageOption,
    ModelChoice,
    ModelOption,
    PrecisionOption,
    PromptOption,
    ProviderOption,
    RecipeOption,
    RevisionOption,
    SetOption,
    StreamChoice,
    TaskOption,
    ThreadsOption,
    VadOption,
    decode_options,
    hush_word,
    recipe_changes,
)
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.cli.output import Target, plan_targets
from whispertide.options import DecodeOptions, EngineOptions

if TYPE_CHECKING:
    from whispertide.streaming.hush import HushWord
    from whispertide.streaming.recipe import Recipe

NAME = "microphone"


@dataclass(frozen=True, slots=True)
class Request:
    """What to listen with, and where the transcript goes."""

    device: str | None
    target: Target
    model: ModelChoice
    options: DecodeOptions
    recipe: "Recipe"
    vad: bool | None
    hush: "HushWord | None" = None


@guarded
def listen(
    model: ModelOption = DEFAULT_MODEL,
    device: Annotated[
        str | None, typer.Option("--device", "-d", help="Number, or part of the name. Default: the system's.")
    ] = None,
    show_devices: Annotated[bool, typer.Option("--list-devices", help="List the microphones and exit.")] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE|DIR/", help="Save the transcript to this file at the end."),
    ] = None,
    form: FormatOption = None,
    language: LanguageOption = None,
    task: TaskOption = "transcribe",
    prompt: PromptOption = "",
    recipe: RecipeOption = None,
    changes: SetOption = None,
    vad: VadOption = None,
    framing: FramingOption = None,
    hush: HushOption = None,
    executor: ExecutorOption = None,
    precision: PrecisionOption = "int8",
    provider: ProviderOption = "auto",
    threads: ThreadsOption = 0,
    revision: RevisionOption = None,
) -> ExitCode:
    """Transcribe the microphone live. Ctrl-C ends it, shows the last words and saves the transcript."""
    if show_devices:
        return list_devices()
    word, framed = hush_word(hush, framing)
    request = Request(
        device=device,
        target=plan_targets([NAME], output, form)[0],
        model=ModelChoice(model, revision, EngineOptions(precision, provider, threads)),
        options=decode_options(language, task, prompt),
        recipe=StreamChoice(recipe, recipe_changes(changes, framed, executor)).resolve(),
        vad=vad,
        hush=word,
    )
    return run(request)


def list_devices() -> ExitCode:
    """Print the microphones, the default one marked; it is a failure if there is none."""
    from whispertide.audio import mic

    devices = mic.list_devices()
    if not devices:
        say("no microphone found: plug one in, or allow access to it in the system's privacy settings")
        return ExitCode.AUDIO
    for found in devices:
        mark = "*" if found.is_default else " "
        typer.echo(f"{mark} {found.index:3d}  {found.name}  ({found.channels} channels, {found.sample_rate} Hz)")
    return ExitCode.OK


def run(request: Request) -> ExitCode:
    """Listen until Ctrl-C."""
    from whispertide.audio import mic
    from whispertide.cli.job import warn_of_synthetic
    from whispertide.cli.pump import Arrivals
    from whispertide.cli.stream import StreamJob

    with mic.microphone_blocks(request.device):
        pass  # no microphone: say so before a model is loaded, or even downloaded
    transcriber = request.model.load(request.hush)
    warn_of_synthetic(transcriber)
    transcriber.warm_up()
    say(f"{request.recipe.name} with {transcriber.name}: {transcriber.framed(request.recipe).why}")
    with mic.microphone_blocks(request.device) as blocks:
        say("listening; press Ctrl-C to end")
        arrivals = Arrivals(blocks)
        job = StreamJob(
            transcriber,
            request.recipe,
            request.options,
            request.target,
            live=True,
            source=NAME,
            vad=request.vad,
            rest=arrivals.rest,
        )
        return job.run(arrivals)[1]
