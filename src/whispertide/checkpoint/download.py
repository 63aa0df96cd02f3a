"""The edge to the Hugging Face hub and its cache: find, and download.

The cache's layout is Hugging Face's documented one (`models--org--name/refs`, `/snapshots`), so that looking a model up
needs no network and not even the library. Downloads go through `huggingface_hub`; whatever it raises leaves here as an
error that says what to do. This module does not know short names, nor how checkpoints are read.
"""

import errno
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from whispertide.checkpoint.cache import spare_dir, write_problem
from whispertide.checkpoint.ctranslate2_layout import is_whisper_config
from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.json_file import read_json
from whispertide.checkpoint.names import HubModel, single_files
from whispertide.checkpoint.untrusted import first_of
from whispertide.checkpoint.vocabulary import ADDED_TOKENS_JSON, LISTED, MERGES_TXT, TOKENIZER_JSON, VOCAB_JSON
from whispertide.checkpoint.weights import CONVERTED, WEIGHT_FORMATS, WEIGHTS, weight_files
from whispertide.errors import CheckpointError, DiskSpaceError, DownloadError, UnreachableError
from whispertide.types import Announce

_CONFIG = "config.json"
_GENERATION_CONFIG = "generation_config.json"

_MAIN = "main"
_SPARE_BYTES = 64 << 20  # left free besides what is downloaded


def hub_cache() -> Path:
    """The directory of the Hugging Face cache (`HF_HUB_CACHE`, `HF_HOME`); a spare one if nobody can make that."""
    from huggingface_hub import constants

    usual = Path(os.path.expanduser(constants.HF_HUB_CACHE))
    return usual if os.path.isdir(usual) or write_problem(usual) is None else spare_dir() / "hub"


