"""The README's Python examples run as they stand, in the checkout: they name the bundled recording.

Those of docs/guides/coming-from.md run with the bundled model and recording in place of theirs.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
COMING_FROM = README.parent / "docs" / "guides" / "coming-from.md"
DEMO = "src/whispertide/bundled/audio/demo.flac"


def python_in(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


EXAMPLES = python_in(README)
GUIDE = [text.replace("base.en", "nano.en").replace("talk.wav", DEMO) for text in python_in(COMING_FROM)]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
    assert len(GUIDE) >= 2


@pytest.mark.parametrize("example", EXAMPLES + GUIDE, ids=lambda example: example.strip().splitlines()[-1][:40])
def test_example_runs(example: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], cwd=README.parent, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


PAGES = [path for path in (README.parent / "docs").rglob("*.md") if not path.name.startswith("model-card")]


@pytest.mark.parametrize("page", [README, README.parent / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
