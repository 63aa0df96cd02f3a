"""Which systems have a wheel of every package that is locked: `python deploy/wheels.py deploy/requirements.lock`.

uv is asked as if it ran on the other system, with the settings that it has here. It downloads no wheels. Prints a
table: the packages without a wheel, for each system and Python.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# Our name, and uv's
SYSTEMS = {
    "Linux x86-64": "x86_64-manylinux_2_28",
    "Linux arm64": "aarch64-manylinux_2_28",
    "macOS 14, arm64": "aarch64-apple-darwin",
    "macOS 14, x86-64": "x86_64-apple-darwin",
    "Windows x86-64": "x86_64-pc-windows-msvc",
    "Windows arm64": "aarch64-pc-windows-msvc",
}
_MACOS = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}

Ask = Callable[[Sequence[str], str, str], str]


def locked(text: str) -> list[str]:
    """The packages of a lock file, as `name==version`, but for those of Python in a browser."""
    lines = re.findall(r"^([\w.-]+==[\w.+!]+)(.*)$", text, re.M)
    return [package for package, marker in lines if "== 'emscripten'" not in marker]


def without_wheel(packages: Sequence[str], python: str, platform: str, ask: Ask) -> list[str]:
    """The packages that have no wheel there. `ask` names one at a time, or "" when all others have."""
    missing: list[str] = []
    while name := ask([one for one in packages if one not in missing], python, platform):
        missing.append(name)
    return missing


def ask_uv(packages: Sequence[str], python: str, platform: str) -> str:
    """The first package of which uv finds no wheel; "" if it finds all. Raises `RuntimeError` if uv fails at all."""
    uv = str(Path(sys.executable).with_name("uv"))
    there = ["--python-platform", platform, "--python-version", python]
    command: list[str | Path] = [uv, "pip", "compile", "--quiet", "--no-deps", "--only-binary", ":all:", *there, "-"]
    asked = "\n".join(packages)
    done = subprocess.run(
        command, input=asked, env={**os.environ, **_MACOS}, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    found = re.search(r"Because (\S+==\S+) has no (?:usable )?wheels", done.stderr)
    if found is None or found[1] not in packages:
        raise RuntimeError(f"expected uv to name a package without a wheel; it said: {done.stderr[-500:]}")
    return found[1]


def main(locks: Sequence[str]) -> None:
    """Print the table."""
    packages = sorted({one for lock in locks for one in locked(Path(lock).read_text(encoding="utf-8"))})
    print(f"{len(packages)} packages\n\n| system | {' | '.join(f'Python {python}' for python in PYTHONS)} |")
    print("|---|" + "---|" * len(PYTHONS))
    for system, platform in SYSTEMS.items():
        found = [without_wheel(packages, python, platform, ask_uv) for python in PYTHONS]
        cells = [", ".join(missing) or "all" for missing in found]
        print(f"| {system} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