def is_offline() -> bool:
    """True if `HF_HUB_OFFLINE` forbids the network."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def forbid_network() -> None:
    """Forbid downloads to this process and those that it starts, as if `HF_HUB_OFFLINE` were set."""
    from huggingface_hub import constants

    os.environ["HF_HUB_OFFLINE"] = "1"
    constants.HF_HUB_OFFLINE = True


def snapshot(model: HubModel) -> Path | None:
    """The folder of a model in the cache, complete or not; None if there is none."""
    folder = hub_cache() / f"models--{model.repo.replace('/', '--')}"
    revision = model.revision or _MAIN
    try:
        commit = (folder / "refs" / revision).read_text(encoding="utf-8").strip()
    except OSError:
        # A commit has no file among the references: it is the name of its folder itself.
        commit = revision
    place = folder / "snapshots" / commit
    return place if commit and place.is_dir() else None


def is_complete(folder: Path) -> bool:
    """True if a folder holds a configuration and all the weights. (The small files are always fetched before those.)"""
    try:
        return (folder / _CONFIG).is_file() and bool(weight_files(folder))
    except CheckpointError:
        return False


def check_config(folder: Path, weights: Iterable[str]) -> None:
    """Raises `CheckpointError` unless the configuration in a folder is that of a Whisper with weights of this kind."""
    config = read_json(folder / _CONFIG)
    if CONVERTED not in weights:
        ModelDims.from_hf_config(config)
    elif not is_whisper_config(config):
        raise CheckpointError(f"expected a Whisper of CTranslate2; {folder / _CONFIG} is of another model")


def find_cached(model: HubModel) -> Path | None:
    """The folder, or the file, of a model that is complete in the cache."""
    folder = snapshot(model)
    if folder is None:
        return None
    if model.file:
        return folder / model.file if (folder / model.file).is_file() else None
    return folder if is_complete(folder) else None


def download(model: HubModel, announce: Announce | None = None) -> Path:
    """Download the newest state of a model into the cache; parts that are there are not fetched again.

    `announce` is called before, with name and size. Raises `UnreachableError` (no network, or the hub is in trouble),
    `DownloadError` (offline, not on the hub, no access, no such revision, interrupted), `DiskSpaceError`, and
    `CheckpointError` when it is no Whisper in the layout of transformers or CTranslate2.
    """
    sizes = _list_files(model)
    if model.file:
        return _download_file(model, sizes, announce)
    small, weights = needed_files(model, sizes)
    _prepare(model, sizes, (*small, *weights), announce)
    # The small files first: what is no Whisper is refused before gigabytes, and whole weights mean that all is there.
    place = _fetch(model, small)
    check_config(place, weights)
    place = _fetch(model, [*small, *weights])
    if not is_complete(place):  # without a connection some versions of the library return what there is
        raise _interrupted(model, "the connection was lost")
    return place


def _download_file(model: HubModel, sizes: Mapping[str, int], announce: Announce | None) -> Path:
    if model.file not in sizes:
        there = first_of(single_files(sizes)) or "no .pt and no ggml-*.bin"
        raise DownloadError(f"expected a file {model.file} in {model.repo}; it has {there}")
    _prepare(model, sizes, (model.file,), announce)
    return _fetch(model, [model.file]) / model.file


def _prepare(model: HubModel, sizes: Mapping[str, int], names: Iterable[str], announce: Announce | None) -> None:
    """Check that there is room, and announce the download."""
    folder = snapshot(model)
    todo = sum(sizes[name] for name in names if folder is None or not (folder / name).is_file())
    check_space(todo, hub_cache())
    if todo and announce is not None:
        announce(f"downloading {model} ({format_size(todo)}) from the Hugging Face hub to {hub_cache()}")


def download_tokenizer(model: HubModel, announce: Announce | None = None) -> Path:
    """Download only `tokenizer.json` of a model into the cache. Raises `DownloadError` and `DiskSpaceError`."""
    if announce is not None and not is_offline():
        announce(f"downloading the tokenizer of {model} (about 2 MB) from the Hugging Face hub")
    if is_offline():
        raise _offline_error(model)
    return _fetch(model, [TOKENIZER_JSON])


def needed_files(model: HubModel, available: Iterable[str]) -> tuple[list[str], list[str]]:
    """Choose the small files and the weights of a repository, without copies in other formats.

    Raises `CheckpointError` when the repository holds no checkpoint of transformers or CTranslate2.
    """
    names = set(available)
    index, weights = _choose_weights(names)
    single = single_files(names)
    if _CONFIG not in names and single:
        raise CheckpointError(
            f"{model} on the Hugging Face hub holds single checkpoints: {first_of(single)}; name one of them, such as "
            f"{model.repo}/{single[0]}"
        )
    if _CONFIG not in names or not weights:
        raise CheckpointError(
            f"{model} on the Hugging Face hub has no {_CONFIG if weights else WEIGHTS}; expected a Whisper in the "
            "layout of transformers or CTranslate2. GGUF and ONNX cannot be loaded: name the original model."
        )
    if weights == [CONVERTED]:
        # All that faster-whisper fetches, which shares the cache and looks for no more in a folder that is there.
        return [
            name for name in (_CONFIG, "preprocessor_config.json", TOKENIZER_JSON, *LISTED) if name in names
        ], weights
    tokenizer = [TOKENIZER_JSON] if TOKENIZER_JSON in names else [VOCAB_JSON, MERGES_TXT, ADDED_TOKENS_JSON]
    small = [name for name in (_CONFIG, _GENERATION_CONFIG, *tokenizer, *index) if name in names]
    return small, weights


def _choose_weights(names: set[str]) -> tuple[list[str], list[str]]:
    """Choose the index (if any) and the files of the weights, in the first format that is there."""
    for single, index in WEIGHT_FORMATS:
        if single in names:
            return [], [single]
        if index in names:
            stem, _, suffix = single.rpartition(".")
            return [index], sorted(name for name in names if re.fullmatch(rf"{stem}-\d+-of-\d+\.{suffix}", name))
    return [], []


def check_space(needed: int, directory: Path) -> None:
    """Raise `DiskSpaceError` if the disk of `directory` has no room for `needed` more bytes."""
    # The cache may not exist yet; then its disk is that of the first folder above it that does.
    existing = next(path for path in (directory, *directory.resolve().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed and needed + _SPARE_BYTES > free:
        raise DiskSpaceError(
            f"expected {format_size(needed + _SPARE_BYTES)} free in {directory}; {format_size(free)} are. Free some "
            "space (`whispertide models remove`), choose a smaller model, or set HF_HOME to a directory elsewhere."
        )


def format_size(size: int) -> str:
    """Format bytes in powers of ten: "290 MB"."""
    if size >= 10**9:
        return f"{size / 1e9:.2f} GB"
    return f"{size / 1e6:.0f} MB" if size >= 10**7 else f"{size / 1e6:.1f} MB"


def _offline_error(model: HubModel) -> DownloadError:
    """The error for a model that is not in the cache while HF_HUB_OFFLINE is set."""
    return DownloadError(
        f"{model} is not on this machine, and --offline or HF_HUB_OFFLINE forbids downloading it. "
        f"{offline_advice(model)}"
    )


def offline_advice(model: HubModel) -> str:
    """The advice for a model that cannot be downloaded."""
    return (
        f"On a machine with a network run `whispertide models pull {model}` and copy its Hugging Face cache to "
        f"{hub_cache()}, or copy the folder with its {_CONFIG}, {TOKENIZER_JSON} and {WEIGHTS} here and give its path "
        "instead of the name. The bundled nano.en needs no network."
    )


def _list_files(model: HubModel) -> Mapping[str, int]:
    """Map the names of all files in the repository to their sizes in bytes."""
    if is_offline():
        raise _offline_error(model)
    from huggingface_hub import HfApi, constants

    with _translate_errors(model, "reached"):
        info = HfApi().model_info(
            model.repo, revision=model.revision, timeout=constants.HF_HUB_ETAG_TIMEOUT, files_metadata=True
        )
    return {item.rfilename: item.size or 0 for item in info.siblings or ()}


def _fetch(model: HubModel, files: list[str]) -> Path:
    from huggingface_hub import snapshot_download

    with _translate_errors(model, "interrupted"):
        found = snapshot_download(model.repo, revision=model.revision, cache_dir=hub_cache(), allow_patterns=files)
    return Path(found)


@contextmanager
def _translate_errors(model: HubModel, stage: str) -> Iterator[None]:
    # Connection errors are of another library in each major version of huggingface_hub, with no common base.
    try:
        yield
    except Exception as error:
        raise _translate(error, model, stage) from error


def _translate(error: Exception, model: HubModel, stage: str) -> CheckpointError:
    from huggingface_hub import errors

    if _is_no_space(error):
        return DiskSpaceError(
            f"the disk of {hub_cache()} became full while downloading {model}. Free some space and run the same "
            "command again."
        )
    if isinstance(error, errors.GatedRepoError):
        return DownloadError(
            f"{model} asks its users to agree to terms first: do so at https://huggingface.co/{model.repo}, then run "
            "`hf auth login` and try again"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return DownloadError(f"expected a branch, tag or commit of {model.repo}; it has no {model.revision or _MAIN!r}")
    if isinstance(error, errors.RepositoryNotFoundError):
        return DownloadError(
            f"{model.repo} is not on the Hugging Face hub, or is private; check the spelling, or run `hf auth login`"
        )
    if isinstance(error, errors.OfflineModeIsEnabled):
        return _offline_error(model)
    if isinstance(error, PermissionError) or getattr(error, "errno", None) == errno.EROFS:
        return DownloadError(
            f"expected to write to {hub_cache()}: {error}. Set HF_HOME to a directory that you may write to."
        )
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.HfHubHTTPError) and status is not None:
        mine = 400 <= status < 500 and status != 429
        hint = "check your access with `hf auth whoami`" if mine else "the problem is there; try again later"
        text = f"the Hugging Face hub answered {status} when asked for {model}; {hint}"
        return UnreachableError(text, f"it answered {status}")
    reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    if stage == "interrupted":
        return _interrupted(model, reason)
    return UnreachableError(
        f"{model} is not on this machine, and the Hugging Face hub cannot be reached ({reason}). Check the network. "
        f"{offline_advice(model)}",
        reason,
    )


def _interrupted(model: HubModel, reason: str) -> DownloadError:
    return DownloadError(
        f"the download of {model} was interrupted ({reason}). Run the same command again: files that arrived "
        "whole are kept."
    )


def _is_no_space(error: BaseException | None) -> bool:
    # Libraries wrap the system's errors, so the whole chain is looked through.
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if "No space left on device" in str(error):  # the transfer library in Rust reports no number
            return True
        error = error.__cause__ or error.__context__
    return False
