"""Exit codes, and the one place where an error becomes a message and a code.

Knows the error tree and nothing else. `docs/reference/cli.md` documents the codes.
"""

import errno
import os
import shutil
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from functools import wraps
from typing import NoReturn, ParamSpec

import typer

from whispertide.errors import (
    AddressError,
    AudioError,
    CheckpointError,
    CorpusError,
    GraphError,
    OptionError,
    OutputError,
    TruncatedAudioError,
    WhispertideError,
)

P = ParamSpec("P")


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    AUDIO = 3
    MODEL = 4
    OUTPUT = 5
    TRUNCATED = 6
    ADDRESS = 7
    INTERRUPTED = 130


HELP = (
    "Exit codes: 0 success; 1 failure; 2 wrong usage; 3 the audio cannot be used; 4 the model cannot be used; "
    "5 the output cannot be written; 6 the audio ended too early, its transcript was written; 7 the port is in use, or "
    "there is no Ray cluster; 130 interrupted."
)

# The first match counts, so a kind stands before its parent.
_CODES: tuple[tuple[type[WhispertideError], ExitCode], ...] = (
    (TruncatedAudioError, ExitCode.TRUNCATED),
    (AudioError, ExitCode.AUDIO),
    (CorpusError, ExitCode.AUDIO),
    (CheckpointError, ExitCode.MODEL),
    (GraphError, ExitCode.MODEL),
    (OptionError, ExitCode.USAGE),
    (OutputError, ExitCode.OUTPUT),
    (AddressError, ExitCode.ADDRESS),
)


def code_for(error: BaseException) -> ExitCode:
    """The exit code for an error."""
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    # Nobody who prints expects a full disk, which everywhere else is an error of the tree.
    full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    return next(
        (code for kind, code in _CODES if isinstance(error, kind)), ExitCode.OUTPUT if full else ExitCode.FAILURE
    )


def combine(codes: list[ExitCode]) -> ExitCode:
    """One code for several files: an interrupt, else the first failure, else a truncated file, else success."""
    if ExitCode.INTERRUPTED in codes:
        return ExitCode.INTERRUPTED
    failures = [code for code in codes if code not in (ExitCode.OK, ExitCode.TRUNCATED)]
    return failures[0] if failures else max(codes, default=ExitCode.OK)


def _print(message: str) -> None:
    with suppress(OSError):  # nobody is there to read it; the exit code still tells
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
        print(wrapped(message, width), file=sys.stderr, flush=True)  # noqa: T201


def wrapped(message: str, width: int | None) -> str:
    """Wrap a message for a terminal of this width, which would break it inside words; one line for any other output."""
    if width is None:
        return message
    wrapper = textwrap.TextWrapper(max(20, width - 1), break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(wrapper.fill, message.split("\n")))


_speaker: list[Callable[[str], None]] = [_print]


def say(message: str) -> None:
    """Print a line for the user on standard error; standard output is for transcripts only."""
    _speaker[-1](message)


@contextmanager
def speaking_through(speaker: Callable[[str], None]) -> Iterator[None]:
    """Print lines for the user through `line` while something redraws the terminal."""
    _speaker.append(speaker)
    try:
        yield
    finally:
        _speaker.pop()


def report(error: BaseException, about: str = "") -> ExitCode:
    """Print `error` as one line (a traceback too under WHISPERTIDE_DEBUG=1) and return its exit code."""
    if os.environ.get("WHISPERTIDE_DEBUG"):
        traceback.print_exception(error)
    code = code_for(error)
    if code is ExitCode.INTERRUPTED:
        say("interrupted")
        return code
    text = str(error) if isinstance(error, WhispertideError | OSError) else _unforeseen(error)
    say(f"error: {about}: {text}" if about and about not in text else f"error: {text}")
    return code


def _unforeseen(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory; try a smaller model, or fewer threads"
    return f"{type(error).__name__}: {error} (this is a bug; WHISPERTIDE_DEBUG=1 shows where it happened)"


def guarded(command: Callable[P, ExitCode]) -> Callable[P, NoReturn]:
    """Make a command leave with its exit code. No traceback reaches the user; a warning is a line."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> NoReturn:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default", UserWarning)
                warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
                code = command(*args, **kwargs)
        except typer.Exit:
            raise
        except typer.Abort as aborted:  # of a question; at the end of the input, or by Ctrl-C
            if not isinstance(aborted.__context__, KeyboardInterrupt):
                raise
            code = report(aborted.__context__)
        except KeyboardInterrupt as interrupt:
            code = report(interrupt)
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader of our output has gone; typer ends the program quietly
            code = report(error)
        raise typer.Exit(int(code))

    return run
