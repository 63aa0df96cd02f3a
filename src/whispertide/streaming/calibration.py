"""What `whispertide tune` found out about a checkpoint on this machine, kept in the cache and used from then on.

One file per checkpoint, by the hash over its content, next to the folder of its graphs. What a checkpoint bears holds
wherever the file is read; threads and step hold for one processor, number of cores, precision and provider. Knows no
audio and measures nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from whispertide.atomic import write_text
from whispertide.checkpoint.cache import cache_dir
from whispertide.errors import OptionError
from whispertide.model.providers import physical_cores
from whispertide.options import EngineOptions
from whispertide.streaming.allocation import processor
from whispertide.streaming.recipe import Recipe

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Pace:
    """What this machine does best with the framing: threads, and the step that its rounds leave room for."""

    threads: int
    step_s: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found.

    changes  of a recipe that leaves its framing open: the framing and its fields, guards, and the rule that says which
             words stay; none where nothing could be told, so that the careful framing stays
    why      what was measured, in half a sentence for the user
    short    whether this is the short form, which a longer one replaces
    pace     by machine, as `machine_of` names it
    report   all figures, as they were shown
    """

    changes: Mapping[str, Any]
    why: str
    short: bool = False
    pace: Mapping[str, Pace] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)

    def applied(self, recipe: Recipe, options: EngineOptions) -> Recipe:
        """The recipe with its framing, and with a longer step where it asks for one that is too short for this machine.

        Raises `OptionError` for changes that the recipe cannot have.
        """
        framed = recipe.replace(framing=self.changes["framing"])
        changes = {name: value for name, value in self.changes.items() if framed.has(name)}
        if framed.settings().get("rule"):  # the user's own
            changes.pop("rule", None)
        framed = framed.replace(**changes)
        pace = self.pace.get(machine_of(options))
        return framed.replace(step_s=pace.step_s) if pace and pace.step_s > framed.schedule.step_s else framed


def machine_of(options: EngineOptions) -> str:
    """The machine and the engine whose pace was measured, as one text."""
    return f"{processor()}, {physical_cores()} cores, {options.precision}, {options.provider}"


def place(content_hash: str) -> Path:
    """Where the calibration of a checkpoint is or will be."""
    return cache_dir() / "tuned" / f"{content_hash[:20]}.json"


def remember(content_hash: str, found: Calibration) -> Path:
    """Keep it, with the paces of other machines that were kept before; returns where. Raises `OSError`."""
    before = recall(content_hash)
    if before is not None and before.changes == found.changes:
        found = replace(found, pace={**before.pace, **found.pace})
    path = place(content_hash)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({"format": FORMAT, "content_hash": content_hash, **asdict(found)}, indent=2))
    return path


def recall(content_hash: str) -> Calibration | None:
    """What is kept; None where the checkpoint was never tuned, or where the file is damaged, which is as good."""
    try:
        kept = json.loads(place(content_hash).read_text(encoding="utf-8"))
        if kept["format"] != FORMAT or kept["content_hash"] != content_hash:
            return None
        pace = {name: Pace(int(item["threads"]), float(item["step_s"])) for name, item in kept["pace"].items()}
        return Calibration(dict(kept["changes"]), str(kept["why"]), bool(kept["short"]), pace, kept["report"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def tuned_threads(content_hash: str, options: EngineOptions) -> int:
    """The threads that were found best here; 0: nobody has measured, or `options` name some already."""
    if options.threads:
        return options.threads
    found = recall(content_hash)
    pace = found.pace.get(machine_of(options)) if found is not None else None
    return pace.threads if pace else 0


def forget(content_hash: str) -> bool:
    """Remove what is kept; whether there was anything. Raises `OSError`."""
    path = place(content_hash)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def applied_or_none(found: Calibration | None, recipe: Recipe, options: EngineOptions) -> Recipe | None:
    """The recipe as calibrated; None where there is no calibration, or none that suits this recipe."""
    if found is None or not found.changes:
        return None
    try:
        return found.applied(recipe, options)
    except (OptionError, KeyError):  # of another release, or edited by hand
        return None
