"""Find a model by its name: in the package, by a path, or as a repository on the Hugging Face hub.

Nothing is downloaded or opened here.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from whispertide.errors import CheckpointNotFoundError, OptionError

BUNDLED_DIR = Path(__file__).resolve().parent.parent / "bundled"


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository on the hub; a `revision` of None is its main branch. With a `file` it is that one file: a `.pt`, or
    a `ggml-*.bin` of whisper.cpp.
    """

    repo: str
    revision: str | None = None
    file: str = ""

    def __str__(self) -> str:
        name = f"{self.repo}/{self.file}" if self.file else self.repo
        return name if self.revision is None else f"{name}@{self.revision}"


@dataclass(frozen=True, slots=True)
class _ShortName:
    """A published model: its repository and its size in millions of parameters."""

    repo: str
    parameters: int


SHORT_NAMES: dict[str, _ShortName] = {
    "tiny": _ShortName("openai/whisper-tiny", 39),
    "tiny.en": _ShortName("openai/whisper-tiny.en", 39),
    "base": _ShortName("openai/whisper-base", 74),
    "base.en": _ShortName("openai/whisper-base.en", 74),
    "small": _ShortName("openai/whisper-small", 244),
    "small.en": _ShortName("openai/whisper-small.en", 244),
    "medium": _ShortName("openai/whisper-medium", 769),
    "medium.en": _ShortName("openai/whisper-medium.en", 769),
    "large-v1": _ShortName("openai/whisper-large", 1550),
    "large-v2": _ShortName("openai/whisper-large-v2", 1550),
    "large-v3": _ShortName("openai/whisper-large-v3", 1550),
    "large-v3-turbo": _ShortName("openai/whisper-large-v3-turbo", 809),
    "distil-small.en": _ShortName("distil-whisper/distil-small.en", 166),
    "distil-medium.en": _ShortName("distil-whisper/distil-medium.en", 394),
    "distil-large-v2": _ShortName("distil-whisper/distil-large-v2", 756),
    "distil-large-v3": _ShortName("distil-whisper/distil-large-v3", 756),
    "distil-large-v3.5": _ShortName("distil-whisper/distil-large-v3.5", 756),
}
ALIASES = {"large": "large-v3", "turbo": "large-v3-turbo"}

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SINGLE_FILE = re.compile(r"[A-Za-z0-9][\w.-]*\.pt|ggml-[\w.-]+\.bin")  # a whole model by itself
_HUB_FILE = re.compile(rf"({_HUB_ID.pattern})/({_SINGLE_FILE.pattern})")
# A file of weights that stands for its folder, which has the configuration.
_OF_A_FOLDER = re.compile(r".+\.safetensors|model\.bin")


def bundled_names() -> tuple[str, ...]:
    """The names of the models inside the package."""
    return tuple(sorted(config.parent.name for config in BUNDLED_DIR.glob("*/config.json")))


def find_model(name_or_path: str | Path, revision: str | None = None) -> Path | HubModel:
    """Find the model of this name.

    A name of this program comes before a folder of the same name in the working directory ("./base.en" means the
    folder), unless it comes as a `Path`; an existing path comes before a hub id. Raises `CheckpointNotFoundError` when
    the name means nothing or the path does not exist, and `OptionError` when a revision is given twice, or for a model
    that has none.
    """
    name, at, pinned = str(name_or_path).partition("@")
    path = Path(os.path.expanduser(name_or_path))  # `Path.expanduser` fails for a user who is not there
    if str(name_or_path) and path.exists() and (isinstance(name_or_path, Path) or not is_known(name)):
        path = path.parent if _OF_A_FOLDER.fullmatch(path.name) and path.is_file() else path
        return _without_revision(path, revision)
    if at and revision is not None:
        raise OptionError(f"expected one revision; got {pinned!r} in the name and {revision!r} apart from it")
    revision = revision if revision is not None else pinned if at else None
    if revision == "":
        raise OptionError(f"expected a branch, tag or commit after the @ of {str(name_or_path)!r}; got nothing")
    if name in bundled_names():
        return _without_revision(BUNDLED_DIR / name, revision)
    if is_known(name):
        return HubModel(SHORT_NAMES[ALIASES.get(name, name)].repo, revision)
    if _HUB_ID.fullmatch(name) and not isinstance(name_or_path, Path) and not _SINGLE_FILE.fullmatch(Path(name).name):
        return HubModel(name, revision)
    if (file := _HUB_FILE.fullmatch(name)) and not isinstance(name_or_path, Path):
        return HubModel(file[1], revision, file[2])
    raise _unknown(str(name_or_path))


def single_files(names: Iterable[str]) -> list[str]:
    """The files in a repository that are a complete model each."""
    return sorted(name for name in names if _SINGLE_FILE.fullmatch(name))


def display_name(name_or_path: str | Path) -> str:
    """The model's name for output: its own, or the last part of its path.

    Raises as `find_model` does.
    """
    place = find_model(name_or_path)
    if isinstance(place, HubModel):
        return str(name_or_path)
    place = place.resolve()
    return place.stem if place.is_file() else place.name


def as_argument(folder: Path) -> str:
    """The name of a folder as an argument: "./base" where "base" alone means another model."""
    return f"./{folder}" if is_known(str(folder)) else str(folder)


def is_known(name: str) -> bool:
    """True for the name of a published model or of one in the package."""
    return name in SHORT_NAMES or name in ALIASES or name in bundled_names()


def _without_revision(path: Path, revision: str | None) -> Path:
    if revision is not None:
        raise OptionError(f"a revision ({revision!r}) can be chosen for models of the hub only; {path} has none")
    return path


def _unknown(name: str) -> CheckpointNotFoundError:
    looks_like_a_path = name.startswith((".", "~")) or {"/", "\\"} & {*name}  # hub ids were found before
    if looks_like_a_path or name.endswith((".pt", ".safetensors", ".bin")):
        return CheckpointNotFoundError(
            f"expected the folder of a checkpoint, an OpenAI .pt or a file of whisper.cpp at {name}, but nothing is "
            "there"
        )
    known = [*bundled_names(), *SHORT_NAMES, *ALIASES]
    near = get_close_matches(name.lower(), known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known names: {', '.join(known)}"
    return CheckpointNotFoundError(
        f"expected the name of a model, a hub id such as openai/whisper-base.en, or a path; got {name!r}; {hint}"
    )
