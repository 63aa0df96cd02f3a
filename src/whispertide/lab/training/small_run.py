"""What the runs of small things, hush words and causal adapters, have in common: their folder.

Knows nothing of what is trained.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from whispertide.errors import OptionError, OutputError

OPTIONS = "options.json"


@contextmanager
def writing() -> Iterator[None]:
    """Raise `OutputError` where what is done meanwhile cannot be written."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"expected a folder that can be written; got {error}") from error


def note_options(options: Any, folder: Path) -> None:
    """Write them, a dataclass, or see that those of the run are the same.

    Raises `OptionError` where they are others, `OutputError` where the folder is not a run or cannot be written.
    """
    path, asked = folder / OPTIONS, json.loads(json.dumps(asdict(options)))
    try:
        if path.exists():
            there = json.loads(path.read_text(encoding="utf-8"))
            if other := sorted(name for name in asked if there.get(name) != asked[name]):
                raise OptionError(
                    f"expected the options that the run in {folder} began with; got others for {', '.join(other)}: "
                    "choose another --run, or the same options to continue"
                )
            return
        if folder.exists() and any(folder.iterdir()):
            raise OutputError(f"expected a new or empty folder, or a run of the same command; {folder} is neither")
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asked, indent=2) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, OptionError | OutputError):
            raise
        raise OutputError(f"expected a folder for the run that can be written and read; got {error}") from error
