"""The command line: puts the commands together. One file per command; heavy imports happen when a command runs.

Other packages bring commands, too (`plugins`).
"""

import os
import sys
from typing import Annotated

import typer

from whispertide import __version__
from whispertide.cli.aliases import WithAliases, WithFileAliases
from whispertide.cli.batch import batch
from whispertide.cli.demo import demo
from whispertide.cli.dictate import dictate
from whispertide.cli.doctor import doctor
from whispertide.cli.exit import HELP, report
from whispertide.cli.interrupt import end_as_after_ctrl_c
from whispertide.cli.listen import listen
from whispertide.cli.models import models
from whispertide.cli.plugins import WithPlugins
from whispertide.cli.profile import profile
from whispertide.cli.replay import replay
from whispertide.cli.serve import serve
from whispertide.cli.transcribe import transcribe
from whispertide.cli.tune import tune
from whispertide.cli.understand import understand

app = typer.Typer(
    name="whispertide",
    cls=WithPlugins,
    help="Live speech-to-text with Whisper models on your own machine.",
    epilog=HELP,
    no_args_is_help=True,
    add_completion=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)
app.command(epilog=HELP, cls=WithFileAliases)(transcribe)
for command in (batch, listen, dictate, understand, demo, serve, replay, doctor, tune, profile):
    app.command(epilog=HELP, cls=WithAliases)(command)
app.add_typer(models, name="models", epilog=HELP)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"whispertide {__version__}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Download nothing, in any command. The same as HF_HUB_OFFLINE=1.")
    ] = False,
) -> None:
    """Live speech-to-text with Whisper models on your own machine."""
    if offline:
        from whispertide.checkpoint.download import forbid_network

        forbid_network()


def main() -> None:
    """Run `whispertide`."""
    end_as_after_ctrl_c()
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # What cannot be printed on an old terminal must not end the run; files and pipes get UTF-8 always.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")
    try:
        app()
    except (OSError, KeyboardInterrupt) as error:  # before a command runs, or from its help; it reports its own errors
        sys.exit(int(report(error)))


def _fill_closed_streams() -> None:
    """Open standard streams that the caller has closed (`2>&-`). Python has None there, and the next file to be opened
    would get its number, and with it all that libraries print. Standard input stays None: it has nothing to read.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if name != "stdin":
                setattr(sys, name, os.fdopen(handle, "w"))


if __name__ == "__main__":
    main()
