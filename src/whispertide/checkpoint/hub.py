"""Models by name: find, download, list and remove them.

A model that is in the Hugging Face cache, or came from packages, is used as it is, without asking the hub for news;
`pull` asks. Where the hub cannot be reached, the package index is asked for what it has. This module does not know how
checkpoints are read.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from whispertide.checkpoint.download import (
    check_config,
    download_tokenizer,
    hub_cache,
    is_complete,
    is_offline,
    snapshot,
)
from whispertide.checkpoint.names import BUNDLED_DIR, SHORT_NAMES, HubModel, bundled_names, find_model
from whispertide.checkpoint.packages import find_assembled, find_packaged
from whispertide.checkpoint.published_file import FILES, PublishedFile, fetch_file, find_file, require_file
from whispertide.checkpoint.sources import fetch, find_here
from whispertide.checkpoint.vocabulary import has_tokenizer
from whispertide.checkpoint.weights import weight_files
from whispertide.errors import CheckpointError, CheckpointNotFoundError, OptionError
from whispertide.options import BUNDLED_MODEL
from whispertide.types import Announce

State = Literal["bundled", "cached", "available"]

# Who has the tokenizer of a vocabulary of this size; the first is the one to download it from.
_TOKENIZER_REPOS = {
    51_865: ("tiny", "base", "small", "medium", "large-v2", "large-v1"),
    51_866: ("large-v3", "large-v3-turbo"),
}
_ENGLISH_VOCAB = 51_864
_SHARED_CACHE = "the Hugging Face cache, which other programs share"
_OWN_CACHE = "whispertide's own cache"


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One line of a list of models. `size` is bytes on the disk (None if not here), `parameters` are millions."""

    name: str
    state: State
    repo: str | None = None
    size: int | None = None
    parameters: int | None = None
    path: Path | None = None


def resolve(
    name_or_path: str | Path,
    revision: str | None = None,
    *,
    announce: Announce | None = None,
    patience_s: float | None = None,
) -> Path:
    """Find the local folder, or `.pt` file, of a model; it is downloaded if it is not here yet. A package index that
    has sent nothing for `patience_s` counts as unreachable.

    Raises `CheckpointNotFoundError` (unknown name), `OptionError` (a revision where there can be none),
    `DownloadError`, `DiskSpaceError`, and `CheckpointError` (on the hub, but no Whisper).
    """
    place = find_model(name_or_path, revision)
    if isinstance(place, Path):
        return place
    return find_here(place) or fetch(place, announce, patience_s)


def pull(name: str, revision: str | None = None, *, announce: Announce | None = None) -> Path:
    """Download a model, or bring it up to date, and return its folder; of a network that is no Whisper (`FILES`) its
    file. Raises as `resolve` does.

    Offline, a model that is here stays as it is.
    """
    if revision is None and name in FILES:
        return fetch_file(FILES[name], announce)
    place = find_model(name, revision)
    if isinstance(place, Path) or is_offline():
        return resolve(name, revision)
    return fetch(place, announce, older=find_here(place))


def path(name: str, revision: str | None = None) -> Path:
    """The folder of a model that is on this machine; of a network that is no Whisper (`FILES`) its file.

    Raises `CheckpointNotFoundError` when it is not, or not completely.
    """
    if revision is None and name in FILES:
        return require_file(FILES[name])
    place = find_model(name, revision)
    if isinstance(place, Path):
        return place
    whole = find_here(place)
    if whole is None:
        part = "only in part " if snapshot(place) is not None and not place.file else "not "
        raise CheckpointNotFoundError(
            f"{name} is {part}on this machine; download it with `whispertide models pull {name}`"
        )
    return whole


@dataclass(frozen=True, slots=True)
class Removal:
    """The files that `remove` would delete; `size` is the bytes that become free, `place` names the caches."""

    name: str
    size: int
    place: str
    _delete: Callable[[], None]

    def execute(self) -> None:
        """Delete the files. Raises `CheckpointError` if it fails."""
        try:
            self._delete()
        except OSError as error:
            raise CheckpointError(f"{self.name} cannot be removed from {self.place}: {error}") from error


