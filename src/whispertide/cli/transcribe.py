"""`whispertide transcribe`: files, or standard input, to transcripts."""

from collections.abc import Sequence
from dataclasses import dataclass
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
from whispertide.cli.exit import ExitCode, combine, guarded, report
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


def transcribe(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Audio or video files of any kind. - is standard input.")
    ],
    model: ModelOption = DEFAULT_MODEL,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE|DIR/", help="Default: standard output. Several files need a folder."
        ),
    ] = None,
    form: FormatOption = None,
    offline: Annotated[bool, typer.Option("--offline", help="Whole recording at once instead of streaming.")] = False,
    pace: Annotated[
        Pace, typer.Option("--pace", help="max: as fast as possible. live: at the speed of speech.")
    ] = "max",
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
    rate: Annotated[
        int | None,
        typer.Option("--rate", min=1, help="Samples per second. Without it - is a file.", rich_help_panel=_INPUT),
    ] = None,
    channels: Annotated[int, typer.Option("--channels", min=1, rich_help_panel=_INPUT)] = 1,
    sample_format: Annotated[SampleFormat, typer.Option("--sample-format", rich_help_panel=_INPUT)] = "s16le",
) -> None:
    """Transcribe audio files. Standard output gets only the transcript, standard error everything else."""

    def body() -> ExitCode:
        pcm = None if rate is None else PcmFormat(rate, channels, sample_format)
        _check_usage(files, pcm, offline=offline, streaming=(recipe, changes, vad, executor), pace=pace)
        word, framed = hush_word(hush, framing)
        request = Request(
            sources=tuple(Source(name, pcm) for name in files),
            targets=tuple(plan_targets(files, output, form)),
            model=ModelChoice(model, revision, EngineOptions(precision, provider, threads)),
            options=decode_options(language, task, prompt),
            recipe=None if offline else StreamChoice(recipe, recipe_changes(changes, framed, executor)).resolve(),
            vad=vad,
            live=pace == "live",
            framing="hush" if word else framing or "pad30",
            hush=word,
        )
        return run(request)

    guarded(body)


def _check_usage(
    files: Sequence[str], pcm: PcmFormat | None, *, offline: bool, streaming: tuple[object, ...], pace: Pace
) -> None:
    if pcm is not None and STDIN not in files:
        raise OptionError("--rate describes raw audio on standard input; add - to the files, or leave out --rate")
    if files.count(STDIN) > 1:
        raise OptionError("standard input can be read only once; expected one - among the files")
    if offline and any(choice is not None for choice in streaming):
        raise OptionError(
            "--offline has no recipe; leave out --recipe, --set, --vad, --executor, or leave out --offline"
        )
    if offline and pace == "live":
        raise OptionError("--offline needs the whole recording and cannot run at live pace; choose one of them")


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
        return combine(list(codes.values()))
    transcriber = request.model.load(request.hush)
    from whispertide.cli.job import warn_of_synthetic

    warn_of_synthetic(transcriber, [source.name for source in request.sources])
    for number, duration_s in durations.items():
        codes[number] = _run_one(request, transcriber, number, duration_s)
        if codes[number] is ExitCode.INTERRUPTED:
            break
    return combine([codes[number] for number in sorted(codes)])


def _run_one(request: Request, transcriber: "Transcriber", number: int, duration_s: float | None) -> ExitCode:
    from whispertide.cli.offline import OfflineJob
    from whispertide.cli.pump import Arrivals, at_full_speed, at_live_pace
    from whispertide.cli.stream import StreamJob
    from whispertide.types import to_samples

    source, target = request.sources[number], request.targets[number]
    try:
        if request.recipe is None:
            job = OfflineJob(transcriber, request.options, target, source.label, duration_s, request.framing)
            return job.run(source.blocks())[1]
        blocks = source.blocks()
        if not request.live:
            blocks = at_full_speed(blocks, to_samples(request.recipe.step_s))
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
        )
        return stream.run(blocks)[1]
    except AudioError as error:
        return report(error, about=source.label)
