"""`whispertide models`: list, download and remove models."""

from typing import Annotated

import typer

from whispertide.cli import arguments, completion
from whispertide.cli.exit import ExitCode, guarded, say

models = typer.Typer(help="List, download, find and remove models.", no_args_is_help=True)

_NameArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A name such as base.en, or a hub id.", autocompletion=completion.models)
]


@models.command("list")
@guarded
def list_models() -> ExitCode:
    """List the models with short names, and all other Whisper models in the Hugging Face cache."""
    from whispertide.checkpoint import hub
    from whispertide.checkpoint.download import format_size

    rows = [("name", "state", "on disk", "parameters", "where")]
    for model in hub.list_models():
        size = "" if model.size is None else format_size(model.size)
        parameters = "" if model.parameters is None else f"{model.parameters} M"
        rows.append((model.name, model.state, size, parameters, str(model.path or model.repo or "")))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, state, size, parameters, where in rows:
        left = f"{name:{widths[0]}}  {state:{widths[1]}}"
        typer.echo(f"{left}  {size:>{widths[2]}}  {parameters:>{widths[3]}}  {where}".rstrip())
    return ExitCode.OK


@models.command()
@guarded
def pull(name: _NameArgument, revision: arguments.Revision = None) -> ExitCode:
    """Download or update a model, and print its folder."""
    from whispertide.checkpoint import hub

    typer.echo(hub.pull(name, revision, announce=say))
    return ExitCode.OK


@models.command()
@guarded
def path(name: _NameArgument, revision: arguments.Revision = None) -> ExitCode:
    """Print the folder of a model that is on this machine."""
    from whispertide.checkpoint import hub
    from whispertide.checkpoint.weights import weight_files

    place = hub.path(name, revision)
    if place.is_dir():
        weight_files(place)  # complains where there are none
    typer.echo(place)
    return ExitCode.OK


@models.command()
@guarded
def remove(
    name: _NameArgument,
    revision: arguments.Revision = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> ExitCode:
    """Delete a downloaded model, after asking. Other programs share the Hugging Face cache."""
    from whispertide.checkpoint import hub
    from whispertide.checkpoint.download import format_size

    removal = hub.plan_removal(name, revision)
    size = format_size(removal.size)
    if not yes and not typer.confirm(f"remove {name} ({size}) from {removal.place}?", err=True):
        say("nothing was removed")
        return ExitCode.FAILURE
    removal.execute()
    say(f"removed {name}; freed {size}")
    return ExitCode.OK


@models.command()
@guarded
@arguments.group_options
def preload(name: _NameArgument, *, revision: arguments.Revision = None, engine: arguments.Engine) -> ExitCode:
    """Download a model and build its graphs, so that its first use is fast and needs no network."""
    import time

    began = time.perf_counter()
    transcriber = arguments.load(name, engine, revision)
    say(f"{transcriber.name} is ready ({engine.precision}, {time.perf_counter() - began:.1f} s)")
    return ExitCode.OK
