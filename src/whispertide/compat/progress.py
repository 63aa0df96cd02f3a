"""How far a transcription is, as a bar on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown(wanted: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar while the context lasts. Yields its setter, in samples done and in all; None if it is not `wanted`."""
    if not wanted:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("")

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield show
