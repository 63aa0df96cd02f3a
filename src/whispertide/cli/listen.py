"""`whispertide listen`: live captions of a microphone."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.cli.output import check_file, check_new, partial_path, plan_formats
from whispertide.errors import OptionError
from whispertide.options import DEFAULT_MODEL, MOST_CHANNELS
from whispertide.plural import counted

NAME = "microphone"


@guarded
@arguments.group_options
def listen(
    *,
    model: arguments.Model = DEFAULT_MODEL,
    device: Annotated[
        str | None,
        typer.Option("--device", "-d", help="The microphone, by number or part of its name. Default: the system's."),
    ] = None,
    show_devices: Annotated[bool, typer.Option("--list-devices", help="List the microphones and exit.")] = False,
    multichannel: arguments.Multichannel = False,
    channels: Annotated[
        int | None,
        typer.Option(
            "--channels",
            metavar="N",
            min=2,
            max=MOST_CHANNELS,
            help="Number of channels for --multichannel. Default: 2.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE|DIR/", help="Save the transcript to this file at the end."),
    ] = None,
    form: arguments.Formats = None,
    subtitles: arguments.Subtitles,
    save_audio: Annotated[
        Path | None,
        typer.Option("--save-audio", metavar="FILE.wav", help="Save the audio to this file: 16 kHz, 16 bit."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output files if they exist.")] = False,
    translation: arguments.Translation,
    no_tune: arguments.NoTune = False,
    text: arguments.Text,
    stream: arguments.Stream,
    engine: arguments.Engine,
    revision: arguments.Revision = None,
) -> ExitCode:
    """Show live captions of the microphone. Ctrl-C ends it, shows the last words and saves the transcript."""
    if show_devices:
        return list_devices()
    from whispertide.audio import mic
    from whispertide.channels import apart_options
    from whispertide.cli.job import StreamJob, warn_of_synthetic
    from whispertide.cli.kept_audio import KeptArrivals, kept_audio
    from whispertide.cli.pump import Arrivals
    from whispertide.cli.tune import tune_first

    word, (targets,) = stream.hush_word(), plan_formats([NAME], output, arguments.format_names(form))
    transcripts = [target.path for target in targets if target.path is not None]
    apart = _channels(channels, multichannel=multichannel)
    if save_audio is not None:
        _check_wav(save_audio, transcripts)
    with translation.opened() as chosen:
        transcripts += (
            [target.path for target, _ in chosen.targets(targets) if target.path is not None] if chosen else []
        )
        for path in (*transcripts, *map(partial_path, transcripts), save_audio):
            if path is not None and not overwrite:
                check_new(path)  # a microphone cannot be heard again
        options, recipe = arguments.check_options(text), stream.resolve(word)
        if apart:
            options = apart_options(options, apart)
        with mic.microphone_blocks(device, apart=apart):
            pass  # no microphone: say so before a model is loaded, or even downloaded
        transcriber = arguments.load(model, engine, revision, word)
        warn_of_synthetic(transcriber)
        transcriber.warm_up()
        tune_first(transcriber, recipe, refused=no_tune)
        kept = nullcontext() if save_audio is None else kept_audio(save_audio, apart or 1)
        with mic.microphone_blocks(device, apart=apart) as blocks, kept as keep:
            say(f"listening with {transcriber.name}{_to_channels(apart)}; press Ctrl-C to end")
            arrivals = Arrivals(blocks)
            audio = arrivals if keep is None else KeptArrivals(arrivals, keep)
            about = (transcriber, options, targets, NAME)
            job = StreamJob(
                *about,
                subtitles=subtitles,
                translator=chosen,
                recipe=recipe,
                live=True,
                rest=audio.rest,
                channels=apart,
            )
            return job.run(audio)[1]


def _channels(asked: int | None, *, multichannel: bool) -> int:
    """How many channels are kept apart; 0: they are mixed."""
    if asked is not None and not multichannel:
        raise OptionError("expected --multichannel next to --channels; without it the channels are mixed")
    return (asked or 2) if multichannel else 0


def _to_channels(apart: int) -> str:
    return f" to channels 1 to {apart}, each a speaker" if apart else ""


def _check_wav(path: Path, transcripts: Sequence[Path]) -> None:
    if path.suffix.lower() != ".wav":
        raise OptionError(f"expected a name that ends with .wav for --save-audio; got {str(path)!r}")
    check_file(path)
    if path.resolve() in [transcript.resolve() for transcript in transcripts]:
        raise OptionError(f"expected another name for --save-audio than for --output; got {str(path)!r} for both")


def list_devices() -> ExitCode:
    """Print the microphones, the default one marked; it is a failure if there is none."""
    from whispertide.audio import mic

    devices = mic.list_devices()
    if not devices:
        say("no microphone found: plug one in, or allow access to it in the system's privacy settings")
        return ExitCode.AUDIO
    for found in devices:
        mark = "*" if found.is_default else " "
        channels = counted(found.channels, "channel")
        typer.echo(f"{mark} {found.index:3d}  {found.name}  ({channels}, {found.sample_rate} Hz)")
    return ExitCode.OK
