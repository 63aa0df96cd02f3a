"""A folder for what is going to be made: looked at before the work is done. Knows nothing of what goes into it."""

from pathlib import Path

from whispertide.atomic import check_place, writing
from whispertide.errors import OutputError


def check_new(output: Path, what: str) -> None:
    """Raise `OutputError` unless `output` is an empty folder or a new one that can be made; `what` says what it is
    for.
    """
    with writing(output, f"choose another folder {what}"):
        check_place(output)
        taken = output.exists() and (not output.is_dir() or any(output.iterdir()))
    if taken:
        raise OutputError(f"expected a new or empty folder {what}; {output} is neither")
