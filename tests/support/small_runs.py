"""Runs of training as small as can be, for the tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from whispertide_lab.training.presets import Wish, make_options, make_start
from whispertide_lab.training.run import Run, begin
from whispertide_lab.training.run_options import Speech, with_settings

QUICK = (
    *("report_every=1", "save_every=2", "batch.seconds=3", "batch.lengths_s=[1, 2]", "batch.shares=[0.5, 0.5]"),
    *("windows.single=1", "average=0.5"),
)


def silent(message: str) -> None:
    pass


def begun(
    folder: Path, speech: Path | tuple[Speech, ...], *settings: str, told: Callable[[str], None] = silent, **wish: Any
) -> Run:
    """A small run of four updates, from scratch unless told otherwise."""
    asked: dict[str, Any] = {"shape": None if "model" in wish else "small", "steps": 4, "padded_finish": False}
    said = (Speech(str(speech)),) if isinstance(speech, Path) else speech
    wanted = Wish(speech=said, **(asked | wish))
    start = make_start(wanted, told)
    return begin(folder, with_settings(make_options(wanted, start), [*QUICK, *settings]), start, "cpu", told)
