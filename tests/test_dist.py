"""deploy/dist.py: what may be in a wheel. The sources are what it is built from, so they are looked at here."""

import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import whispertide
from benchmark_scripts import benchmark

ROOT = Path(__file__).parents[1]
SOURCES = {
    "whispertide": ROOT / "src",
    "whispertide_lab": ROOT / "lab" / "src",
    "whispertide_agents": ROOT / "integrations" / "src",
}
BUNDLED_MB = 62.0  # unpacked
ON_CONDA = {"sounddevice": "python-sounddevice", "soxr": "soxr-python"}


@pytest.fixture(scope="module")
def dist() -> Iterator[Any]:
    with benchmark("dist", ROOT / "deploy") as module:
        yield module


def sources(package: str) -> list[str]:
    """The files that hatchling puts into a wheel: those of the folder that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", package]
    found = subprocess.run(command, cwd=SOURCES[package], check=True, capture_output=True, text=True).stdout
    return [name for name in found.splitlines() if (SOURCES[package] / name).is_file()]


@pytest.mark.parametrize("package", SOURCES)
def test_a_wheel_has_what_runs_and_nothing_else(dist: Any, package: str) -> None:
    names = sources(package)
    assert len(names) > 4
    assert dist.unwanted(names, package) == []


@pytest.mark.parametrize(
    "name",
    [
        "whispertide/bundled/toy.en/model.safetensors",
        "whispertide/bundled/audio/talk.flac",
        "whispertide/live.png",
        "whispertide/tests/test_api.py",
        "tests/test_api.py",
        "whispertide/run.log",
    ],
)
def test_other_weights_plots_logs_and_tests_are_found(dist: Any, name: str) -> None:
    assert dist.unwanted(["whispertide/api.py", "whispertide-0.1.0.dist-info/RECORD", name], "whispertide") == [name]


def test_what_is_bundled_does_not_grow() -> None:
    sizes = [path.stat().st_size for path in (ROOT / "src/whispertide/bundled").rglob("*") if path.is_file()]
    assert sum(sizes) / 1e6 < BUNDLED_MB


def test_the_version_is_said_once() -> None:
    """All three projects, the recipes of other package managers and the citation have that of the package."""
    said = {
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
        for folder in (".", "lab", "integrations")
    }
    assert said == {whispertide.__version__}
    for name in ("CITATION.cff", "deploy/conda/recipe.yaml", "deploy/homebrew/whispertide.rb"):
        assert whispertide.__version__ in (ROOT / name).read_text(encoding="utf-8"), name


def test_the_recipe_for_conda_asks_for_what_the_package_asks_for() -> None:
    recipe = yaml.safe_load((ROOT / "deploy/conda/recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {ON_CONDA.get(one.name, one.name): one.specifier for one in map(Requirement, project["dependencies"])}
    python, *found = map(Requirement, recipe["requirements"]["run"])
    assert {one.name: one.specifier for one in found} == wanted
    assert python.specifier == Requirement(f"python {project['requires-python']}").specifier
