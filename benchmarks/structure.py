"""How large a package is, and which of its files one second of audio passes, for docs/internals/architecture.md.

    python benchmarks/structure.py                       whispertide as it is here
    python benchmarks/structure.py FOLDER ...            any packages: another checkout's src/whispertide, say
    python benchmarks/structure.py --walk                the files that one second passes, in the order of its way
    python benchmarks/structure.py --walk whisper        the same of openai-whisper, for a recording of a second

Code lines are those that are neither blank nor comment nor docstring. Public names are classes and functions without an
underscore at the top of a module. Since Python 3.12 a comprehension is no function of its own.
"""

import argparse
import ast
import io
import statistics
import sys
import tokenize
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import whispertide

SOURCE = Path(whispertide.__file__).parent
_NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def row_of(folder: Path) -> str:
    """A package as a line of the Markdown table."""
    paths = sorted(folder.rglob("*.py"))
    lines, public = 0, 0
    lengths: list[int] = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        code = code_lines(text, tree)
        lines += len(code)
        functions = [node for node in ast.walk(tree) if isinstance(node, _DEFINITIONS)]
        lengths += [len(code & set(range(node.lineno, (node.end_lineno or node.lineno) + 1))) for node in functions]
        public += sum(
            isinstance(node, (*_DEFINITIONS, ast.ClassDef)) and not node.name.startswith("_") for node in tree.body
        )
    median = statistics.median(lengths or [0])
    tenth = statistics.quantiles(lengths, n=10)[-1] if len(lengths) > 1 else 0
    sizes = f"{len(paths)} | {lines:,} | {len(lengths):,} | {median:g} | {tenth:g} | {public:,}"
    return f"| {folder.name} | {sizes} |"


def code_lines(text: str, tree: ast.Module) -> set[int]:
    """The numbers of the lines with code."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOT_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, (*_DEFINITIONS, ast.ClassDef, ast.Module)) and ast.get_docstring(node, clean=False):
            docstring = node.body[0]
            found -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return found


def passed(source: Path, work: Callable[[], object]) -> dict[Path, list[str]]:
    """The files of a package that some work passes, in order, with the functions that it calls in each."""
    found: dict[Path, list[str]] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(source):
            functions = found.setdefault(path.relative_to(source), [])
            if frame.f_code.co_qualname not in functions:
                functions.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    work()
    sys.setprofile(None)
    return found


def our_second() -> dict[Path, list[str]]:
    """What the third second of a stream passes."""
    session = whispertide.load("nano.en").session("tide")  # not live: a busy machine would leave rounds out
    audio = np.concatenate(list(_demo()))

    def push(begin: int, end: int) -> None:
        for start in range(begin, end, 1600):
            session.push(audio[start : start + 1600])

    push(0, 32_000)
    found = passed(SOURCE, lambda: push(32_000, 48_000))
    session.close()
    return found


def whispers_second() -> dict[Path, list[str]]:
    """What a recording of a second passes in openai-whisper, which has no streams: a small model, random weights."""
    import whisper

    sizes = whisper.ModelDimensions(80, 1500, 64, 2, 1, 51864, 448, 64, 2, 1)
    model = whisper.model.Whisper(sizes)
    second = np.concatenate(list(_demo()))[:16_000]
    return passed(Path(whisper.__file__).parent, lambda: model.transcribe(second, fp16=False, temperature=0.0))


def _demo() -> Any:
    from whispertide.audio.file import decode_blocks

    return decode_blocks(SOURCE / "bundled" / "audio" / "demo.flac")


WALKS = {"whispertide": our_second, "whisper": whispers_second}


def main() -> None:
    """Print the table, or the walk."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[SOURCE])
    parser.add_argument(
        "--walk", nargs="?", const="whispertide", choices=WALKS, help="the files that one second of audio passes in it"
    )
    asked = parser.parse_args()
    if asked.walk:
        files = WALKS[asked.walk]()
        for path, functions in files.items():
            print(f"{path}: {', '.join(functions)}")
        functions = [name for names in files.values() for name in names]
        unnamed = sum(name.endswith(">") for name in functions)
        print(f"{len(files)} files, {len(functions)} functions, {unnamed} of them comprehensions and the like")
        return
    print("| package | files | code lines | functions | median lines | 90 % are shorter than | public names |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for folder in asked.folders:
        print(row_of(folder))


if __name__ == "__main__":
    main()
