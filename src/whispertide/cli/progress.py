"""A progress bar on standard error for work that is counted in steps; lines for the user go above it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from whispertide.cli.exit import say, speaking_through

Advance = Callable[[str, int, int], None]  # what is running, steps done, and in all


@contextmanager
def counting(unit: str) -> Iterator[Advance]:
    """While entered, calls of what it gives move the bar. Without a terminal, a line says what is running now."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    count = TextColumn(f"{{task.completed:.0f}}/{{task.total:.0f}} {unit}")
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn(), TimeRemainingColumn())
    last = ""

    def above(message: str) -> None:
        console.print(message, markup=False, highlight=False, soft_wrap=True)

    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)

        def advance(label: str, done: int, total: int) -> None:
            nonlocal last
            if label != last and not console.is_terminal:
                say(label)
            last = label
            progress.update(task, description=label, completed=done, total=total)

        with speaking_through(above):
            yield advance
