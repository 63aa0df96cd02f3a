"""Which systems have a wheel of every package that is locked: `python deploy/wheels.py deploy/requirements.lock`.

pip is asked as if it ran on the other system, with the settings that it has here; it resolves and downloads no wheel
that it need not. Prints a table: packages without a wheel, for each system and Python. Minutes, for it asks often.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_GLIBC = ("_2_28", "_2_27", "_2_26", "_2_24", "_2_17", "2014", "_2_12", "_2_5")
SYSTEMS = {
    "Linux x86-64": tuple(f"manylinux{version}_x86_64" for version in _GLIBC),
    "Linux arm64": tuple(f"manylinux{version}_aarch64" for version in _GLIBC),
    "macOS arm64": ("macosx_14_0_arm64",),
    "macOS x86-64": ("macosx_14_0_x86_64",),
    "Windows x86-64": ("win_amd64",),
    "Windows arm64": ("win_arm64",),
}

Ask = Callable[[Sequence[str], str, Sequence[str]], str]


def locked(path: Path) -> list[str]:
    """The packages of a lock file, as `name==version`, but for those of Python in a browser."""
    lines = re.findall(r"^([\w.-]+==[\w.+!]+)(.*)$", path.read_text(encoding="utf-8"), re.M)
    return [package for package, marker in lines if "== 'emscripten'" not in marker]


def without_wheel(packages: Sequence[str], python: str, platforms: Sequence[str], ask: Ask) -> list[str]:
    """The packages that have no wheel there. `ask` names one at a time, or "" when all others have."""
    missing: list[str] = []
    while name := ask([one for one in packages if one not in missing], python, platforms):
        missing.append(name)
    return missing


def ask_pip(packages: Sequence[str], python: str, platforms: Sequence[str]) -> str:
    """The first package of which pip finds no wheel; "" if it finds all. Raises `RuntimeError` if pip fails at all."""
    tags = [part for platform in platforms for part in ("--platform", platform)]
    only = ["--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", python, *tags]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--target", folder]
        done = subprocess.run([*command, *only, *packages], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    found = re.search(r"No matching distribution found for (\S+)", done.stderr)
    if found is None or found[1] not in packages:
        raise RuntimeError(f"expected pip to name a package without a wheel; it said: {done.stderr[-500:]}")
    return found[1]


def main(locks: Sequence[str]) -> None:
    """Print the table."""
    packages = sorted({one for lock in locks for one in locked(Path(lock))})
    print(f"{len(packages)} packages\n\n| system | {' | '.join(f'Python {python}' for python in PYTHONS)} |")
    print("|---|" + "---|" * len(PYTHONS))
    for system, platforms in SYSTEMS.items():
        found = [without_wheel(packages, python, platforms, ask_pip) for python in PYTHONS]
        cells = [", ".join(missing) or "all" for missing in found]
        print(f"| {system} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
