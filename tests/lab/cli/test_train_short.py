"""What `whispertide train short` says at its end: from when on tide uses the adapter."""

from pathlib import Path

import pytest

from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint import short as adapters
from whispertide.options import DEFAULT_RECIPE
from whispertide.recipes import calibration
from whispertide.recipes.calibration import Calibration
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import parse_overrides
from whispertide.streaming.framing import taught_framing
from whispertide_lab.cli.train_short import what_next


@pytest.fixture
def checkpoint() -> Checkpoint:
    return load_checkpoint("nano.en")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An adapter that models find."""
    path = tmp_path / "short.npz"
    path.touch()
    monkeypatch.setattr(adapters, "short_adapter", lambda _: path)
    return path


def test_an_adapter_that_is_found_is_used_from_now_on(checkpoint: Checkpoint, written: Path) -> None:
    assert what_next(checkpoint, written, 16) == "tide uses it with nano.en from now on"


@pytest.mark.parametrize("merged", [16, 0])
def test_where_the_package_knows_better_it_says_how_the_adapter_is_used_all_the_same(
    checkpoint: Checkpoint, written: Path, monkeypatch: pytest.MonkeyPatch, merged: int
) -> None:
    """As of base. The settings that it names are those that the adapter was taught with."""
    monkeypatch.setattr(calibration, "shipped_calibration", lambda _: Calibration({"framing": "merged"}, "so"))
    said = what_next(checkpoint, written, merged)
    assert said.startswith("tide still uses nano.en as the package says, without this adapter")
    assert "`whispertide tune nano.en AUDIO`" in said
    given = said.partition("or give ")[2]
    if merged:
        assert given == "--set framing=merged --set zeros_s=0.2 --set stand_for_all=16"
    recipe = parse_overrides(get_recipe(DEFAULT_RECIPE), given.replace("--set ", "").split())
    assert recipe.framing == taught_framing(merged)


def test_an_adapter_that_lies_elsewhere_is_not_said_to_be_used(
    checkpoint: Checkpoint, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere := tmp_path / "mine.npz").touch()
    for found in (written, None):
        monkeypatch.setattr(adapters, "short_adapter", lambda _, found=found: found)
        said = what_next(checkpoint, elsewhere, 16)
        assert said.startswith("tide does not find it there: copy it to ")
        assert said.endswith("short.npz")
