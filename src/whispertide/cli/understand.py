"""`whispertide understand`: intents of spoken commands, from recordings or the microphone."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.atomic import printable
from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, combine, guarded, report, say
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.output import STDIN
from whispertide.cli.source import Source
from whispertide.errors import AudioError, OptionError
from whispertide.options import check_range

if TYPE_CHECKING:
    from whispertide.methods.pilot.sending import Sending
    from whispertide.types import FloatArray
    from whispertide.understand.understanding import Understanding, Understood

_MICROPHONE = "mic"
WEAK = 0.5  # an intent, or words, less likely than that are a guess


@guarded
def understand(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...|mic", help="Recordings, - for standard input, or mic.")
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", "-m", metavar="FOLDER", help="Folder of `whispertide train latecontext`. Default: commands."
        ),
    ] = None,
    every: Annotated[
        float,
        typer.Option("--pilots", metavar="S", min=0, help="Seconds between preliminary results; 0: none."),
    ] = 1.0,
    below: Annotated[
        float,
        typer.Option(
            "--send-below",
            metavar="P",
            help="Send utterances with a less likely intent to the server WHISPERTIDE_REMOTE; 0: none.",
        ),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each result.")] = False,
    device: arguments.Device = None,
) -> ExitCode:
    """Recognise spoken commands. Prints start and end in seconds, intent and words of each utterance; of several
    files the name, too.

    Preliminary results during speech go to standard error.
    """
    from whispertide.understand.checkpoint import COMMANDS
    from whispertide.understand.model import LateModel
    from whispertide.understand.understanding import PilotTimes, Understanding

    _check_usage(files, device, below)
    network, pilots = LateModel.open(model or COMMANDS), PilotTimes(every_s=every)
    new_stream = partial(Understanding, network, pilots=pilots, sending=_sending(below))
    if files == [_MICROPHONE]:
        from whispertide.audio import mic

        with mic.microphone_blocks(device) as blocks:
            say("listening; press Ctrl-C to end")
            _print_intents(new_stream(live=True), blocks, _Lines("microphone", as_json))
        return ExitCode.OK
    codes = []
    for name in files:
        source = Source(name)
        lines = _Lines(source.label if name == STDIN else printable(name), as_json, named=len(files) > 1)
        try:
            if not _print_intents(new_stream(live=False), source.blocks(), lines):
                return report(KeyboardInterrupt())
            codes.append(ExitCode.OK)
        except AudioError as error:
            codes.append(report(error, about=source.label))
    return combine(codes)


def _check_usage(files: Sequence[str], device: str | None, below: float) -> None:
    check_range("--send-below", below, 0, 1)
    if files == [_MICROPHONE]:
        return
    if _MICROPHONE in files:
        raise OptionError(f"expected {_MICROPHONE} alone, or recordings; got both")
    if files.count(STDIN) > 1:
        raise OptionError("standard input can be read once; expected one - among the files")
    if device is not None:
        raise OptionError(f"expected {_MICROPHONE} next to --device, which is a microphone; got {', '.join(files)}")


def _sending(below: float) -> "Sending | None":
    """Connect to the server that the environment names. Raises `OptionError` if it names none that can be asked."""
    if not below:
        return None
    from whispertide.methods.pilot.hybrid import server_here
    from whispertide.methods.pilot.remote import Remote
    from whispertide.methods.pilot.sending import Sending

    server = server_here()
    if server is None:
        raise OptionError("expected a server for --send-below: set WHISPERTIDE_REMOTE to its address")
    return Sending(Remote(server), below)


def _print_intents(stream: "Understanding", blocks: Iterable["FloatArray"], lines: "_Lines") -> bool:
    """Print intents as they come. Returns False after Ctrl-C; intents of the audio so far are still printed.

    So it is where the audio breaks off: then it raises `AudioError` after that, and where there is none at all.
    """
    from whispertide.audio.whole import Recording

    ended, audio = True, Recording(blocks)
    with Interrupts() as interrupts:
        try:
            for block in _until_pressed(iter(audio), interrupts):
                lines.print(stream.push(block))
        except KeyboardInterrupt:
            ended = False
        lines.print(stream.finish())
    ended = ended and not interrupts.pressed
    if ended and audio.broken is not None:
        raise audio.broken
    return ended


def _until_pressed(blocks: Iterator["FloatArray"], interrupts: Interrupts) -> Iterator["FloatArray"]:
    """Yield the blocks; Ctrl-C breaks off the wait for one, and not the work on it."""
    while True:
        with interrupts.waiting():
            block = next(blocks, None)
        if block is None:
            return
        yield block


@dataclass(frozen=True, slots=True)
class _Lines:
    """What is printed of an audio: lines of JSON, or of text, which begin with its name where others are printed, too
    (`named`).
    """

    source: str
    as_json: bool = False
    named: bool = False

    def print(self, understood: Iterable["Understood"]) -> None:
        """Print a line for each; preliminary ones as text go to standard error."""
        from whispertide.types import seconds

        for each in understood:
            start, end = seconds(each.start), seconds(each.end)
            if self.as_json:
                entry: dict[str, object] = {"source": self.source, "start": round(start, 3), "end": round(end, 3)}
                entry |= {"intent": each.intent, "text": each.text}
                entry |= {"final": each.final, "perplexity": round(each.perplexity, 3), "wait": round(each.wait_s, 4)}
                entry |= {"chance": None if each.chance is None else round(each.chance, 3), "sent": each.sent}
                typer.echo(json.dumps(entry, ensure_ascii=False))
            else:
                sure = _probability(each)
                weak = f"  (uncertain: {sure:.0%})" if each.final and each.intent is not None and sure < WEAK else ""
                name = f"{self.source}: " if self.named else ""
                line = f"{name}{start:8.2f} {end:8.2f}  {each.intent or '-'}  {each.text}{weak}"
                typer.echo(line, err=not each.final)


def _probability(understood: "Understood") -> float:
    """The probability of the intent, or of the words (the mean of their tokens) if that is lower.

    Of what it cannot understand the network may name an intent for certain: people's sentences had 0.90 and 0.14.
    """
    return min(1 / understood.perplexity, 1.0 if understood.chance is None else understood.chance)
