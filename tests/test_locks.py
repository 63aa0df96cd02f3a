"""The lock files (`make lock`): they name all that both pyproject.toml ask for, each with hashes, and no place."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
DEVELOPMENT, IMAGE, BUILD = (
    ROOT / name for name in ("requirements-dev.lock", "deploy/requirements.lock", "deploy/build.lock")
)
PROJECT, LABORATORY = (tomllib.loads((ROOT / folder / "pyproject.toml").read_text()) for folder in (".", "lab"))
OURS = {"whispertide": PROJECT, "whispertide-lab": LABORATORY}
# torch has a build for every kind of machine, and each has hashes of its own (the head of requirements-dev.lock)
UNLOCKED = {"torch"}


def locked(path: Path) -> dict[str, tuple[str, list[str]]]:
    """The version and the hashes of each package."""
    found: dict[str, tuple[str, list[str]]] = {}
    for entry in re.split(r"\n(?=[a-zA-Z])", path.read_text()):
        if entry.startswith("#"):
            continue
        requirement = Requirement(entry.splitlines()[0].removesuffix("\\"))
        (pin,) = requirement.specifier
        assert pin.operator == "=="
        name = canonicalize_name(requirement.name)
        assert name not in found, f"{path.name} has {name} twice"
        found[name] = (pin.version, re.findall(r"--hash=sha256:([0-9a-f]{64})\b", entry))
    return found


def wanted(*extras: str, of: str = "whispertide") -> list[Requirement]:
    """What a pyproject.toml asks for, extras of our own unfolded."""
    project = OURS[of]["project"]
    optional = project["optional-dependencies"]
    texts = [*project["dependencies"], *(text for extra in extras for text in optional[extra])]
    found: list[Requirement] = []
    for one in map(Requirement, texts):
        if one.name not in OURS:
            found.append(one)
        elif one.extras:
            found += wanted(*one.extras, of=one.name)
    return found


@pytest.mark.parametrize(
    ("path", "requirements"),
    [
        (DEVELOPMENT, [*wanted("test"), *wanted("train", of="whispertide-lab")]),
        (IMAGE, wanted("fleet")),
        (BUILD, [Requirement(text) for text in PROJECT["build-system"]["requires"]]),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_every_requirement_is_locked_within_its_bounds(path: Path, requirements: list[Requirement]) -> None:
    found = locked(path)
    for requirement in requirements:
        if requirement.name in UNLOCKED:
            assert requirement.name not in found
            continue
        version, _ = found[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} is locked as {version}: make lock"


@pytest.mark.parametrize("path", [DEVELOPMENT, IMAGE, BUILD], ids=lambda path: path.name)
class TestLock:
    def test_every_package_has_hashes(self, path: Path) -> None:
        found = locked(path)
        assert len(found) > 3
        assert not [name for name, (_, hashes) in found.items() if not hashes]

    def test_it_names_no_place(self, path: Path) -> None:
        assert not re.findall(r"://|--(?:extra-)?index-url|--find-links|--trusted-host|\s@\s", path.read_text())


def test_the_image_gets_what_the_tests_ran_with() -> None:
    tested = locked(DEVELOPMENT)
    for path in (IMAGE, BUILD):
        for name, (version, _) in locked(path).items():
            assert tested.get(name, (version,))[0] == version
