"""docs/reference/recipes.md has the settings that there are."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from benchmark_scripts import benchmark
from whispertide.recipes.catalogue import RECIPES


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with benchmark("settings", Path(__file__).parents[2] / "lab" / "docs") as module:
        yield module


def test_the_page_is_that_of_the_code(script: ModuleType) -> None:
    """If this fails: python lab/docs/settings.py."""
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.page(text) == text


def test_every_setting_of_every_recipe_is_on_it(script: ModuleType) -> None:
    text = script.settings()
    names = {name.rpartition(".")[2] for recipe in RECIPES.values() for name in recipe.settings()}
    assert {name for name in names if f"| `{name}` |" not in text and f"### {name}\n" not in text} == set()


def test_another_value_of_a_recipe_is_shown(script: ModuleType) -> None:
    (row,) = (line for line in script.settings().splitlines() if line.startswith("| `vad_turn_s` |"))
    assert "| `0` | 0 to 30 | all | `tide` `1.5` |" in row
