"""What the runs of small things, hush words and causal adapters, have in common: their folder.

Knows nothing of what is trained.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from whispertide.atomic import write_text
from whispertide.errors import OptionError, OutputError
from whispertide_lab.training.shards import Shards

OPTIONS = "options.json"
# Digests next to the options, which runs of earlier versions do not have: of the speech, and of what a run began from.
_SPEECH, _FROM = "speech", "from"


def note_options(options: Any, folder: Path, speech: Shards, start: str = "") -> None:
    """Write them, a dataclass, of which speech the run is, and the digest of what it starts from ("": of nothing); or
    see that those of the run are the same.

    Raises `OptionError` where they are others, `OutputError` where the folder is not a run or cannot be written.
    """
    path, digests = folder / OPTIONS, {_SPEECH: speech.digest(), _FROM: start}
    asked = {**json.loads(json.dumps(asdict(options))), **digests}
    try:
        if path.exists():
            there = {**digests, **json.loads(path.read_text(encoding="utf-8"))}
            if other := sorted(name for name in asked if there.get(name) != asked[name]):
                raise OptionError(
                    f"expected the options and the speech that the run in {folder} began with; got others for "
                    f"{', '.join(other)}: choose another --run, or the same to continue"
                )
            return
        if folder.exists() and any(folder.iterdir()):
            raise OutputError(f"expected a new or empty folder, or a run of the same command; {folder} is neither")
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(asked, indent=2) + "\n")
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, OptionError | OutputError):
            raise
        raise OutputError(f"expected a folder for the run that can be written and read; got {error}") from error
