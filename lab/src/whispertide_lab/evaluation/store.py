"""Where measurements are kept, so that an interrupted run goes on and a report can be made later.

    DIR/KEY/spec.json          what was to be measured: one cell
    DIR/KEY/traces/ID.json     the record of each finished utterance
    DIR/KEY/clips/N.json       or of each finished clip
    DIR/KEY/kept.json          or all that was found, where that comes at once
    DIR/KEY/cell.json          the scores, once every utterance is done

The key is a hash over everything that the result depends on (settings, weights, corpus, machine, code), so a changed
setting or a changed program starts a new cell and never mixes with an old one. Every file appears whole or not at all.
Knows nothing of how a trace comes about or what a score means.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import whispertide
import whispertide_lab
from whispertide.atomic import CHOOSE_OUTPUT, check_place, write_text, writing
from whispertide.errors import OptionError
from whispertide.recipes.allocation import processor
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.from_json import built

Json = dict[str, Any]
T = TypeVar("T")

# The places of the program's own files begin with these: those of the laboratory's with `lab/`.
_SOURCES = {"": Path(whispertide.__file__).parent, "lab/": Path(str(whispertide_lab.__file__)).parent}
_DATA = ("bundled/steadiness.json",)  # what is computed by and is no code: the rule by which `tide` confirms words
# What shows, serves or trains cannot change a measurement; nor can what measures something else.
_IRRELEVANT = (
    *("__main__.py", "cli/", "server/", "lab/cli/", "lab/training/"),
    *("lab/evaluation/items/", "lab/evaluation/card/"),
    *(f"tuning/{name}.py" for name in ("drawing", "page", "steadiness")),
    *(
        f"lab/evaluation/{name}.py"
        for name in (
            *("agreement", "charts", "clips", "compare", "estimate", "grid", "kept_cells", "marks", "named"),
            *(
                "paper",
                "papers",
                "peer_cells",
                "preparation",
                "publish",
                "report",
                "runner",
                "store",
                "sweep",
                "watch",
                "workbench",
            ),
        )
    ),
)
_PACKAGES = (  # that compute, then those that count word errors
    *("numpy", "onnxruntime", "soxr"),
    *("jiwer", "rapidfuzz", "whisper-normalizer"),
)
_OTHER_ENGINES = {"torch": ("lab/training/torch_engine.py", "lab/training/network.py")}  # in place of ONNX Runtime
_KEY_LENGTH = 12


@dataclass(frozen=True, slots=True)
class CellSpec:
    """One cell of the grid: who recognises what, how.

    corpus      as it was asked for; `corpus_name` says exactly which
    settings    all fields of the recipe, or all settings of the peer
    changes     those fields that differ from the recipe of that name, as "field=value"
    streaming   False for one that shows everything at the end
    attachments_hash  a hash over what lies next to the weights and counts, too
    """

    recogniser: str
    model: str
    corpus: str
    corpus_hash: str
    clock: str
    corpus_name: str = ""
    step_s: float | None = None
    streaming: bool = True
    changes: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    model_hash: str = ""
    attachments_hash: str = ""
    engine: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""
    code: str = ""

    @property
    def key(self) -> str:
        """Twelve hexadecimal digits over all fields."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:_KEY_LENGTH]

    @property
    def label(self) -> str:
        """Recogniser and changes, for legends."""
        return " ".join((self.recogniser, *self.changes))

    @property
    def step(self) -> str:
        """The step as a note; empty where there is none."""
        return "" if self.step_s is None else f"{self.step_s:g} s"

    @property
    def question(self) -> tuple[object, ...]:
        """What two cells have in common that can be paired across folders: not machine, code, engine and weights."""
        return (self.recogniser, self.changes, self.step_s, self.model, self.corpus_hash, self.clock)


