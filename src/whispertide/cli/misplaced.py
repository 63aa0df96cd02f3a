"""Models named as arguments, as other programs take them, where a command has an option for them."""

import os
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from whispertide.audio.extensions import AUDIO
from whispertide.errors import WhispertideError

_OPTIONS = ("--model", "--models")
_OTHER_NETWORKS = "FOLDER"  # the metavar of an option for networks that have no names


class WithModelHints(TyperCommand):
    """A command that answers a model among its arguments with the option for it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raises `UsageError` for one too many, and for the name of a model in place of a file."""
        allowed, ctx.allow_extra_args = ctx.allow_extra_args, True
        rest: list[str] = super().parse_args(ctx, args)
        ctx.allow_extra_args = allowed
        if ctx.resilient_parsing:
            return rest
        option = self._model_option()
        if rest and not allowed:
            models = [name for name in rest if option and is_model(name)]
            ctx.fail(f"expected no further argument; got {' '.join(map(repr, rest))}{_hint(option, models)}")
        if option and (names := [name for name in self._arguments(ctx) if is_model_name(name)]):
            ctx.fail(f"expected no model as an argument; got {names[0]!r}{_hint(option, names)}")
        return rest

    def _model_option(self) -> str:
        """The option that takes models; "": there is none, or an argument takes one."""
        if any(one.param_type_name == "argument" and "MODEL" in (one.metavar or "") for one in self.params):
            return ""
        options = [name for one in self.params if one.metavar != _OTHER_NETWORKS for name in one.opts]
        return next((name for name in _OPTIONS if name in options), "")

    def _arguments(self, ctx: Any) -> list[str]:
        """What was given as arguments."""
        values = (ctx.params.get(one.name) for one in self.params if one.param_type_name == "argument")
        return [
            str(item) for value in values if value for item in (value if isinstance(value, list | tuple) else (value,))
        ]


def is_model(name: str) -> bool:
    """Whether this may be meant as a model: a name, a hub id, a folder, or a file with a model's name."""
    from whispertide.checkpoint.names import HubModel, find_model, single_files

    try:
        place = find_model(name)
    except (WhispertideError, OSError):
        return False
    if isinstance(place, HubModel):
        return Path(name).suffix.lstrip(".").lower() not in AUDIO  # a recording in a folder looks like an id
    return place.is_dir() or bool(single_files([place.name]))


def is_model_name(name: str) -> bool:
    """Whether this is the name of a model, and of no file or folder here."""
    from whispertide.checkpoint.names import is_known

    return is_known(name.partition("@")[0]) and not os.path.exists(name)


def _hint(option: str, names: list[str]) -> str:
    return f": did you mean {option} {names[0]}?" if names else ""