def plan_removal(name: str, revision: str | None = None) -> Removal:
    """Plan the removal of a model, or one revision of it, from the caches; deletes nothing yet.

    Other programs share the Hugging Face cache. Raises `OptionError` for a bundled model or a path,
    `CheckpointNotFoundError` when the model is in no cache.
    """
    file = FILES.get(name)
    place = find_model(name, revision) if file is None else file.hub
    if isinstance(place, Path):
        if place.is_relative_to(BUNDLED_DIR):
            raise OptionError(f"{name} is part of whispertide and cannot be removed")
        raise OptionError(f"expected the name of a downloaded model; {place} is your own: delete it yourself")
    commits = [] if place is None else _cached_commits(place)
    from_packages = _kept_from_packages(file, place)
    if not commits and from_packages is None:
        raise CheckpointNotFoundError(f"{name} is not on this machine; there is nothing to remove")
    from huggingface_hub import scan_cache_dir

    plan = scan_cache_dir(hub_cache()).delete_revisions(*commits) if commits else None
    size = (int(plan.expected_freed_size) if plan else 0) + (folder_size(from_packages) if from_packages else 0)

    def delete() -> None:
        if plan is not None:
            plan.execute()
        if from_packages is not None:
            shutil.rmtree(from_packages)

    places = [_SHARED_CACHE] * bool(plan) + [_OWN_CACHE] * bool(from_packages)
    return Removal(name, size, " and ".join(places), delete)


def _kept_from_packages(file: PublishedFile | None, model: HubModel | None) -> Path | None:
    """The folder of a network of one file, or of a model, that came from packages; None: none did."""
    if file is not None:
        return file.packaged.place if file.kept.is_file() else None
    packaged = None if model is None else find_packaged(model)
    return packaged.place if packaged is not None and model is not None and find_assembled(model) else None


def list_models() -> list[ModelInfo]:
    """List the bundled models, those with short names, all other Whispers in the Hugging Face cache, and networks that
    are no Whisper.
    """
    models = [
        ModelInfo(name, "bundled", size=folder_size(BUNDLED_DIR / name), path=BUNDLED_DIR / name)
        for name in bundled_names()
    ]
    for name, published in SHORT_NAMES.items():
        model = HubModel(published.repo)
        folder = find_here(model)
        if folder is not None:
            size = folder_size(folder)
            models.append(ModelInfo(name, "cached", published.repo, size, published.parameters, folder))
        else:
            models.append(ModelInfo(name, "available", published.repo, None, published.parameters))
    listed = {published.repo for published in SHORT_NAMES.values()}
    for repo, folder in _cached_whispers():
        if repo not in listed:
            models.append(ModelInfo(repo, "cached", repo, folder_size(folder), None, folder))
    for file in FILES.values():
        here = find_file(file)
        state: State = "available" if here is None else "cached"
        source = None if file.hub is None else file.hub.repo
        models.append(ModelInfo(file.name, state, source, None if here is None else file.size, None, here))
    return models


def tokenizer_folder(vocab_size: int, *, announce: Announce | None = None) -> Path:
    """Find a folder with the tokenizer that OpenAI's models of this vocabulary share, for checkpoints without one.

    English-only: the bundled model's. Otherwise that of any such model in the cache, else it is downloaded. Raises
    `CheckpointNotFoundError` for a vocabulary that no published model has, `DownloadError`, and `DiskSpaceError`.
    """
    if vocab_size == _ENGLISH_VOCAB:
        return BUNDLED_DIR / BUNDLED_MODEL
    names = _TOKENIZER_REPOS.get(vocab_size)
    if names is None:
        raise CheckpointNotFoundError(
            f"the checkpoint has no tokenizer, and none is known for {vocab_size} tokens: put its tokenizer.json "
            "next to the weights"
        )
    models = [HubModel(SHORT_NAMES[name].repo) for name in names]
    for model in models:
        folder = snapshot(model) or find_assembled(model)
        if folder is not None and has_tokenizer(folder):
            return folder
    if is_offline():
        raise CheckpointNotFoundError(
            f"the checkpoint has no tokenizer: put the tokenizer.json of {models[0]} next to the weights, or allow the "
            f"network (HF_HUB_OFFLINE is set), or run `whispertide models pull {names[0]}` where there is one"
        )
    return download_tokenizer(models[0], announce)


def folder_size(folder: Path) -> int:
    """Bytes of a file, or of all files in a folder, and in those inside it."""
    return sum(file.stat().st_size for file in (folder, *folder.rglob("*")) if file.is_file())


def _cached_whispers() -> Iterator[tuple[str, Path]]:
    """Yield repository and folder of every complete Whisper in the cache whose main branch was downloaded."""
    for folder in sorted(hub_cache().glob("models--*--*")):
        # Only the first: names of models may have "--" in them.
        repo = folder.name.removeprefix("models--").replace("--", "/", 1)
        place = snapshot(HubModel(repo))
        if place is None or not is_complete(place):
            continue
        try:
            check_config(place, [path.name for path in weight_files(place)])
        except CheckpointError:
            continue  # another kind of model, or somebody else's broken one
        yield repo, place


def _cached_commits(model: HubModel) -> list[str]:
    if model.revision is not None:
        folder = snapshot(model)
        return [] if folder is None else [folder.name]
    snapshots = hub_cache() / f"models--{model.repo.replace('/', '--')}" / "snapshots"
    return sorted(folder.name for folder in snapshots.glob("*") if folder.is_dir())