@dataclass(frozen=True, slots=True)
class Cell:
    """A finished cell. `score` has the keys of the JSON line; `utterances` one record each, in the corpus's order."""

    spec: CellSpec
    score: Mapping[str, Any]
    utterances: tuple[Json, ...]
    date: str
    folder: Path | None = None

    @property
    def key(self) -> str:
        """The key of its spec."""
        return self.spec.key

    def traces(self) -> Iterator[Trace]:
        """The records of its utterances, in order; those that cannot be read are left out."""
        if self.folder is None:
            return
        for utterance in self.utterances:
            trace = _read_trace(_trace_path(self.folder, utterance["id"]), utterance["id"])
            if trace is not None:
                yield trace


class Results:
    """A folder of cells. Any number of processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check_writable(self) -> None:
        """Make the folder if it is not there. Raises `OutputError` where nothing can be written into it."""
        with writing(self.folder, CHOOSE_OUTPUT):
            self.folder.mkdir(parents=True, exist_ok=True)
            check_place(self.folder / "spec.json")

    def begin(self, spec: CellSpec) -> None:
        """Note what is going to be measured."""
        _write(self.folder / spec.key / "spec.json", asdict(spec))

    def trace(self, spec: CellSpec, utterance: str) -> Trace | None:
        """The record of an utterance, if it is finished."""
        return _read_trace(_trace_path(self.folder / spec.key, utterance), utterance)

    def save_trace(self, spec: CellSpec, trace: Trace) -> None:
        """Keep the record of a finished utterance. Raises `OutputError` where the folder cannot be written."""
        _write(_trace_path(self.folder / spec.key, trace.utterance), asdict(trace))

    def clip(self, spec: CellSpec, number: int) -> Json | None:
        """What was found in a clip, if it is finished."""
        return _read(self.folder / spec.key / "clips" / f"{number}.json", dict)

    def save_clip(self, spec: CellSpec, number: int, found: Json) -> None:
        """Keep what was found in a clip. Raises `OutputError` where the folder cannot be written."""
        _write(self.folder / spec.key / "clips" / f"{number}.json", found)

    def kept(self, spec: CellSpec, kind: type[T]) -> T | None:
        """What was kept, of that type (`from_json.built`); None if nothing was."""
        return _read(self.folder / spec.key / "kept.json", lambda data: built(kind, data["kept"]))

    def keep(self, spec: CellSpec, value: object) -> None:
        """Keep what was found: dataclasses, sequences, objects and plain values.

        Raises `OutputError` where the folder cannot be written.
        """
        self.begin(spec)
        _write(self.folder / spec.key / "kept.json", {"kept": value})

    def save(self, spec: CellSpec, score: Mapping[str, Any], utterances: list[Json]) -> Cell:
        """Keep the scores of a cell whose utterances are all done."""
        cell = Cell(
            spec, score, tuple(utterances), datetime.now(UTC).isoformat(timespec="seconds"), self.folder / spec.key
        )
        content = {"spec": asdict(spec), "score": dict(score), "utterances": utterances, "date": cell.date}
        _write(self.folder / spec.key / "cell.json", content)
        return cell

    def cell(self, spec: CellSpec) -> Cell | None:
        """The finished cell of that spec."""
        return _read_cell(self.folder / spec.key)

    def cells(self) -> list[Cell]:
        """All finished cells, oldest first."""
        found = (_read_cell(path.parent) for path in sorted(self.folder.glob("*/cell.json")))
        return sorted((cell for cell in found if cell is not None), key=lambda cell: (cell.date, cell.key))


def open_results(place: str | Path) -> list[Cell]:
    """The finished cells of a results folder, or the cell of a cell's own folder. Raises `OptionError` if neither."""
    folder = Path(place)
    if (folder / "cell.json").is_file():
        cell = _read_cell(folder)
        cells = [cell] if cell else []
    else:
        cells = Results(folder).cells() if folder.is_dir() else []
    if not cells:
        raise OptionError(f"expected a folder with finished cells, as `whispertide bench run` writes it; got {place}")
    return cells


# --- what a result depends on ------------------------------------------------------------------------------------


