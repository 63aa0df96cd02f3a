"""The results of `whispertide tune` for a checkpoint on this machine, kept in the cache and used from then on.

One file per checkpoint, by the hash over its content and its adapter for short windows (`adapted_hash`). What suits a
checkpoint holds wherever the file is read; threads and step hold for one processor, number of cores, precision and
provider. Knows no audio and measures nothing.

For some of OpenAI's checkpoints the package has a calibration, measured on many people (`shipped_calibration`). It
counts where nobody has tuned.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.attachments import BUNDLED
from whispertide.checkpoint.cache import cache_path, read_note, write_note
from whispertide.checkpoint.short import adapted_hash
from whispertide.errors import OptionError
from whispertide.methods.attention.tide import Tide
from whispertide.model.providers import physical_cores, thread_count
from whispertide.model.whisper import WhisperModel
from whispertide.options import DEFAULT_RECIPE, EngineOptions
from whispertide.plural import counted
from whispertide.recipes.allocation import processor
from whispertide.recipes.recipe import Recipe
from whispertide.streaming.choice import field_types
from whispertide.types import Announce

FORMAT = 1
# Settings that go together: what a share of revisions or a probability comes to, the rule decides.
_OF_RULE = ("rule", "max_revision_rate", "min_shown_probability")


@dataclass(frozen=True, slots=True)
class Pace:
    """The best settings of this machine with the framing: threads, and the step that rounds of `recipe` allow."""

    threads: int
    step_s: float
    recipe: str = DEFAULT_RECIPE


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result of tuning.

    changes  of a recipe that leaves its framing open: the framing and its fields, guards, and the rule that says which
             words stay; none where nothing could be told, so that all stays as it was
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
        """The recipe with its framing, and with a longer step where it is the one that was timed and asks for one that
        is too short for this machine. Settings of the policy that somebody has changed stay.

        Raises `OptionError` for changes that the recipe cannot have.
        """
        # The framing first: which of the other changes the recipe can have depends on it.
        framed = recipe.replace(framing=self.changes["framing"])
        asked = _asked(recipe)
        if "rule" in asked:
            asked |= {*_OF_RULE}
        changes = {name: value for name, value in self.changes.items() if framed.has(name) and name not in asked}
        framed = framed.replace(**changes)
        pace = self.timed(recipe, options)
        if pace is None or pace.step_s <= framed.schedule.step_s:
            return framed
        return framed.with_step(pace.step_s)

    def timed(self, recipe: Recipe, options: EngineOptions) -> Pace | None:
        """The timing on this machine with rounds of this recipe; None: nothing."""
        pace = self.pace.get(machine_of(options))
        return pace if pace is not None and pace.recipe == recipe.name else None

    def said(self, recipe: Recipe, framed: Recipe, options: EngineOptions) -> str:
        """For the user, in a line: framing and why, threads and step, and whose rule it is that confirms words."""
        pace, threads = self.timed(recipe, options), thread_count(options)
        timed = "not timed here"
        if pace is not None:
            timed = "as timed here" if pace.threads == threads else f"timed here with {counted(pace.threads, 'thread')}"
        parts = [
            f"{framed.framing.name}, because {self.why}",
            f"{counted(threads, 'thread')} and a step of {framed.schedule.step_s:g} s, {timed}",
        ]
        if isinstance(framed.policy, Tide):
            whose = "a rule fitted to this checkpoint" if _rule(framed) else "the shipped rule"
            parts.append(f"words confirmed by {'your own rule' if _rule(recipe) else whose}")
        return "; ".join(parts)

    def after(self, before: "Calibration | None") -> "Calibration":
        """With the paces of other machines that were found before, where the framing is the same: a pace is one of it,
        whatever rule confirms words.
        """
        if before is None or before.framing != self.framing:
            return self
        return replace(self, pace={**before.pace, **self.pace})

    @property
    def framing(self) -> dict[str, Any]:
        """The changes that say how windows are heard."""
        return {name: value for name, value in self.changes.items() if name not in _OF_RULE}

    @property
    def confirming(self) -> dict[str, Any]:
        """The changes that say when words are confirmed: the rule and what goes with it."""
        return {name: value for name, value in self.changes.items() if name in _OF_RULE}


def _asked(recipe: Recipe) -> set[str]:
    """The settings of the policy that are not as by default: somebody wants them so, whatever was measured."""
    policy, usual = recipe.policy, type(recipe.policy)()
    return {name for name in field_types(type(policy)) if getattr(policy, name) != getattr(usual, name)}


def _rule(recipe: Recipe) -> str:
    """The learned rule that the recipe names; "" is the general one, or none where it has no use for one."""
    return recipe.policy.rule if isinstance(recipe.policy, Tide) else ""


def machine_of(options: EngineOptions) -> str:
    """The machine and the engine whose pace was measured, as one text."""
    return f"{processor()}, {physical_cores()} cores, {options.precision}, {options.provider}"


def place(content_hash: str) -> Path:
    """The path of a checkpoint's calibration, whether it is there or not."""
    # As many digits as the folders of its graphs have.
    return cache_path("tuned", f"{content_hash[:20]}.json")


