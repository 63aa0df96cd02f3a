"""`whispertide transcribe`: files, or standard input, to transcripts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
from whispertide.cli.exit import ExitCode, combine, guarded, report, say
from whispertide.cli.folder import with_folders_opened
from whispertide.cli.output import STDIN, Target, plan_targets
from whispertide.cli.source import PcmFormat, Source
from whispertide.errors import AudioError, OptionError
from whispertide.options import DecodeOptions, EngineOptions

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.streaming.hush import HushWord
    from whispertide.streaming.recipe import Recipe

Pace = Literal["max", "live"]
SampleFormat = Literal["u8", "s16le", "s32le", "f32le"]

_INPUT = "Raw PCM on standard input"


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be transcribed, how, and where to. `recipe` None: offline, with windows framed as `framing` says."""

    sources: tuple[Source, ...]
    targets: tuple[Target, ...]
    model: ModelChoice
    options: DecodeOptions
    recipe: "Recipe | None"
    vad: bool | None
    live: bool
    framing: str = "pad30"
    hush: "HushWord | None" = None


@guarded
def transcribe(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR",
            help="Audio or video files of any kind; a folder: those in it, not deeper; -: standard input.",
        ),
    ],
    model: ModelOption = DEFAULT_MODEL,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE|DIR/", help="Default: standard output. Several files need a folder."
        ),
    ] = None,
    form: FormatOption = None,
    language: LanguageOption = None,
    task: TaskOption = "transcribe",
    prompt: PromptOption = "",
    recipe: RecipeOption = None,
    changes: SetOption = None,
    pace: Annotated[
        Pace | None,
        typer.Option(
            "--pace",
            help="max (default): as fast as it goes; live: at the speed of speech.",
            rich_help_panel="Streaming",
        ),
    ] = None,
    vad: VadOption = None,
    framing: FramingOption = None,
    hush: HushOption = None,
    executor: ExecutorOption = None,
    precision: PrecisionOption = "int8",
    provider: ProviderOption = "auto",
    threads: ThreadsOption = 0,
    revision: RevisionOption = None,
    rate: Annotated[
        int | None,
        typer.Option("--rate", min=1, help="Samples per second. Without it - is a file.", rich_help_panel=_INPUT),
    ] = None,
    channels: Annotated[int, typer.Option("--channels", min=1, rich_help_panel=_INPUT)] = 1,
    sample_format: Annotated[SampleFormat, typer.Option("--sample-format", rich_help_panel=_INPUT)] = "s16le",
) -> ExitCode:
    """Transcribe audio files, each as a whole. Only the transcript goes to standard output; the rest to standard error.

    With --recipe, --set, --pace, --vad or --executor the audio is streamed instead, as from a microphone.
    """
    pcm = None if rate is None else PcmFormat(rate, channels, sample_format)
    names = with_folders_opened(files)
    # A folder gives a folder, also where it holds one recording, or is yet to be made.
    folder = output if output is None or names == files or Path(output).suffix else f"{output}/"
    _check_usage(names, pcm)
    streams = any(choice is not None for choice in (recipe, changes, pace, vad, executor))
    word, framed = hush_word(hush, framing)
    request = Request(
        sources=tuple(Source(name, pcm) for name in names),
        targets=tuple(plan_targets(names, folder, form)),
        model=ModelChoice(model, revision, EngineOptions(precision, provider, threads)),
        options=decode_options(language, task, prompt),
        recipe=StreamChoice(recipe, recipe_changes(changes, framed, executor)).resolve() if streams else None,
        vad=vad,
        live=pace == "live",
        framing="hush" if word else framing or "pad30",
        hush=word,
    )
    return run(request)


def _check_usage(files: Sequence[str], pcm: PcmFormat | None) -> None:
    if "" in files:
        raise OptionError("expected the name of a file, a folder, or - for standard input; got an empty one")
    if pcm is not None and STDIN not in files:
        raise OptionError("--rate describes raw audio on standard input; add - to the files, or leave out --rate")
    if files.count(STDIN) > 1:
        raise OptionError("standard input can be read once; expected one - among the files")


def run(request: Request) -> ExitCode:
    """Do it; what cannot be used is reported, and the other files are still transcribed."""
    codes: dict[int, ExitCode] = {}
    durations: dict[int, float | None] = {}
    for number, source in enumerate(request.sources):  # before a model is loaded, or even downloaded
        try:
            durations[number] = source.probe()
        except AudioError as error:
            codes[number] = report(error)
    if not durations:
        return _told(request.sources, codes)
    transcriber = request.model.load(request.hush)
    from whispertide.cli.job import warn_of_synthetic

    warn_of_synthetic(transcriber, [source.name for source in request.sources])
    for number, duration_s in durations.items():
        codes[number] = _run_one(request, transcriber, number, duration_s)
        if codes[number] is ExitCode.INTERRUPTED:
            break
    return _told(request.sources, codes)


def _told(sources: Sequence[Source], codes: dict[int, ExitCode]) -> ExitCode:
    """One code for all; of several inputs, those that came to nothing are named once more at the end."""
    fine = (ExitCode.OK, ExitCode.TRUNCATED, ExitCode.INTERRUPTED)
    bad = [sources[number].label for number in sorted(codes) if codes[number] not in fine]
    if bad and len(sources) > 1:
        say(f"{len(bad)} of {len(sources)} inputs could not be transcribed: {', '.join(bad)}")
    return combine([codes[number] for number in sorted(codes)])


def _run_one(request: Request, transcriber: "Transcriber", number: int, duration_s: float | None) -> ExitCode:
    from whispertide.cli.offline import OfflineJob
    from whispertide.cli.pump import Arrivals, at_full_speed, at_live_pace
    from whispertide.cli.stream import StreamJob
    from whispertide.types import to_samples

    source, target, count = request.sources[number], request.targets[number], len(request.sources)
    place = f"{number + 1}/{count} " if count > 1 else ""
    try:
        if request.recipe is None:
            job = OfflineJob(transcriber, request.options, target, source.label, duration_s, request.framing, place)
            return job.run(source.blocks())[1]
        blocks = source.blocks()
        if not request.live:
            blocks = at_full_speed(blocks, to_samples(request.recipe.schedule.step_s))
        else:
            blocks = iter(Arrivals(blocks)) if source.is_pipe else at_live_pace(blocks)
        stream = StreamJob(
            transcriber,
            request.recipe,
            request.options,
            target,
            live=request.live,
            source=source.label,
            vad=request.vad,
            duration_s=duration_s,
            place=place,
        )
        return stream.run(blocks)[1]
    except AudioError as error:
        return report(error, about=source.label)
