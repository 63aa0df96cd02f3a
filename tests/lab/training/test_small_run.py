"""What a run notes of how it began."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from whispertide.errors import OptionError
from whispertide_lab.training.shards import Shards
from whispertide_lab.training.small_run import OPTIONS, note_options

NO_SPEECH = Shards(())


@dataclass(frozen=True)
class Options:
    rank: int = 2


def test_a_run_goes_on_from_what_it_began_from(tmp_path: Path) -> None:
    note_options(Options(), tmp_path, NO_SPEECH, "feed")
    note_options(Options(), tmp_path, NO_SPEECH, "feed")
    for start in ("beef", ""):
        with pytest.raises(OptionError, match="got others for from: choose another --run"):
            note_options(Options(), tmp_path, NO_SPEECH, start)
    with pytest.raises(OptionError, match="got others for from, rank"):
        note_options(Options(3), tmp_path, NO_SPEECH, "beef")


def test_a_run_that_began_before_that_was_noted_goes_on(tmp_path: Path) -> None:
    (tmp_path / OPTIONS).write_text(json.dumps({"rank": 2}))
    note_options(Options(), tmp_path, NO_SPEECH, "feed")
    with pytest.raises(OptionError, match="got others for rank"):
        note_options(Options(3), tmp_path, NO_SPEECH, "feed")