@cache
def code_version(part: str = "", *more: str) -> str:
    """A hash over the program's own source and data and the versions of the packages that compute or count errors; 12
    hexadecimal digits.

    `part` is the folder that matters: other programs' results do not depend on our engine, but on how they are
    run and scored. `more`: modules or packages, by name, that otherwise do not matter, but do here.
    """
    digest, wanted = hashlib.sha256(), tuple(map(_place, more))
    folder = f"{part}/" if part else ""
    for place, path in _files():
        counts = place.startswith(folder) and not place.startswith(_IRRELEVANT)
        if not counts and not place.startswith(wanted):
            continue
        # Zeros in between, so that no two lists of files give the same bytes.
        digest.update(place.encode() + b"\0" + path.read_bytes() + b"\0")
    for name in _PACKAGES:
        digest.update(f"{name} {_version(name)}\n".encode())
    return digest.hexdigest()[:_KEY_LENGTH]


def _files() -> list[tuple[str, Path]]:
    """All places of the program's own files, in order, and where each is."""
    found = [
        (start + path.relative_to(folder).as_posix(), path)
        for start, folder in _SOURCES.items()
        for path in (*folder.rglob("*.py"), *filter(Path.is_file, (folder / name for name in _DATA)))
    ]
    return sorted(found)


def _path(place: str) -> Path:
    start = next(start for start in sorted(_SOURCES, reverse=True) if place.startswith(start))
    return _SOURCES[start] / place.removeprefix(start)


def _place(module: str) -> str:
    """The place of a module or package of the program."""
    place = module.replace("whispertide_lab", "lab").removeprefix("whispertide.").replace(".", "/")
    return f"{place}/" if _path(place).is_dir() else f"{place}.py"


@cache
def engine_version(provider: str) -> str:
    """Of an engine that stands in place of ONNX Runtime: its package's version, and a hash over our part of it.

    Nothing for ONNX Runtime's own providers: `code_version` has all of them.
    """
    if provider not in _OTHER_ENGINES:
        return ""
    digest = hashlib.sha256(b"\0".join(_path(place).read_bytes() for place in _OTHER_ENGINES[provider]))
    return f"{_version(provider)}+{digest.hexdigest()[:_KEY_LENGTH]}"


@cache
def commit() -> str:
    """The commit of the source tree, with "+" after it if the tree was changed since; else the package's version."""
    with suppress(OSError, subprocess.SubprocessError):
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--", *map(str, _SOURCES.values())) else "")
    return _version("whispertide")


@cache
def machine() -> str:
    """Processor, cores and system, as a report names them."""
    return f"{processor()}, {os.cpu_count()} cores, {platform.system()}"


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=_SOURCES[""], capture_output=True, text=True, check=True, timeout=10)
    return run.stdout.strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


# --- files -----------------------------------------------------------------------------------------------------------


def _trace_path(folder: Path, utterance: str) -> Path:
    # For people; the hash after it tells apart what is alike to here.
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", utterance)[:48]
    return folder / "traces" / f"{slug}-{hashlib.sha256(utterance.encode()).hexdigest()[:8]}.json"


def _read_trace(path: Path, utterance: str) -> Trace | None:
    trace: Trace | None = _read(path, partial(built, Trace))
    return trace if trace and trace.utterance == utterance else None


def _read_cell(folder: Path) -> Cell | None:
    def made(data: Json) -> Cell:
        spec = built(CellSpec, data["spec"])
        return Cell(spec, dict(data["score"]), tuple(data["utterances"]), str(data["date"]), folder)

    return _read(folder / "cell.json", made)


def _read(path: Path, made: Callable[[Json], T]) -> T | None:
    """What is made of a file; None where there is none, and, with a warning, where it is damaged."""
    try:
        data = json.loads(path.read_bytes())
        if isinstance(data, dict):
            return made(data)
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError):
        pass
    warnings.warn(f"{path} is damaged; it is left out, and measured again if it is needed", UserWarning, stacklevel=3)
    return None


def _write(path: Path, content: Json) -> None:
    with writing(path, "choose another folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(content, default=asdict))
