"""Published networks that are one file and no Whisper, known by their SHA-256: found, or fetched from the hub or a
package of the package index.

What arrives is kept only if it is, to the bit, what its maker publishes. This module does not know what a file is for.
"""

from dataclasses import dataclass
from pathlib import Path

from whispertide.checkpoint.cache import file_digest
from whispertide.checkpoint.download import find_cached, format_size, is_offline
from whispertide.checkpoint.names import HubModel
from whispertide.checkpoint.packages import PackagedModel, check_digest, find_assembled, packaged_models
from whispertide.checkpoint.sources import fetch
from whispertide.errors import CheckpointNotFoundError, DownloadError
from whispertide.types import Announce


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """One file: what it is for, where it is on the hub, and its licence; the lock of packages has its bytes."""

    name: str
    about: str
    hub: HubModel
    licence: str

    @property
    def packaged(self) -> PackagedModel:
        """The same from a package."""
        return packaged_models()[str(self.hub)]

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.packaged.sizes()[self.hub.file]

    @property
    def kept(self) -> Path:
        """Its place in the cache of whispertide, if it came from the package."""
        return self.packaged.place / self.hub.file


SMART_TURN = PublishedFile(
    name="smart-turn",
    about="hears in a pause whether the speaker is done",
    hub=HubModel("pipecat-ai/smart-turn-v3", "f766f81d3cfdf7737ac64aad813d91bbfd56bf93", "smart-turn-v3.2-cpu.onnx"),
    licence="BSD-2-Clause",
)
FILES = {file.name: file for file in (SMART_TURN,)}


def find_file(file: PublishedFile) -> Path | None:
    """Find the file on this machine, whole and as published; None: it is not here."""
    places = (find_cached(file.hub), find_assembled(file.hub))
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
    place = fetch(file.hub, announce, advice=f"Or copy {file.hub.file} from another machine to {file.kept}.")
    check_digest(place.name, file.packaged.sha256, file_digest(place))
    return place
