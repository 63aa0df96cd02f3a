"""The README's Python examples run as they stand, in the checkout: they name the bundled recording."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.strip().splitlines()[-1][:40] for example in EXAMPLES])
def test_example_runs(example: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], cwd=README.parent, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_files_that_the_readme_names_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
