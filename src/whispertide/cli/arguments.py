"""The options that several commands share, and the values they become. Parsing only: nothing heavy is imported here."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from whispertide.cli import completion
from whispertide.cli.exit import ExitCode, say
from whispertide.cli.output import FORMATS, FormatName
from whispertide.cli.translator_choice import TranslationChoice
from whispertide.errors import OptionError
from whispertide.options import (
    ANY_SPEAKERS,
    BEAM,
    BUNDLED_MODEL,
    DEFAULT_RECIPE,
    MOST_SPEAKERS,
    MOST_THREADS,
    PRECISIONS,
    PROVIDERS,
    DecodeOptions,
    EngineOptions,
    SubtitleOptions,
    check_choice,
)
from whispertide.text_lines import read_lines

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.methods.short.hush import HushWord
    from whispertide.recipes.recipe import Recipe

Fields = Mapping[str, Any]  # fields of a dataclass -> the options that set them


def read_terms(given: str) -> tuple[str, ...]:
    """Read key terms from a file, one a line (# begins a comment, first or after a space), or as they stand, between
    commas.

    Raises `OptionError` for a file that cannot be read, and for what looks like one that is not there.
    """
    path = Path(given)
    try:
        if os.path.isfile(path):  # `Path` raises for a name that is too long, as that of a list may be
            return tuple(read_lines(path))
    except (OSError, ValueError) as error:
        raise OptionError(f"expected --keyterms as a text file in UTF-8, a term a line; {given}: {error}") from error
    if "," not in given and (path.suffix == ".txt" or "/" in given):
        raise OptionError(f"expected --keyterms to be an existing file, or terms separated by commas; got {given!r}")
    return _parted(given)


def _parted(given: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in given.split(",") if part.strip())


# Fields that are lists, and how the text of their option becomes one.
LISTED: Mapping[str, Callable[[str], tuple[str, ...]]] = {"languages": _parted, "keyterms": read_terms}


def group_options(command: Callable[..., ExitCode]) -> Callable[..., ExitCode]:
    """Make a command with one option for each field of the dataclasses that its annotations name.

    `engine: Annotated[EngineOptions, {"threads": typer.Option(...)}]` becomes the option for `threads`, with the
    dataclass's own type and default. Options that are `LISTED` are texts that become lists.
    """
    groups: dict[str, tuple[Any, Fields]] = {}
    parameters: list[inspect.Parameter] = []
    signature = inspect.signature(command)
    for parameter in signature.parameters.values():
        kind, *about = get_args(parameter.annotation) or (parameter.annotation,)
        if not (about and isinstance(about[0], Mapping)):
            parameters.append(parameter)
            continue
        groups[parameter.name] = kind, about[0]
        types, defaults = get_type_hints(kind), {field.name: field.default for field in fields(kind)}
        for name, option in about[0].items():
            # A list is one text on the command line.
            shown, default = (str | None, None) if name in LISTED else (types[name], defaults[name])
            parameters.append(parameter.replace(name=name, annotation=Annotated[shown, option], default=default))

    @wraps(command)
    def run(**values: Any) -> ExitCode:
        for name, (kind, options) in groups.items():
            given = {field: values.pop(field) for field in options}
            for field, read in LISTED.items():
                if field in given:
                    given[field] = () if given[field] is None else read(given[field])
            values[name] = kind(**given)
        return command(**values)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


# --- the model --------------------------------------------------------------------------------------------------------

_engine = partial(typer.Option, rich_help_panel="Engine")
_MODEL: dict[str, Any] = {
    "metavar": "MODEL",
    "help": "A name such as base.en, a hub id, a folder, a .pt or a ggml file.",
    "autocompletion": completion.models,
}
Model = Annotated[str, typer.Option("--model", "-m", **_MODEL)]
ModelArgument = Annotated[str, typer.Argument(**_MODEL)]
ModelsArgument = Annotated[list[str], typer.Argument(**_MODEL | {"metavar": "MODEL..."})]
MeasuredModel = Annotated[
    str | None,
    typer.Argument(
        help="The model to measure; base is the default of `listen`.",
        autocompletion=completion.models,
        metavar="MODEL",
        show_default=BUNDLED_MODEL,
    ),
]
ModelOption = Annotated[str | None, typer.Option("--model", "-m", **_MODEL | {"help": "The same as MODEL."})]


def model_argument(model: str | None, option: str | None) -> str:
    """The model of a command that takes it as an argument or as an option. Raises `OptionError` if both are given."""
    if None not in (model, option):
        raise OptionError(f"expected one model; got {model} and --model {option}")
    return model or option or BUNDLED_MODEL


Revision = Annotated[str | None, _engine("--revision", help="Branch, tag or commit of a model on the hub.")]
_ENGINE: dict[str, Any] = {
    "precision": _engine("--precision", metavar="NAME", help=f"{', '.join(PRECISIONS)}."),
    "provider": _engine("--provider", metavar="NAME", help=f"{', '.join(PROVIDERS)}."),
    "threads": _engine("--threads", min=0, max=MOST_THREADS, help="0 = as tuned, else one per core, at most 4."),
}
_OF_WORKERS = _engine("--threads", min=0, max=MOST_THREADS, help="Threads of each worker; 0 = one.")
Engine = Annotated[EngineOptions, _ENGINE]
WorkersEngine = Annotated[EngineOptions, _ENGINE | {"threads": _OF_WORKERS}]


def load(
    model: str, engine: EngineOptions, revision: str | None = None, hush: "HushWord | None" = None
) -> "Transcriber":
    """Load a model; standard error shows its download or build. `hush`: as in `Transcriber`."""
    from whispertide import api

    transcriber = api.load(model, **asdict(engine), revision=revision, announce=say)
    return transcriber if hush is None else api.Transcriber(transcriber.model, hush=hush)


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Device = Annotated[str | None, typer.Option("--device", "-d", help="The microphone, by number or part of its name.")]

# --- what is written --------------------------------------------------------------------------------------------------

_text = partial(typer.Option, rich_help_panel="Transcript")


def text_options(option: Callable[..., Any], language: str) -> Fields:
    """Options for the fields of `DecodeOptions`, made by `option`; `language` is the help of that one."""
    return {
        "language": option("--language", "-l", help=language),
        "languages": option("--languages", metavar="CODE,…", help="Languages that may be detected."),
        "task": option("--task", metavar="NAME", help="transcribe, or translate into English."),
        "prompt": option("--prompt", help="Text that sets spelling and style."),
        "keyterms": option("--keyterms", metavar="FILE|A,B", help="Names and words to recognise."),
        "speakers": option(
            "--speakers",
            metavar="[N]",
            min=0,
            max=MOST_SPEAKERS,
            help=f"Label each word with its speaker. N: the most speakers, {ANY_SPEAKERS} if left out; 0: no labels.",
        ),
    }


Text = Annotated[
    DecodeOptions, text_options(_text, "The spoken language: a code, tag or name. Default: auto (detected).")
]
# A stream's search is its recipe's.
Beam = Annotated[
    int | None,
    _text("--beam", metavar="N", min=1, help=f"Number of hypotheses for whole recordings; default: {BEAM}."),
]
Multichannel = Annotated[
    bool, _text("--multichannel", help="Transcribe each channel separately, as one speaker, and label the words.")
]
Fast = Annotated[bool, _text("--fast", help="Greedy search instead of beam search: less computing, more errors.")]
Format = Annotated[
    FormatName | None, _text("--format", "-f", metavar="NAME", help=f"{', '.join(FORMATS)}. Default: txt.")
]
Formats = Annotated[
    str | None,
    _text(
        "--format",
        "-f",
        metavar="NAME,…",
        help=f"{', '.join(FORMATS)}; several need a folder. Default: by the output's extension, else txt.",
        autocompletion=completion.complete_last(completion.formats),
    ),
]
Subtitles = Annotated[
    SubtitleOptions,
    {
        "line_width": _text("--line-width", metavar="N", help="Characters in a line of a subtitle."),
        "lines": _text("--lines", metavar="N", help="Lines of a subtitle: 1 or 2."),
    },
]


def check_options(options: DecodeOptions) -> DecodeOptions:
    """Check the options, with languages as codes, and None for "auto". Raises `UnknownLanguageError`, and `OptionError`
    for a language that is not among those that are allowed, and `CheckpointNotFoundError` where voices are to be told
    apart without a network for it.
    """
    from whispertide.checkpoint.languages import allowed_languages

    if options.speakers:
        from whispertide.speakers.embedding import find_embedding

        find_embedding()
    allowed, language = allowed_languages(options.languages, options.language)
    return replace(options, language=language, languages=allowed)


def format_names(given: str | None) -> list[str]:
    """Split "srt,json" into its names, each once. Raises `OptionError` for an unknown one."""
    names = [] if given is None else list(dict.fromkeys(name.strip() for name in given.split(",")))
    for name in names:
        check_choice("--format", name, FORMATS)
    return names


# --- translation ------------------------------------------------------------------------------------------------------

_translate = partial(typer.Option, rich_help_panel="Translation")
TRANSLATION: Fields = {
    "translate_to": _translate(
        "--translate-to", metavar="LANGUAGE", help="Translate each sentence, with --translator. Off by default."
    ),
    "translator": _translate(
        "--translator",
        metavar="URL|FOLDER",
        help="OpenAI-compatible server, or a folder with a CTranslate2 model. Text is sent to the server, audio never.",
    ),
    "translator_model": _translate("--translator-model", metavar="NAME", help="The model to request from the server."),
    "correct": _translate("--correct", help="Correct each sentence with the server's language model. Off by default."),
}
Translation = Annotated[TranslationChoice, TRANSLATION]

# --- streaming --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """The recipe and its changes; None means the engine's, or the recipe's, own."""

    recipe: str | None = None
    changes: list[str] | None = None
    vad: bool | None = None
    framing: str | None = None
    hush: Path | None = None
    executor: str | None = None
    delay: float | None = None

    @property
    def is_asked(self) -> bool:
        """True if an option was given that only streams have; a gate, a framing and a hush word others have, too."""
        return any(choice is not None for choice in (self.recipe, self.changes, self.executor, self.delay))

    def hush_word(self) -> "HushWord | None":
        """The hush word of `--hush`.

        Raises `CheckpointError` for a file that is none, `OptionError` for another framing with it or an unknown one.
        """
        from whispertide.methods.short.hush import HushWord
        from whispertide.streaming.framing import Hush, get_framing

        if self.framing is not None:
            get_framing(self.framing)
        if self.hush is None:
            return None
        if self.framing not in (None, Hush.kind):
            raise OptionError(
                f"expected --framing {Hush.kind} with --hush; got {self.framing!r}. Leave out one of them"
            )
        return HushWord.load(self.hush)

    def resolve(self, word: "HushWord | None" = None, start: "Recipe | None" = None) -> "Recipe":
        """Build the recipe, with a hush `word` if there is one; `start` are the changes if no recipe was named.

        Raises `UnknownRecipeError` or `OptionError`, so call it before anything is downloaded.
        """
        from whispertide.recipes.catalogue import get_recipe
        from whispertide.recipes.recipe import parse_overrides

        changes = list(self.changes or ())
        if self.delay is not None:
            changes.append(f"delay_s={self.delay:g}")
        if word is not None:
            changes += ["framing=hush", f"hush_s={word.seconds}"]
        elif self.framing is not None:
            changes.append(f"framing={self.framing}")
        if self.executor is not None:
            changes.append(f"executor={self.executor}")
        if start is None or self.recipe is not None:
            start = get_recipe(DEFAULT_RECIPE if self.recipe is None else self.recipe)
        recipe = parse_overrides(start, changes)
        return recipe if self.vad is None else recipe.replace(vad=self.vad)


_stream = partial(typer.Option, rich_help_panel="Streaming")
Changes = Annotated[
    list[str] | None,
    _stream(
        "--set",
        metavar="FIELD=VALUE",
        help="Change one setting of the recipe; repeatable.",
        autocompletion=completion.settings,
    ),
]
RECIPE: Fields = {
    "recipe": _stream(
        "--recipe",
        "-r",
        metavar="NAME",
        help=f"Streaming recipe; default: {DEFAULT_RECIPE}.",
        autocompletion=completion.recipes,
    ),
    "changes": get_args(Changes)[1],
    "delay": _stream(
        "--delay",
        metavar="S",
        min=0.35,
        max=2,
        help="Average delay in seconds until tide confirms a word; at least 0.35 with base, 0.47 with other models. A "
        "longer delay means fewer errors.",
    ),
}
NoTune = Annotated[bool, _stream("--no-tune", help="Skip the short tuning before the first live use of a model.")]
GATE: Fields = {
    "vad": _stream(
        "--vad/--no-vad", help="Skip audio without speech. Default: as in the recipe; on for whole recordings."
    )
}
RecipeOptions = Annotated[StreamChoice, RECIPE]
Stream = Annotated[
    StreamChoice,
    {
        **RECIPE,
        **GATE,
        "framing": _stream(
            "--framing",
            metavar="NAME",
            help="How windows are padded: pad30, bare, buckets, zeros, merged, hush. Default: as in the recipe.",
        ),
        "hush": _stream("--hush", metavar="FILE", help="Hush word (.npz, .csv) for --framing hush."),
        "executor": _stream(
            "--executor",
            metavar="NAME",
            help="serial, pipelined, or auto: the result of `whispertide profile`. Default: as in the recipe.",
        ),
    },
]

# --- training and measuring -------------------------------------------------------------------------------------------

Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes. Default: one per core.")]
Attachment = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: next to the checkpoint.")
]
