"""What the commands of `whispertide bench` share: options, a runner with a progress bar, and pages that are written."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whispertide.atomic import writing
from whispertide.cli import completion
from whispertide.cli.exit import say, speaking_through
from whispertide.cli.progress import above, counted_bar
from whispertide.errors import OptionError
from whispertide.options import BUNDLED_MODEL

if TYPE_CHECKING:
    from rich.progress import Progress

    from whispertide_lab.evaluation.grid import Setup
    from whispertide_lab.evaluation.runner import Runner

DEFAULT_FOLDER = Path("bench-results")
DEFAULT_MODELS = BUNDLED_MODEL
DEFAULT_CORPORA = "talks"
DEFAULT_EXCERPT_S = 900.0
PAPER_EXCERPT_S = 120.0  # so that an item takes minutes
PIECES = 16
ALL = "all"


def _excerpt(text: str) -> float:
    """Seconds, or infinity for "all"."""
    try:
        length_s = math.inf if text == ALL else float(text)
    except ValueError:
        length_s = math.nan
    if not length_s > 0:
        raise typer.BadParameter(f"expected more than 0 s, for example 900, or {ALL!r}; got {text!r}")
    return length_s


def listed(flag: str, short: str, what: str, names: completion.Complete) -> Any:
    """An option that takes several names."""
    return typer.Option(flag, short, metavar="A,B", help=what, autocompletion=completion.complete_last(names))


ModelsOption = Annotated[str, listed("--models", "-m", "Models, separated by commas.", completion.models)]
QuickOption = Annotated[
    bool,
    typer.Option("--quick", help="Only a small part of each corpus, within two minutes, as a test run."),
]
ClockOption = Annotated[
    str,
    typer.Option(
        "--clock",
        metavar="NAME",
        help="simulated (computing takes its measured time), free (it takes none) or live (real time).",
    ),
]
FolderOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Where results are kept. An interrupted run continues.")
]
ExcerptOption = Annotated[
    float | None,
    typer.Option(
        "--excerpt",
        metavar="S",
        parser=_excerpt,
        help=f"Only S seconds of each corpus, in as many voices as fit, or {ALL}. bench run: "
        f"{DEFAULT_EXCERPT_S:g}, bench paper: {PAPER_EXCERPT_S:g}, or as many clips as the paper has; with --quick 60. "
        "Live programs: at most 900.",
    ),
]
CORPORA_HELP = (
    "talks, rooms, noisy, nonspeech (made here), people or people-PART of people's voices (lab/docs/benchmarks.md; "
    "people:FOLDER of a folder), manifest:FILE (your own recordings: "
    "docs/guides/compare-your-own-audio.md), or librispeech:, tedlium:, meanwhile:, timit:, fleurs:, commands: (of "
    "`train commands`) with a folder"
)
PiecesOption = Annotated[
    int,
    typer.Option("--pieces", min=1, metavar="N", help="Number of pieces of an excerpt. 1: one long recording."),
]
AlignOption = Annotated[
    bool,
    typer.Option("--align", help="Word times by forced alignment where there are no exact ones; they are marked."),
]
AlignerOption = Annotated[
    str,
    typer.Option(
        "--aligner",
        metavar="MODEL",
        help="The model that places words, for example base; means --align. Default: the first of --models.",
        autocompletion=completion.models,
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of synthetic corpora.")]


@contextmanager
def measuring(folder: Path, setup: "Setup") -> "Iterator[Runner]":
    """A runner with a progress bar on standard error."""
    from rich.console import Console

    from whispertide_lab.evaluation.runner import Runner
    from whispertide_lab.evaluation.watch import Watch

    console = Console(stderr=True)

    class Bar(Watch):
        """The runner's view of the progress bar, which is there only while a cell is being measured."""

        progress: "Progress | None" = None

        def begin(self, label: str, total_s: float) -> None:
            """Show a new bar."""
            self.progress = counted_bar("s of audio", console)
            self.progress.add_task(label, total=total_s)
            if console.is_terminal:
                self.progress.start()
            else:
                say(label)

        def advance(self, done_s: float) -> None:
            """Move it."""
            if self.progress is not None:
                self.progress.advance(self.progress.task_ids[0], done_s)

        def skip(self, done_s: float) -> None:
            """Move it without a sample for its speed, by which it judges the time left."""
            if self.progress is not None:
                self.progress.tasks[0].completed += done_s

        def end(self) -> None:
            """Take it away."""
            if self.progress is not None and console.is_terminal:
                self.progress.stop()

        def say(self, message: str) -> None:
            """A line above it."""
            say(message)

    with speaking_through(above(console)):
        try:
            yield Runner(folder, setup, Bar())
        except KeyboardInterrupt:
            say(f"finished utterances are kept in {folder}; the same command continues from there")
            raise


def write_page(path: Path, text: str) -> None:
    """Write a page whole or not at all, and say where it is."""
    from whispertide.atomic import write_text

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    say(f"wrote {path}")


def names_in(text: str) -> tuple[str, ...]:
    """The names of a list with commas, each once."""
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def wanted_in(text: str) -> tuple[str, ...]:
    """As `names_in`, for a list that means everything, or the usual, where it is empty: a mere comma is no such list,
    but a name that nobody has.
    """
    return names_in(text) or tuple(text.split())


def numbers_in(text: str) -> tuple[float, ...]:
    """Seconds of a list with commas; of an empty text none. Raises `OptionError`, also for nothing but commas."""
    try:
        return tuple(float(part) for part in wanted_in(text))
    except ValueError:
        raise OptionError(f"expected seconds separated by commas, for example 0.5,1,2; got {text!r}") from None
