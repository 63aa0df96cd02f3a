"""A progress bar on standard error for work that is counted in steps; lines for the user go above it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whispertide.cli.exit import say, speaking_through, wrapped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Advance = Callable[[str, int, int], None]  # what is running, steps done, and in all


def above(console: "Console") -> Callable[[str], None]:
    """Print lines for the user above the bar that `console` draws."""

    def speak(message: str) -> None:
        text = wrapped(message, console.width if console.is_terminal else None)
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    return speak


def counted_bar(unit: str, console: "Console") -> "Progress":
    """Make a bar with a count, the time that it took and the time left; it disappears at the end."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    count = (MofNCompleteColumn(), TextColumn(unit))  # it may be drawn before anything is known of the total
    columns = (TextColumn("{task.description}"), BarColumn(), *count, TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def counting(unit: str) -> Iterator[Advance]:
    """Yield a function that moves the bar. Without a terminal, a line names the present step."""
    from rich.console import Console

    console = Console(stderr=True)
    last = ""

    with counted_bar(unit, console) as progress:
        task = progress.add_task("", total=None)

        def advance(label: str, done: int, total: int) -> None:
            nonlocal last
            if label != last and not console.is_terminal:
                say(label)
            last = label
            progress.update(task, description=label, completed=done, total=total)

        with speaking_through(above(console)):
            yield advance
