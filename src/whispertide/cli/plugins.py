"""Commands of other packages, found by entry point and loaded on demand.

A package names a command in the group `whispertide.commands`: a function, or a `typer.Typer` with commands of its own.
So the laboratory brings `bench`, `train`, `compress` and `export`; where it is not installed, they say what to install.
"""

import os
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Protocol

import typer
from typer.core import TyperGroup
from typer.main import get_group

from whispertide.audio.extensions import AUDIO
from whispertide.cli.exit import HELP, ExitCode, guarded
from whispertide.errors import OptionError
from whispertide.extras import not_installed

if TYPE_CHECKING:
    from whispertide.checkpoint import Checkpoint

GROUP, TEACHERS = "whispertide.commands", "whispertide.teachers"
# The laboratory's commands: the extra that brings each, and what it does.
LABORATORY = {
    "bench": ("lab", "Measure latency, accuracy and cost."),
    "train": ("train", "Make checkpoints from recordings, from synthetic speech, or from other checkpoints."),
    "compress": ("lab", "Make a checkpoint smaller."),
    "export": ("lab", "Write models in formats that other runtimes read."),
}


class WithPlugins(TyperGroup):
    """Lists the commands of this package, and after them those of others."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List all names; loads the other packages' commands."""
        for point in entry_points(group=GROUP):
            if point.name not in self.commands:
                self.commands[point.name] = _load(point)
        for name, (extra, about) in LABORATORY.items():
            if name not in self.commands:
                self.commands[name] = _missing(name, extra, about)
        return super().list_commands(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments begin with. Raises `typer.BadParameter` for a file in its place, as other
        programs take it.
        """
        if self.get_command(ctx, args[0]) is None and (text := _file_in_place(args[0])):
            raise typer.BadParameter(text, ctx=ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name, or None. One of this package loads no other package."""
        if cmd_name not in self.commands:
            self.list_commands(ctx)
        return super().get_command(ctx, cmd_name)


def _file_in_place(name: str) -> str:
    """What to say of a file, or the name of one, where a command was expected; "": it is none."""
    if os.path.exists(name):
        return f"expected a command; got a file: to transcribe it, run `whispertide transcribe {quote(name)}`"
    if "://" in name:
        return f"expected a command; got an address: run `whispertide batch {quote(name)} -o FOLDER`"
    if os.path.basename(name) != name or Path(name).suffix.lstrip(".").lower() in AUDIO:
        return (
            f"expected a command; got {quote(name)}, and there is no such file: check the path, and transcribe it by "
            "`whispertide transcribe FILE`"
        )
    return ""


class Lessons(Protocol):
    """Training that a checkpoint is about to get: its device, windows and updates."""

    @property
    def device(self) -> str: ...

    @property
    def windows(self) -> int:
        """Windows that the checkpoint answers before training."""
        ...

    @property
    def updates(self) -> int:
        """Updates of the weights, at most."""
        ...

    def teach(self, audio: Sequence[Path]) -> ExitCode:
        """Train it on these recordings, and keep the result."""
        ...


Teacher = Callable[["Checkpoint", int], Lessons]


def find_teacher(name: str) -> Teacher | None:
    """Find the function that makes lessons of this name, given a checkpoint and a number of windows; None if no package
    has it.
    """
    for point in entry_points(group=TEACHERS, name=name):
        teacher: Teacher = point.load()
        return teacher
    return None


def _load(point: EntryPoint) -> Any:
    try:
        return _command(point.name, point.load())
    except (ImportError, AttributeError) as error:  # a package that is damaged must not end all commands
        text = f"the package of `whispertide {point.name}` cannot be loaded ({error}): install it again"
        return _refusing(point.name, "Does not load.", text)


def _missing(name: str, extra: str, about: str) -> Any:
    text = not_installed(extra, f"`whispertide {name}`")
    return _refusing(name, f"{about} Not installed: it is part of the laboratory.", text)


def _refusing(name: str, about: str, text: str) -> Any:
    """Make a command that says why there is none, whatever its arguments."""

    @guarded
    def refuse() -> ExitCode:
        raise OptionError(text)

    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    return _command(name, refuse, help=about, context_settings=anything)


def _command(name: str, plugin: Any, **settings: Any) -> Any:
    """Make a command of a function, or of a group of them, as typer does."""
    app = typer.Typer()
    if isinstance(plugin, typer.Typer):
        app.add_typer(plugin, name=name, epilog=HELP)
    else:
        app.command(name, epilog=HELP, **settings)(plugin)
    return get_group(app).commands[name]
