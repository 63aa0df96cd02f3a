"""What is kept of a tuning, and what comes of it."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from each_row import each_row
from whispertide.api import load
from whispertide.checkpoint.attachments import BUNDLED
from whispertide.methods.attention.steadiness import FEATURES, Rule
from whispertide.options import EngineOptions
from whispertide.recipes import calibration
from whispertide.recipes.calibration import (
    Calibration,
    Pace,
    applied_or_none,
    forget,
    machine_of,
    place,
    recall,
    remember,
    shipped_calibration,
    shipped_for,
    tuned_threads,
)
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe

TIDE = get_recipe("tide")
HASH, OTHER = "a" * 64, "b" * 64
OPTIONS = EngineOptions()
OWN = Rule((1.0,) * len(FEATURES)).text()
FOUND = Calibration(
    {"framing": "zeros", "zeros_s": 1.0, "shift_guard": True},
    "it was measured",
    pace={machine_of(OPTIONS): Pace(3, 0.5)},
)


def test_it_is_kept_by_content() -> None:
    assert recall(HASH) is None
    assert remember(HASH, FOUND) == place(HASH)
    assert recall(HASH) == FOUND
    assert recall(OTHER) is None
    assert forget(HASH)
    assert not forget(HASH)
    assert recall(HASH) is None


@each_row(
    "damage",
    [
        lambda kept: {**kept, "format": 0},
        lambda kept: {**kept, "content_hash": OTHER},
        lambda kept: {**kept, "pace": {"here": {}}},
        lambda kept: {**kept, "changes": None},
        lambda kept: [],
    ],
)
def test_what_is_damaged_is_as_good_as_nothing(damage) -> None:  # type: ignore[no-untyped-def]
    path = remember(HASH, FOUND)
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    assert recall(HASH) is None
    path.write_text("{")
    assert recall(HASH) is None


def test_the_pace_of_other_machines_stays_where_the_framing_does() -> None:
    remember(HASH, FOUND)
    elsewhere = replace(FOUND, pace={"elsewhere": Pace(1, 1.0)})
    remember(HASH, elsewhere)
    assert recall(HASH) == replace(FOUND, pace={**FOUND.pace, **elsewhere.pace})
    refitted = replace(FOUND, changes={**FOUND.changes, "rule": "1 2"}, pace={"third": Pace(2, 0.6)})
    remember(HASH, refitted)
    assert recall(HASH) == replace(refitted, pace={**FOUND.pace, **elsewhere.pace, **refitted.pace})
    remember(HASH, replace(elsewhere, changes={"framing": "pad30"}))
    kept = recall(HASH)
    assert kept is not None
    assert kept.pace == elsewhere.pace


def test_a_pace_of_an_earlier_release_is_that_of_tide() -> None:
    path = remember(HASH, FOUND)
    kept = json.loads(path.read_text())
    for pace in kept["pace"].values():
        del pace["recipe"]
    path.write_text(json.dumps(kept))
    assert recall(HASH) == FOUND


def test_a_pace_is_that_of_the_recipe_that_was_timed() -> None:
    slow = replace(FOUND, pace={machine_of(OPTIONS): Pace(3, 1.5)})
    assert slow.applied(TIDE, OPTIONS).schedule.step_s == 1.5
    pilot = get_recipe("pilot")
    assert slow.applied(pilot, OPTIONS) == pilot.replace(framing="zeros", zeros_s=1.0)
    slowest = replace(FOUND, pace={machine_of(OPTIONS): Pace(3, 3.0)})
    settings = slowest.applied(TIDE, OPTIONS).settings()
    assert (settings["step_s"], settings["longest_step_s"]) == (3.0, 3.0)  # longer than the recipe's longest


def test_it_says_in_a_line_what_is_used() -> None:
    def said(found: Calibration, recipe: Recipe = TIDE, threads: int = 3) -> str:
        return found.said(recipe, found.applied(recipe, OPTIONS), EngineOptions(threads=threads))

    start = "1 s of padding, because it was measured; "
    assert said(FOUND) == f"{start}3 threads and a step of 0.5 s, as timed here; words confirmed by the shipped rule"
    fitted = replace(FOUND, changes={**FOUND.changes, "rule": OWN}, pace={})
    assert said(fitted, threads=1) == (
        f"{start}1 thread and a step of 0.4 s, not timed here; words confirmed by a rule fitted to this checkpoint"
    )
    own = TIDE.replace(rule=OWN, step_s=0.8)
    assert said(FOUND, own, 1) == (
        f"{start}1 thread and a step of 0.8 s, timed here with 3 threads; words confirmed by your own rule"
    )
    pilot = get_recipe("pilot")
    assert said(FOUND, pilot) == f"{start}3 threads and a step of {pilot.schedule.step_s:g} s, not timed here"


def test_a_recipe_gets_framing_guard_and_a_longer_step() -> None:
    assert FOUND.applied(TIDE, OPTIONS) == TIDE.replace(framing="zeros", shift_guard=True, step_s=0.5)
    patient = TIDE.replace(step_s=0.8)
    assert FOUND.applied(patient, OPTIONS).schedule.step_s == 0.8
    assert FOUND.applied(TIDE, EngineOptions(precision="fp32")).schedule.step_s == 0.4  # measured with another engine
    unguarded = get_recipe("whisper-streaming")
    assert applied_or_none(FOUND, unguarded, OPTIONS) == unguarded.replace(framing="zeros")
    assert applied_or_none(None, TIDE, OPTIONS) is None


def test_a_rule_of_the_users_own_stays() -> None:
    own, fitted = Rule((1.0,) * len(FEATURES)).text(), Rule((2.0,) * len(FEATURES)).text()
    found = replace(FOUND, changes={**FOUND.changes, "rule": fitted})
    assert found.applied(TIDE, OPTIONS).settings()["rule"] == fitted
    assert found.applied(TIDE.replace(rule=own), OPTIONS).settings()["rule"] == own
    other = get_recipe("whisper-streaming")  # has no such rule
    assert found.applied(other, OPTIONS) == other.replace(framing="zeros")


def test_threads_are_used_where_nobody_asks_for_some(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuned_threads(HASH, OPTIONS) == 0
    remember(HASH, FOUND)
    assert tuned_threads(HASH, OPTIONS) == 3
    assert tuned_threads(HASH, EngineOptions(threads=1)) == 1
    monkeypatch.setattr(calibration, "processor", lambda: "another one")
    assert tuned_threads(HASH, OPTIONS) == 0


def test_a_model_is_loaded_with_them() -> None:
    assert load("nano.en").model.options.threads == 0
    remember(load("nano.en").model.content_hash, replace(FOUND, pace={machine_of(OPTIONS): Pace(1, 0.3)}))
    assert load("nano.en").model.options.threads == 1


# --- what the package brings along -----------------------------------------------------------------------------------


def test_what_the_package_knows_is_found_by_tensors() -> None:
    about = json.loads((BUNDLED / "base" / "calibration.json").read_text(encoding="utf-8"))
    checkpoint: Any = SimpleNamespace(tensors_hash=about["tensors_hash"])
    found = shipped_calibration(checkpoint)
    assert found is not None
    assert found == shipped_for("base")
    assert found.changes["framing"] == "merged"
    checkpoint.tensors_hash = HASH
    assert shipped_calibration(checkpoint) is None
    assert shipped_for("large-v3") is None


def test_it_belongs_to_the_tensors_of_the_adapter_next_to_it() -> None:
    for path in BUNDLED.glob("*/calibration.json"):
        with np.load(path.with_name("short.npz")) as adapter:
            assert json.loads(path.read_text(encoding="utf-8"))["tensors_hash"] == str(adapter["content_hash"])


def test_whoever_tunes_is_believed_before_the_package() -> None:
    transcriber = load("nano.en")
    assert transcriber.known_best is None
    remember(transcriber.model.adapted_hash, FOUND)
    transcriber.look_again()
    assert transcriber.known_best == FOUND


def test_what_somebody_asked_for_stays() -> None:
    known = shipped_for("base")
    assert known is not None
    assert known.applied(TIDE, OPTIONS).settings()["max_revision_rate"] == 0.1
    asked = known.applied(TIDE.replace(max_revision_rate=0.01), OPTIONS).settings()
    assert (asked["framing"], asked["rule"], asked["max_revision_rate"]) == ("merged", "base", 0.01)


def test_a_rule_that_somebody_names_has_its_own_share_of_revisions() -> None:
    known = shipped_for("base")
    assert known is not None
    own = known.applied(TIDE.replace(rule="general"), OPTIONS).settings()
    usual = TIDE.settings()
    assert own["framing"] == "merged"
    assert own["max_revision_rate"] == usual["max_revision_rate"]
    assert own["min_shown_probability"] == usual["min_shown_probability"]
