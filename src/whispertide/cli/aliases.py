"""Options as the command lines of openai-whisper and faster-whisper spell them, which no help lists, and options of our
own whose number may be left out.

Before a command reads its arguments, each alias becomes the option that the command has for it. An option that a
command has itself keeps its meaning there: `listen --device` is a microphone.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from whispertide.cli.misplaced import WithModelHints
from whispertide.errors import OptionError
from whispertide.options import ANY_SPEAKERS, WHISPER_JSON, parse_switch
from whispertide.spellings import precision_of, provider_of

# Fields of `DecodeOptions` that are options of the other programs.
IN_PYTHON = (
    "best_of",
    "compression_ratio_threshold",
    "condition_on_previous_text",
    "length_penalty",
    "logprob_threshold",
    "max_initial_timestamp",
    "no_speech_threshold",
    "patience",
    "suppress_blank",
    "suppress_tokens",
)
_ALL = ("txt", "vtt", "srt", "tsv", WHISPER_JSON)


@dataclass(frozen=True, slots=True)
class _Alias:
    """An option of other programs. `option` is ours: a command without it does not know the alias either. `rewrite`
    makes our arguments of its value, and raises `OptionError` for one that cannot be served.
    """

    option: str
    rewrite: Callable[[str], Sequence[str]]


def _same(option: str) -> _Alias:
    return _Alias(option, lambda value: (option, value))


def _switch(option: str, on: Sequence[str] = (), off: Sequence[str] = ()) -> _Alias:
    """Alias of an option with the values True and False."""

    def rewrite(value: str) -> Sequence[str]:
        wanted = parse_switch(value)
        if wanted is None:
            raise OptionError(f"expected True or False; got {value!r}")
        return on if wanted else off

    return _Alias(option, rewrite)


def _in_python(field: str) -> _Alias:
    """Option that only Python has, as a field of `DecodeOptions`."""

    def rewrite(value: str) -> Sequence[str]:
        raise OptionError(f"the command line cannot set this; in Python: whispertide.DecodeOptions({field}=...)")

    return _Alias("--format", rewrite)


def _formats(value: str) -> Sequence[str]:
    """`json` is openai-whisper's own shape, and `all` what that program writes."""
    names = _ALL if value == "all" else [WHISPER_JSON if name == "json" else name for name in value.split(",")]
    return "--format", ",".join(names)


ALIASES: Mapping[str, _Alias] = {
    "--output_format": _Alias("--format", _formats),
    "--output_dir": _Alias("--output", lambda folder: ("--output", f"{folder or '.'}/")),
    "--initial_prompt": _same("--prompt"),
    "--beam_size": _same("--beam"),
    "--max_line_width": _same("--line-width"),
    "--max_line_count": _same("--lines"),
    "--device": _Alias("--provider", lambda value: ("--provider", provider_of(value))),
    "--compute_type": _Alias("--precision", lambda value: ("--precision", precision_of(value))),
    "--fp16": _switch("--precision", ("--precision", "fp16"), ("--precision", "fp32")),
    "--vad_filter": _switch("--vad", ("--vad",), ("--no-vad",)),
    "--word_timestamps": _switch("--format"),  # words have their times anyway
    "--verbose": _switch("--format"),  # what is said on standard error is little
    "--hotwords": _same("--keyterms"),
    **{f"--{field}": _in_python(field) for field in IN_PYTHON},
    "--temperature": _in_python("temperatures"),
    "--log_prob_threshold": _in_python("logprob_threshold"),
}


# Where no number follows one of these it has this one. The parser would take the name of a file that follows for it.
NUMBERS: Mapping[str, str] = {"--speakers": str(ANY_SPEAKERS)}


class WithAliases(WithModelHints):
    """A command that knows the aliases of its options, and the numbers that were left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with our options in place of the aliases."""
        return super().parse_args(ctx, self.translated(ctx, args))

    def translated(self, ctx: Any, args: Sequence[str]) -> list[str]:
        """The arguments with our options in place of the aliases."""
        own = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        known = {name: alias for name, alias in ALIASES.items() if alias.option in own and name not in own}
        return list(_numbered(list(_rewritten(ctx, args, known))))


class WithFileAliases(WithAliases):
    """A command that writes into the working folder, as openai-whisper does, where it is called by its options:
    `--output_format` and no output. By our own it writes to standard output.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with the working folder as the output. One that is named comes later, and counts."""
        if "--output_format" in map(_name, args):
            args = ["--output", "./", *args]
        return super().parse_args(ctx, args)


def _name(argument: str) -> str:
    """The alias that an argument may be: with underscores, also where it was typed with hyphens."""
    name = argument.partition("=")[0]
    return "--" + name[2:].replace("-", "_") if name.startswith("--") else name


def _rewritten(ctx: Any, args: Sequence[str], known: Mapping[str, _Alias]) -> Iterator[str]:
    rest = iter(args)
    for argument in rest:
        if argument == "--":  # what follows are names of files
            yield argument
            yield from rest
            return
        alias = known.get(name := _name(argument))
        if alias is None:
            yield argument
            continue
        _, given, value = argument.partition("=")
        try:
            yield from alias.rewrite(value if given else _next(rest))
        except OptionError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param_hint=f"'{name}'") from error


def _numbered(args: Sequence[str]) -> Iterator[str]:
    """The arguments with a number after each option that may come without one."""
    names = args[: args.index("--")] if "--" in args else args
    for at, argument in enumerate(args):
        yield argument
        if at < len(names) and argument in NUMBERS and not re.fullmatch(r"[-+]?\d+", "".join(args[at + 1 : at + 2])):
            yield NUMBERS[argument]


def _next(rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None:
        raise OptionError("expected a value after it; got none")
    return value