def remember(content_hash: str, found: Calibration) -> Path:
    """Keep it, with the paces of other machines that were kept before; returns where. Raises `OSError`."""
    found = found.after(recall(content_hash))
    path = place(content_hash)
    write_note(path, _key(content_hash), asdict(found))
    return path


def recall(content_hash: str) -> Calibration | None:
    """The kept calibration; None where the checkpoint was never tuned, or where the file is damaged."""
    kept = read_note(place(content_hash), _key(content_hash))
    if kept is None:
        return None
    try:
        pace = {name: _pace(**item) for name, item in kept["pace"].items()}
        return Calibration(dict(kept["changes"]), str(kept["why"]), bool(kept["short"]), pace, kept["report"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def shipped_calibration(checkpoint: Checkpoint) -> Calibration | None:
    """What the package knows of these tensors, whatever file they came in; None: nothing."""
    # Hashing tensors takes a moment, so it is left out where there is nothing to compare with.
    known = (_shipped(path) for path in sorted(BUNDLED.glob("*/calibration.json")))
    return next((found for tensors, found in known if tensors == checkpoint.tensors_hash), None)


def shipped_for(name: str) -> Calibration | None:
    """What the package knows of the published checkpoint of that name, which need not be there."""
    path = BUNDLED / name / "calibration.json"
    return _shipped(path)[1] if path.is_file() else None


def _shipped(path: Path) -> tuple[str, Calibration]:
    about = json.loads(path.read_text(encoding="utf-8"))
    return about["tensors_hash"], Calibration(about["changes"], about["why"])


def _key(content_hash: str) -> dict[str, Any]:
    return {"format": FORMAT, "content_hash": content_hash}


def _pace(threads: Any, step_s: Any, recipe: Any = DEFAULT_RECIPE) -> Pace:
    return Pace(int(threads), float(step_s), str(recipe))


def tuned_threads(content_hash: str, options: EngineOptions) -> int:
    """The threads that were found best here; 0: nobody has measured, or `options` name some already."""
    if options.threads:
        return options.threads
    found = recall(content_hash)
    pace = found.pace.get(machine_of(options)) if found is not None else None
    return pace.threads if pace else 0


def load_tuned(
    name: str, options: EngineOptions, *, revision: str | None = None, announce: Announce | None = None
) -> WhisperModel:
    """As `load_model`, with the threads that were found best here, where `options` name none. Raises what it raises."""
    checkpoint = load_checkpoint(name, revision=revision, announce=announce)
    options = replace(options, threads=tuned_threads(adapted_hash(checkpoint), options))
    return WhisperModel.of(checkpoint, options, announce)


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
