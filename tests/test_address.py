"""The repository's address is the same wherever the project names it, and one command changes it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmark_scripts import benchmark

ROOT = Path(__file__).parents[1]
OURS = re.compile(rb"https://(?:github\.com/([\w.-]+/whispertide)\b|([\w-]+)\.github\.io/whispertide/)")


@pytest.fixture(scope="module")
def address() -> Iterator[Any]:
    with benchmark("address", ROOT / "deploy") as module:
        yield module


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout")
def test_every_file_names_the_same(address: Any) -> None:
    named = {
        (path.relative_to(ROOT).as_posix(), found[1] or found[2] + b"/whispertide")
        for path in address.named_in()
        if path.is_file()
        for found in OURS.finditer(path.read_bytes())
    }
    assert {"pyproject.toml", "lab/pyproject.toml", "mkdocs.yml", "SECURITY.md"} <= {name for name, _ in named}
    assert {where.decode() for _, where in named} == {address.current()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://github.com/old/name/issues", "https://github.com/New-One/speech/issues"),
        ("[here](https://github.com/old/name).", "[here](https://github.com/New-One/speech)."),
        ("https://old.github.io/name/", "https://new-one.github.io/speech/"),
        ("https://github.com/old/name-agents", "https://github.com/old/name-agents"),
        ("https://github.com/older/name", "https://github.com/older/name"),
    ],
)
def test_addresses_of_the_repository_alone_are_moved(address: Any, text: str, expected: str) -> None:
    assert address.moved(text, "old/name", "New-One/speech") == expected


@pytest.mark.parametrize("wrong", ["owner", "owner/name/more", "https://github.com/owner/name", "-owner/name"])
def test_what_is_no_address_is_refused(address: Any, wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        address.main(["--", wrong])
    assert "expected OWNER/NAME" in capsys.readouterr().err
