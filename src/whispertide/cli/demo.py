"""`whispertide demo`: the bundled recording, with OpenAI's tiny.en where it can be had, else the bundled model."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from whispertide.cli import arguments, completion
from whispertide.cli.bundled import bundled_files
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.errors import CheckpointError, UnreachableError, WhispertideError
from whispertide.options import BUNDLED_MODEL, DecodeOptions

if TYPE_CHECKING:
    from whispertide.formats.document import Document

_REAL_MODEL = "tiny.en"
_PATIENCE_S = 20.0  # nobody watches a demo that waits longer for its first byte


@guarded
@arguments.group_options
def demo(
    *,
    pace: Annotated[
        Literal["live", "max"], typer.Option("--pace", help="live: in real time. max: as fast as possible.")
    ] = "live",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help=f"Default: {_REAL_MODEL}, downloaded once; if that fails, the bundled {BUNDLED_MODEL}.",
            autocompletion=completion.models,
        ),
    ] = None,
    stream: arguments.RecipeOptions,
    engine: arguments.Engine,
) -> ExitCode:
    """Show live captions of the bundled recording. Needs no microphone, and works without a network."""
    from whispertide.cli.job import StreamJob
    from whispertide.cli.output import Target
    from whispertide.cli.pump import at_full_speed, at_live_pace
    from whispertide.cli.source import Source

    recipe, live = stream.resolve(), pace == "live"
    with bundled_files() as (recording, transcript):
        source = Source(str(recording))
        transcriber = arguments.load(_real_or_bundled() if model is None else model, engine)
        if live:
            transcriber.warm_up()
        targets = [Target(None, "txt")]
        job = StreamJob(transcriber, DecodeOptions(), targets, source.label, source.probe(), recipe=recipe, live=live)
        blocks = source.blocks()
        document, code = job.run(at_live_pace(blocks) if live else at_full_speed(blocks, recipe.schedule.step))
        for line in summary(document, transcript, bundled=transcriber.is_bundled):
            say(line)
    return code


def _real_or_bundled() -> str:
    """The name of the model to play to: OpenAI's, which may have to be downloaded, or the bundled one in its place."""
    from whispertide.checkpoint import hub
    from whispertide.checkpoint.download import is_offline

    try:
        hub.path(_REAL_MODEL)
    except CheckpointError:  # it is not here
        pass
    else:
        return _REAL_MODEL
    instead = f"{BUNDLED_MODEL}, a small bundled model trained on synthetic speech, is used instead"
    if is_offline():
        say(f"{_REAL_MODEL} is not downloaded, and downloads are disabled: {instead}")
        return BUNDLED_MODEL
    say(f"this demo uses OpenAI's {_REAL_MODEL}, which is downloaded once (not with --model {BUNDLED_MODEL})")
    try:
        hub.resolve(_REAL_MODEL, announce=say, patience_s=_PATIENCE_S)
    except WhispertideError as error:
        reason = error.reason if isinstance(error, UnreachableError) else str(error)
        say(f"{_REAL_MODEL} cannot be downloaded ({reason}): {instead}")
        say(f"to wait longer for a slow network: whispertide models pull {_REAL_MODEL}, and then the demo again")
        return BUNDLED_MODEL
    return _REAL_MODEL


def summary(document: "Document", transcript: Path, *, bundled: bool) -> list[str]:
    """The closing lines: amount, speed and accuracy."""
    figures = document.metrics
    if not figures["audio_s"]:
        return []  # Ctrl-C before there was anything to hear
    lines = [
        f"{len(document.words)} words in {figures['audio_s']:.1f} s of audio, {figures['rounds']} rounds, "
        f"{figures['real_time_factor']:.2f} of real time" + ("" if figures["latency_clock"] == "audio" else " (paced)")
    ]
    median = figures["confirmed_latency_median_s"]
    if median is not None:
        how = "" if figures["latency_clock"] == "wall" else ", without computing time"
        lines.append(f"half of the words were confirmed within {median:.2f} s of their end{how}")
    if document.complete and (rate := word_error_rate(transcript, document.text)) is not None:
        lines.append(f"{rate:.1%} word errors against the bundled transcript")
    if bundled:
        lines.append(f"{BUNDLED_MODEL} was trained on synthetic speech; for your own voice: whispertide listen")
    return lines


def word_error_rate(transcript: Path, text: str) -> float | None:
    """WER without case and punctuation, or None if jiwer is not installed or there is no transcript."""
    try:
        import jiwer
    except ImportError:
        return None
    if not transcript.is_file():
        return None
    return float(jiwer.wer(plain(transcript.read_text(encoding="utf-8")), plain(text)))


def plain(text: str) -> str:
    """Split into lower-case words without punctuation."""
    return " ".join(re.findall(r"[\w']+", text.lower()))
