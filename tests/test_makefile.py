"""The Makefile says what it does before each step that takes long; `make --dry-run` runs none of them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_slow_tests_are_those_that_conftest_knows() -> None:
    """Files without one are not imported for them."""
    slow, thorough = re.findall(r"-m '(slow [^']*)'", (ROOT / "Makefile").read_text(encoding="utf-8"))
    known = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    assert f'SLOW = "{slow}"' in known
    assert f'THOROUGH = "{thorough}"' in known


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("target", ["demo", "test", "slow"])
def test_a_step_that_takes_long_is_told_first(target: str, tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    for name in ("Makefile", "pyproject.toml", "lab/pyproject.toml", "requirements-dev.lock"):
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    slow = [number for number, line in enumerate(lines) if "pip install" in line or "-m venv" in line]
    assert len(slow) >= 2
    for number in slow:
        assert lines[number - 1].startswith('echo "'), lines[number]
        assert any(unit in lines[number - 1] for unit in ("second", "minute")), lines[number - 1]
