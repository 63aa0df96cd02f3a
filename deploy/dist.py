"""What goes to the package index, built and tried: `make dist`.

Builds the source distribution of each project and from that its wheel, into dist/. Checks what they say of themselves
(twine) and what is in the wheels. Then installs the wheel of whispertide in an empty environment of each Python that is
here, and runs it there: `--help`, an import, and the bundled recording by the bundled model. Prints a line for each;
the exit code is not 0 if one of them failed.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[1]
PROJECTS = {"whispertide": ROOT, "whispertide_lab": ROOT / "lab", "whispertide_agents": ROOT / "integrations"}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MOST_MB = {"whispertide": 35.0, "whispertide_lab": 1.0, "whispertide_agents": 0.1}  # of a wheel
# The data of whispertide that may weigh something: a model for the demo, one for commands, a recording, adapters, and
# the voice detector's weights.
BUNDLED = tuple(
    f"bundled/{name}" for name in ("nano.en/", "understand/commands/", "audio/demo.", "attachments/", "silero/")
)
_TEXTS = {".py", ".typed", ".toml", ".json", ".js", ".css", ".html", ".svg", ".txt", ".md", ".scm"}

# Run where nothing else is installed. It prints how long it took to import, and what it heard.
_TRY = """
import json, time
began = time.perf_counter()
import whispertide
took = time.perf_counter() - began
from whispertide.checkpoint.names import BUNDLED_DIR
document = whispertide.load("nano.en").transcribe(BUNDLED_DIR / "audio" / "demo.flac")
print(json.dumps({"import_s": round(took, 3), "words": len(document.words)}))
"""


def unwanted(names: Iterable[str], package: str) -> list[str]:
    """The files of a wheel, or of a folder of sources, that must not be in it."""
    return [name for name in names if not _is_wanted(PurePosixPath(name), package)]


def _is_wanted(path: PurePosixPath, package: str) -> bool:
    if path.parts[0] != package:
        return re.fullmatch(rf"{package}-[\d.]+\.dist-info", path.parts[0]) is not None
    inside = path.relative_to(package).as_posix()
    return inside.startswith(BUNDLED) or (path.suffix in _TEXTS and "tests" not in path.parts)


def build(project: Path, folder: Path) -> None:
    """Put the source distribution and the wheel of a project into `folder`."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, project], check=True, stdout=subprocess.DEVNULL)


def check_wheel(wheel: Path, package: str) -> bool:
    """Print how large it is, and what is wrong with it."""
    size = wheel.stat().st_size / 1e6
    wrong = unwanted(zipfile.ZipFile(wheel).namelist(), package)
    if size > MOST_MB[package]:
        wrong.append(f"expected at most {MOST_MB[package]} MB")
    print(f"{wheel.name}: {size:.1f} MB {'; '.join(wrong)}")
    return not wrong


def find_python(version: str) -> str | None:
    """The interpreter of a version that is here, on the PATH or where uv keeps those that it installed."""
    uv = shutil.which("uv", path=Path(sys.executable).parent) or "uv"
    command = [uv, "python", "find", "--no-project", version]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else None


def try_wheel(wheel: Path, python: str, folder: Path) -> str:
    """Install and run it in a new environment in `folder`; what to print. Raises `CalledProcessError` if it fails."""
    run: Any = {"check": True, "capture_output": True, "text": True, "cwd": folder}
    subprocess.run([python, "-m", "venv", folder / "venv"], **run)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", wheel], **run)
    subprocess.run([programs / "whispertide", "--help"], **run)
    alone = {**os.environ, "WHISPERTIDE_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([programs / "python", "-c", _TRY], env=alone, **run)
    found = json.loads(done.stdout.splitlines()[-1])
    if not found["words"]:
        raise subprocess.CalledProcessError(1, "whispertide", stderr="the bundled recording has no words")
    installed = sum(path.lstat().st_size for path in (folder / "venv").rglob("*") if not path.is_dir()) / 1e6
    return f"{found['words']} words heard, import {found['import_s']} s, {installed:.0f} MB installed"


def main() -> int:
    """Build, check and try; the exit code."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    for project in PROJECTS.values():
        build(project, dist)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir()], check=True)
    wheels = {package: next(dist.glob(f"{package}-*.whl")) for package in PROJECTS}
    for path in sorted(dist.iterdir()):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
    good = not [package for package, wheel in wheels.items() if not check_wheel(wheel, package)]
    for version in PYTHONS:
        python = find_python(version)
        if python is None:
            print(f"Python {version}: not on this machine, so not tried")
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"Python {version}: {try_wheel(wheels['whispertide'], python, Path(folder))}")
            except subprocess.CalledProcessError as error:
                print(f"Python {version}: {error}\n{error.stderr}")
                good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
