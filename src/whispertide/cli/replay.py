"""`whispertide replay`: run recorded sessions again, with the rounds they had or with any recipe."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whispertide.cli import arguments, completion
from whispertide.cli.exit import ExitCode, combine, guarded, report, say
from whispertide.errors import AudioError, TranscriptError

if TYPE_CHECKING:
    from whispertide.api import Transcriber


@guarded
@arguments.group_options
def replay(
    *,
    recordings: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="A recording of `serve --record`, or a folder of recordings.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", metavar="MODEL", help="Default: the recorded one.", autocompletion=completion.models
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe", "-r", metavar="NAME", help="Default: the recorded one.", autocompletion=completion.recipes
        ),
    ] = None,
    changes: arguments.Changes = None,
    engine: arguments.Engine,
) -> ExitCode:
    """Run recorded sessions again and print their text.

    Without --recipe and --set the recorded rounds are used.
    With the same model and precision the text is then the same.
    A line on standard error compares it with the text that the client got. A damaged recording is told, and left out.
    """
    from whispertide.server.recording import find_recordings, read_recording, replay_recording
    from whispertide.types import seconds

    stream = arguments.StreamChoice(recipe, changes)
    if recipe:
        stream.resolve()  # what cannot be is told before anything is loaded
    loaded: dict[str, Transcriber] = {}
    codes = []
    for folder in find_recordings(recordings):
        try:
            recording = read_recording(folder)
        except (AudioError, TranscriptError) as error:  # of one: the others can be run
            codes.append(report(error, about=folder.name))
            continue
        name = model or recording.model
        if name not in loaded:
            loaded[name] = arguments.load(name, engine)
        if model is None and loaded[name].content_hash != recording.content_hash:
            say(f"warning: {name} has changed since {folder.name} was recorded")
        another = stream.resolve(start=recording.recipe) if recipe or changes else None
        replayed = replay_recording(recording, loaded[name], another)
        typer.echo(replayed.text)
        same = "the same text as" if replayed.text == recording.text else "another text than"
        say(f"{folder.name}: {seconds(replayed.samples):.1f} s, {replayed.rounds} rounds, {same} recorded")
        codes.append(ExitCode.OK)
    return combine(codes)
