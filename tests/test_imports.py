"""The one direction of flow: imports point left only, and nothing heavy is imported before it is needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import whispertide
import whispertide_lab

SOURCE, LABORATORY = (Path(str(package.__file__)).parent for package in (whispertide, whispertide_lab))

# docs/internals/architecture.md; a module may import its own layer and those before it
LAYERS = (
    (
        "types",
        "atomic",
        "dependent",
        "errors",
        "extras",
        "options",
        "spellings",
        "events",
        "plural",
        "punctuation",
        "text_lines",
    ),
    ("audio",),
    ("spooled_frames",),
    ("features",),
    ("checkpoint",),
    ("graphs",),
    ("model",),
    ("decoding", "speakers"),
    ("streaming",),
    ("methods",),
    ("recipes", "understand"),
    ("session_state",),
    ("session", "offline", "channels", "feed"),
    ("formats",),
    ("translation",),
    ("api",),
    ("batch", "compat", "dictation", "server", "tuning"),
    ("cli",),
    ("__main__",),
)
# The laboratory's own flow, after all that runs; nothing but its commands uses those of what runs.
WINGS = (
    (
        "lab.speech",
        "lab.from_json",
        "lab.new_folder",
        "lab.safetensors_header",
        "lab.checkpoint_folder",
        "lab.compression",
        "lab.npu",
    ),
    ("lab.evaluation",),
    ("lab.training",),
    ("lab.cli",),
)
RANK: dict[str, float] = {name: rank for rank, layer in enumerate((*LAYERS, *WINGS)) for name in layer}
FORBIDDEN = ("torch", "transformers", "whisper", "faster_whisper")
LABORATORY_ONLY = ("onnx",)
LAZY = (
    "onnxruntime",
    "av",
    "sounddevice",
    "huggingface_hub",
    "fsspec",
    "ray",
    "opentelemetry",
    "tokenizers",
    "rich",
    "typer",
)


def modules() -> list[Path]:
    return sorted(path for folder in (SOURCE, LABORATORY) for path in folder.rglob("*.py"))


def name_of(path: Path) -> str:
    folder = SOURCE if path.is_relative_to(SOURCE) else LABORATORY
    return ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path) for path in modules()}


def part_of(module: str) -> str | None:
    """`whispertide.audio.file` -> `audio`, `whispertide_lab.speech.text` -> `lab.speech`; None for a package."""
    package, *pieces = module.split(".")
    if not pieces:
        return None
    return f"lab.{pieces[0]}" if package == "whispertide_lab" else pieces[0]


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for name in node.names:
                submodule = f"{node.module}.{name.name}"
                yield submodule if submodule in MODULES else node.module


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def wrong_imports(path: Path) -> Iterator[str]:
    """What this module imports and may not."""
    part = part_of(name_of(path))
    if part is None:
        return
    name = name_of(path)
    if part not in RANK:
        yield f"{name}: {part} has no place in LAYERS"
        return
    for module in imported(parsed(path)):
        other = part_of(module) if module.startswith("whispertide") else None
        if other in RANK and RANK[other] > RANK[part]:
            yield f"{name} ({part}) imports {module}"
        if other == "cli" and part.startswith("lab.") and part != "lab.cli":
            yield f"{name} imports {module}"
        if module.split(".")[0] in (*FORBIDDEN, *LABORATORY_ONLY) and not part.startswith("lab."):
            yield f"{name} imports {module}"


def test_imports_point_left() -> None:
    assert [found for path in modules() for found in wrong_imports(path)] == []


def at_the_top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module outside its functions; those under TYPE_CHECKING count too."""
    for statement in body:
        if isinstance(statement, ast.If | ast.Try | ast.ClassDef):
            yield from at_the_top([*statement.body, *getattr(statement, "orelse", ())])
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement


def neighbours() -> dict[str, dict[str, set[str]]]:
    """Folder -> each file or folder in it -> those of the same folder that it imports from, however deep inside."""
    places = {}
    for path in modules():
        package = SOURCE if path.is_relative_to(SOURCE) else LABORATORY
        places[name_of(path)] = ("", *path.relative_to(package.parent).with_suffix("").parts)
    found: dict[str, dict[str, set[str]]] = {}
    for path in modules():
        own = places[name_of(path)]
        for module in imported(ast.Module([*at_the_top(parsed(path).body)], [])):
            if (other := places.get(module, own)) != own:
                shared = next(n for n, (a, b) in enumerate(zip(own, other, strict=False)) if a != b)
                folder = found.setdefault("/".join(own[:shared]), {})
                folder.setdefault(own[shared], set()).add(other[shared])
    return found


def circles() -> Iterator[str]:
    for folder, graph in neighbours().items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            yield f"{folder}: {' -> '.join(reversed(error.args[1]))}"


def test_no_circles_of_files_or_folders() -> None:
    assert list(circles()) == []


def test_importing_the_package_pulls_in_nothing_heavy() -> None:
    code = "import sys, whispertide; print(' '.join(sys.modules))"
    loaded = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert not loaded & {*FORBIDDEN, *LABORATORY_ONLY, *LAZY}


def test_what_runs_does_not_need_the_laboratory() -> None:
    """It works where that is not installed, and names none of its modules in a text either."""
    running = [path for path in modules() if path.is_relative_to(SOURCE)]
    assert [name_of(path) for path in running if "whispertide_lab." in path.read_text()] == []
    code = f"""
import sys, importlib
sys.modules['whispertide_lab'] = None
for name in {[name_of(path) for path in running]}:
    importlib.import_module(name)
"""
    subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, timeout=600
    )  # a busy machine takes its time


def test_everything_but_training_works_without_torch() -> None:
    """torch and the reference implementations are made impossible to import; the bundled model still transcribes."""
    code = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {FORBIDDEN!r}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import importlib, pkgutil, whispertide, whispertide_lab
for package in (whispertide, whispertide_lab):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):
        if not module.name.startswith('whispertide_lab.training'):
            importlib.import_module(module.name)
import numpy as np
model = whispertide.load('nano.en')
print(len(model.transcribe(np.zeros(16000, np.float32)).words))
"""
    subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, timeout=600
    )  # a busy machine takes its time
