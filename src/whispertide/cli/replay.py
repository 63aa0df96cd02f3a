"""`whispertide replay`: run recorded sessions again, with the rounds they had or with any recipe."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.cli import completion
from whispertide.cli.arguments import (
    ModelChoice,
    PrecisionOption,
    ProviderOption,
    SetOption,
    StreamChoice,
    ThreadsOption,
)
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.options import EngineOptions

if TYPE_CHECKING:
    from whispertide.streaming.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Request:
    """What to run again. Without `stream` everything is as it was, down to where the rounds ended."""

    folders: tuple[Path, ...]
    model: str | None
    engine: EngineOptions
    stream: StreamChoice | None


@guarded
def replay(
    recordings: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="A recording of `serve --record`, or a folder of recordings.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="Default: the one that was served.",
            autocompletion=completion.models,
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe", "-r", metavar="NAME", help="Default: as it was recorded.", autocompletion=completion.recipes
        ),
    ] = None,
    changes: SetOption = None,
    precision: PrecisionOption = "int8",
    provider: ProviderOption = "auto",
    threads: ThreadsOption = 0,
) -> ExitCode:
    """Run recorded sessions again and print their text.

    Without --recipe and --set the rounds end where they did.
    With the same model and precision the text is then the same.
    A line on standard error says how it compares with what the client got.
    """
    stream = StreamChoice(recipe, tuple(changes or ())) if recipe or changes else None
    if stream is not None and recipe:
        stream.resolve()
    return run(Request(tuple(recordings), model, EngineOptions(precision, provider, threads), stream))


def run(request: Request) -> ExitCode:
    """Replay every recording; a failure if one of them cannot be read."""
    from whispertide.api import Transcriber
    from whispertide.server.recording import find_recordings, read_recording, replay_recording
    from whispertide.types import seconds

    loaded: dict[str, Transcriber] = {}
    for folder in find_recordings(request.folders):
        recording = read_recording(folder)
        name = request.model or recording.model
        if name not in loaded:
            loaded[name] = ModelChoice(name, None, request.engine).load()
        recipe = None if request.stream is None else _changed(request.stream, recording.recipe)
        said = replay_recording(recording, loaded[name], recipe)
        typer.echo(said.text)
        same = "the same text" if said.text == recording.text else "another text"
        say(f"{folder.name}: {seconds(said.samples):.1f} s, {said.rounds} rounds, {same} as recorded")
    return ExitCode.OK


def _changed(stream: StreamChoice, recorded: "Recipe") -> "Recipe":
    """The recipe asked for; with changes alone, the recorded one changed."""
    from whispertide.streaming.recipe import parse_overrides

    return stream.resolve() if stream.recipe else parse_overrides(recorded, stream.changes)
