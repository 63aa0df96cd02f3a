"""`whispertide transcribe`: files, or standard input, to transcripts."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, combine, guarded, report, say
from whispertide.cli.output import STDIN, as_folder, plan_formats
from whispertide.cli.source import PcmFormat, Source, with_folders_opened
from whispertide.errors import AudioError, OptionError, OutputError
from whispertide.options import BEAM, DEFAULT_MODEL

if TYPE_CHECKING:
    from whispertide.recipes.recipe import Recipe
    from whispertide.types import FloatArray

_PATIENCE_S = 5.0

_pcm = partial(typer.Option, rich_help_panel="Raw PCM on standard input")


@guarded
@arguments.group_options
def transcribe(
    *,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR...",
            help="Audio or video files; a folder stands for its files, without subfolders; - is standard input.",
        ),
    ],
    model: arguments.Model = DEFAULT_MODEL,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE|DIR/", help="Where to write. Default: standard output."),
    ] = None,
    form: arguments.Formats = None,
    track: Annotated[
        int | None,
        typer.Option("--track", metavar="N", min=1, help="The audio track of a video, from 1. Default: the main one."),
    ] = None,
    multichannel: arguments.Multichannel = False,
    subtitles: arguments.Subtitles,
    text: arguments.Text,
    beam: arguments.Beam = None,
    fast: arguments.Fast = False,
    stream: arguments.Stream,
    pace: Annotated[
        Literal["max", "live"] | None,
        typer.Option(
            "--pace",
            help="max (default): as fast as possible; live: in real time.",
            rich_help_panel="Streaming",
        ),
    ] = None,
    translation: arguments.Translation,
    no_tune: arguments.NoTune = False,
    engine: arguments.Engine,
    revision: arguments.Revision = None,
    rate: Annotated[int | None, _pcm("--rate", min=1, help="Samples per second. Without it, - is a file.")] = None,
    channels: Annotated[int | None, _pcm("--channels", min=1, show_default="1")] = None,
    sample_format: Annotated[
        Literal["u8", "s16le", "s32le", "f32le"] | None, _pcm("--sample-format", show_default="s16le")
    ] = None,
) -> ExitCode:
    """Transcribe audio files, each as a whole. Standard output has only the transcript.

    With --recipe, --set, --delay, --pace or --executor the audio is streamed instead, as from a microphone.
    """
    from whispertide.channels import apart_options
    from whispertide.cli.channels import ChannelsJob
    from whispertide.cli.job import Job, OfflineJob, StreamJob, warn_of_synthetic
    from whispertide.cli.tune import tune_first

    pcm, names = _raw_format(rate, channels, sample_format), with_folders_opened(files)
    _check_usage(names, pcm)
    word = stream.hush_word()
    # A folder gives a folder, also where it holds one recording.
    destination = output if names == files else as_folder(output)
    sources = [Source(name, pcm, track) for name in names]
    targets = plan_formats(names, destination, arguments.format_names(form))
    options, live = arguments.check_options(text), pace == "live"
    with translation.opened() as chosen:
        if chosen is not None:
            chosen.check(targets)
        recipe = stream.resolve(word) if stream.is_asked or pace is not None else None
        if recipe is None:
            options = replace(options, beam=_beam(beam, fast=fast))
        elif fast or (beam or 1) > 1:
            raise OptionError(
                f"--beam and --fast are for whole recordings; for a stream: --set search=beam --set beam={beam or BEAM}"
            )
        if multichannel:
            options = apart_options(options)
            for source in sources:
                source.check_apart(streamed=recipe is not None)
        durations, codes = _probe_all(sources)  # before a model is loaded, or even downloaded
        if durations:
            transcriber = arguments.load(model, engine, revision, word)
            warn_of_synthetic(transcriber, names)
            if live and recipe is not None:
                transcriber.warm_up()
                tune_first(transcriber, recipe, refused=no_tune)
        for number, duration_s in durations.items():
            source = sources[number]
            place = f"{number + 1}/{len(names)} " if len(names) > 1 else ""
            about = (transcriber, options, targets[number], source.label, duration_s, place)
            try:
                count, blocks = source.blocks_apart() if multichannel and recipe else (0, source.blocks())
                if recipe is None:
                    make: Callable[..., Job] = OfflineJob
                    if multichannel:
                        make = partial(ChannelsJob, channels=source.channels())
                    job = make(
                        *about,
                        subtitles=subtitles,
                        translator=chosen,
                        framing="hush" if word else stream.framing,
                        vad=stream.vad is not False,
                    )
                else:
                    job = StreamJob(
                        *about, subtitles=subtitles, translator=chosen, recipe=recipe, live=live, channels=count
                    )
                codes[number] = job.run(_paced(blocks, recipe, live=live, is_pipe=source.is_pipe))[1]
            except (AudioError, OutputError) as error:
                if isinstance(error, OutputError) and targets[number][0].path is None:
                    raise  # standard output is that of all others, too
                codes[number] = report(error, about=source.label)
            if codes[number] is ExitCode.INTERRUPTED:
                break
    return _report(sources, codes)


def _raw_format(rate: int | None, channels: int | None, sample_format: str | None) -> PcmFormat | None:
    """The format of raw audio; None: there is none. Raises `OptionError` for a part of one."""
    if rate is not None:
        return PcmFormat(rate, channels or 1, sample_format or "s16le")
    for option, given in (("--channels", channels), ("--sample-format", sample_format)):
        if given is not None:
            raise OptionError(f"{option} describes raw audio on standard input; add --rate, or leave out {option}")
    return None


def _check_usage(files: Sequence[str], pcm: PcmFormat | None) -> None:
    if "" in files:
        raise OptionError("expected the name of a file, a folder, or - for standard input; got an empty one")
    if pcm is not None and STDIN not in files:
        raise OptionError("--rate describes raw audio on standard input; add - to the files, or leave out --rate")
    if files.count(STDIN) > 1:
        raise OptionError("standard input can be read once; expected one - among the files")
    if pcm is not None:
        from whispertide.audio.pcm import check_shape

        check_shape(pcm.rate, pcm.channels)


def _beam(given: int | None, *, fast: bool) -> int:
    """The number of hypotheses in the search of a whole recording."""
    if fast and given is not None:
        raise OptionError("expected --beam or --fast, which is --beam 1; got both: leave out one")
    return 1 if fast else given or BEAM


def _probe_all(sources: Sequence[Source]) -> tuple[dict[int, float | None], dict[int, ExitCode]]:
    """Probe all sources. Returns the durations of the usable ones by their numbers, and the exit codes of the others,
    which are reported.
    """
    durations: dict[int, float | None] = {}
    codes: dict[int, ExitCode] = {}
    for number, source in enumerate(sources):
        try:
            durations[number] = source.probe()
            if several := source.which_track():
                say(several)
        except AudioError as error:
            codes[number] = report(error)
    return durations, codes


def _paced(
    blocks: "Iterator[FloatArray]", recipe: "Recipe | None", *, live: bool, is_pipe: bool
) -> "Iterable[FloatArray]":
    """The blocks of a source; those of a stream at its pace and in its portions."""
    from whispertide.cli.pump import Arrivals, at_full_speed, at_live_pace

    if recipe is None:
        return hinting(blocks) if is_pipe else blocks
    if not live:
        return at_full_speed(blocks, recipe.schedule.step)
    return Arrivals(blocks) if is_pipe else at_live_pace(blocks)


def hinting(blocks: "Iterable[FloatArray]", clock: Callable[[], float] = time.monotonic) -> "Iterator[FloatArray]":
    """Pass the blocks of a pipe on, and hint after a while that `--pace live` shows text before the end."""
    due: float | None = clock() + _PATIENCE_S
    for block in blocks:
        if due is not None and clock() >= due:
            say("reading the whole input first; for text during the input add --pace live")
            due = None
        yield block


def _report(sources: Sequence[Source], codes: Mapping[int, ExitCode]) -> ExitCode:
    """Return one code for all; of several inputs, name those that failed once more at the end."""
    fine = (ExitCode.OK, ExitCode.TRUNCATED, ExitCode.INTERRUPTED)
    bad = [sources[number].label for number in sorted(codes) if codes[number] not in fine]
    if bad and len(sources) > 1:
        say(f"{len(bad)} of {len(sources)} inputs could not be transcribed: {', '.join(bad)}")
    return combine([codes[number] for number in sorted(codes)])
