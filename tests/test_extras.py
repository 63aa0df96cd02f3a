import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

from whispertide.cli.main import app
from whispertide.errors import OptionError
from whispertide.extras import EXTRAS, how_to_install, require

ROOT = Path(__file__).parents[1]


def test_the_extras_are_those_of_the_package() -> None:
    """Both ways round: each module comes from a package of the extra, and each of its packages brings one."""
    ours, laboratory = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"] for folder in (".", "lab")
    )
    declared = {**ours["optional-dependencies"], **laboratory["optional-dependencies"]}
    declared["lab"] = laboratory["dependencies"]
    named = {
        extra: {one.name for one in map(Requirement, declared[extra]) if one.marker is None or one.marker.evaluate()}
        for extra in declared
    }
    assert "whispertide[plots]" in declared["lab"]
    named["lab"] = (named["lab"] - {"whispertide"}) | named["plots"] | {"whispertide-lab"}
    named["train"] |= named["lab"] | named["torch"]
    named["discovery"] = (named["discovery"] - {"whispertide"}) | named["server"]
    named["fleet"] = (named["fleet"] - {"whispertide"}) | named["server"]
    named["tracing"] = (named["tracing"] - {"whispertide"}) | named["server"]
    brings = packages_distributions()
    for extra, modules in EXTRAS.items():
        found = {package for module in modules for package in brings.get(module, [module])}  # ray need not be here
        assert {re.sub("[_.]", "-", package).lower() for package in found} == named[extra]


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require("lab", "measuring")
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with pytest.raises(OptionError, match=r"-lab\) for measuring; not installed: jiwer; .* -m pip install \./lab$"):
        require("lab", "measuring")


def test_the_hint_is_for_the_python_that_runs() -> None:
    assert sys.executable in how_to_install("train")


@pytest.mark.parametrize(
    ("command", "package"),
    [
        (("bench", "run"), "jiwer"),
        (("bench", "run"), "whisper_normalizer"),
        (("bench", "paper", "npusper"), "matplotlib"),
        (("bench", "report"), "matplotlib"),
        (("train", "card", "nano.en", "-o", "card.md"), "jiwer"),
        (("serve",), "uvicorn"),
        (("batch", "talk.wav", "-o", "out", "--engine", "ray"), "ray"),
    ],
)
def test_a_command_says_what_is_missing_before_it_works(
    command: tuple[str, ...], package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    result = CliRunner().invoke(app, list(command))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"not installed: {package}; " in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_no_hint_names_a_package_on_an_index() -> None:
    """whispertide is on none yet, so anybody could put something else there."""
    patterns = ("*.md", "docs/**/*.md", "lab/docs/*.md", "deploy/*", "src/**/*.py", "lab/**/*.py", "lab/**/*.toml")
    places = [place for pattern in patterns for place in ROOT.glob(pattern) if place.is_file()]
    assert len(places) > 100
    for place in places:
        assert not re.search(r"pip install (-\S+ )*['\"]?whispertide\b", place.read_text()), place
