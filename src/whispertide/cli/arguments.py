"""The options that several commands share, and the values they become. Parsing only: nothing heavy is imported here."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from whispertide.cli import completion
from whispertide.options import (
    DEFAULT_RECIPE,
    MOST_THREADS,
    PRECISIONS,
    PROVIDERS,
    DecodeOptions,
    EngineOptions,
    Precision,
    ProviderName,
    Task,
)

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.streaming.hush import HushWord
    from whispertide.streaming.recipe import Recipe

DEFAULT_MODEL = "base.en"
BUNDLED_MODEL = "nano.en"

FormatName = Literal["txt", "srt", "vtt", "json", "jsonl", "tsv"]
_FORMATS = ", ".join(get_args(FormatName))

_ENGINE = "Engine"
_STREAM = "Streaming"
_TEXT = "What is written"

ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="A name such as base.en, a hub id, a folder or a .pt file.",
        metavar="MODEL",
        autocompletion=completion.models,
    ),
]
ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A name such as base.en, a hub id, a folder or a .pt file.",
        autocompletion=completion.models,
    ),
]
RevisionOption = Annotated[
    str | None, typer.Option("--revision", help="Branch, tag or commit of a model on the hub.", rich_help_panel=_ENGINE)
]
PrecisionOption = Annotated[
    Precision, typer.Option("--precision", metavar="NAME", help=f"{', '.join(PRECISIONS)}.", rich_help_panel=_ENGINE)
]
ProviderOption = Annotated[
    ProviderName, typer.Option("--provider", metavar="NAME", help=f"{', '.join(PROVIDERS)}.", rich_help_panel=_ENGINE)
]
ThreadsOption = Annotated[
    int,
    typer.Option("--threads", min=0, max=MOST_THREADS, help="0 = one per core, at most 4.", rich_help_panel=_ENGINE),
]
LanguageOption = Annotated[
    str | None,
    typer.Option(
        "--language", "-l", help="The spoken language, by code or name. Default: detect it.", rich_help_panel=_TEXT
    ),
]
TaskOption = Annotated[
    Task, typer.Option("--task", metavar="NAME", help="transcribe, or translate into English.", rich_help_panel=_TEXT)
]
PromptOption = Annotated[
    str, typer.Option("--prompt", help="Text that sets spelling and style, for example names.", rich_help_panel=_TEXT)
]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        "-r",
        metavar="NAME",
        help=f"Streaming recipe; default: {DEFAULT_RECIPE}.",
        rich_help_panel=_STREAM,
        autocompletion=completion.recipes,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Change one field of the recipe; repeatable.",
        rich_help_panel=_STREAM,
        autocompletion=completion.settings,
    ),
]
VadOption = Annotated[
    bool | None,
    typer.Option("--vad/--no-vad", help="Skip everything but speech. Default: the recipe's.", rich_help_panel=_STREAM),
]
FramingOption = Annotated[
    str | None,
    typer.Option(
        "--framing",
        metavar="NAME",
        help="How windows reach the model: pad30, bare, buckets, hush. Default: the recipe's; offline: pad30.",
        rich_help_panel=_STREAM,
    ),
]
HushOption = Annotated[
    Path | None,
    typer.Option("--hush", metavar="FILE", help="Hush word (.npz, .csv) for --framing hush.", rich_help_panel=_STREAM),
]
ExecutorOption = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="NAME",
        help="serial, pipelined, or auto (what `whispertide profile` found best here). Default: the recipe's.",
        rich_help_panel=_STREAM,
    ),
]
FormatOption = Annotated[
    FormatName | None,
    typer.Option(
        "--format",
        "-f",
        metavar="NAME",
        help=f"{_FORMATS}. Default: by the output's extension, else txt.",
        rich_help_panel=_TEXT,
    ),
]
JobsOption = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes. Default: one per core.")]
AttachmentOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: beside the checkpoint.")
]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Which model, and how it runs."""

    name: str = DEFAULT_MODEL
    revision: str | None = None
    engine: EngineOptions = field(default_factory=EngineOptions)

    def load(self, hush: "HushWord | None" = None) -> "Transcriber":
        """Load it, saying on standard error what has to be downloaded or built first. `hush`: as in `Transcriber`."""
        from whispertide import api
        from whispertide.cli.exit import say

        transcriber = api.load(
            self.name,
            precision=self.engine.precision,
            provider=self.engine.provider,
            threads=self.engine.threads,
            revision=self.revision,
            announce=say,
        )
        return transcriber if hush is None else api.Transcriber(transcriber.model, hush=hush)


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """Which recipe, with which changes; `None` means the engine's default."""

    recipe: str | None = None
    changes: tuple[str, ...] = ()
    vad: bool | None = None

    def resolve(self) -> "Recipe":
        """The recipe. Raises `UnknownRecipeError` or `OptionError`, so call it before anything is downloaded."""
        from whispertide.streaming.recipe import parse_overrides
        from whispertide.streaming.recipes import get_recipe

        return parse_overrides(get_recipe(DEFAULT_RECIPE if self.recipe is None else self.recipe), self.changes)


def recipe_changes(changes: list[str] | None, framed: tuple[str, ...], executor: str | None) -> tuple[str, ...]:
    """What `--set`, then `--framing` or `--hush` (`framed`: see `hush_word`) and `--executor` change in a recipe."""
    return (*(changes or ()), *framed, *([] if executor is None else [f"executor={executor}"]))


def hush_word(file: Path | None, framing: str | None) -> "tuple[HushWord | None, tuple[str, ...]]":
    """The hush word of `--hush`, and what it and `--framing` change in a recipe.

    Raises `CheckpointError` for a file that is no hush word, `OptionError` for another framing with it, or an unknown
    one.
    """
    from whispertide.errors import OptionError
    from whispertide.streaming.framing import Hush, get_framing
    from whispertide.streaming.hush import HushWord

    if framing is not None:
        get_framing(framing)
    if file is None:
        return None, () if framing is None else (f"framing={framing}",)
    if framing not in (None, Hush.kind):
        raise OptionError(f"expected --framing {Hush.kind} with --hush; got {framing!r}. Leave out one of them")
    word = HushWord.load(file)
    return word, (f"framing={Hush.kind}", f"hush_s={word.seconds}")


def decode_options(language: str | None, task: Task, prompt: str) -> DecodeOptions:
    """The options object; the language may be given by name. Raises `UnknownLanguageError`."""
    from whispertide.checkpoint.languages import language_code

    return DecodeOptions(language=language and language_code(language), task=task, prompt=prompt)
