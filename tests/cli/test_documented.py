"""Every command of the pages can be given: it is there, and so are its options. What they do is tested elsewhere."""

import re
import shlex
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer

from each_row import each_row
from whispertide.cli import main
from whispertide.cli.aliases import WithAliases

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "lab/docs")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *chain(*(sorted((ROOT / at).rglob("*.md")) for at in FOLDERS))]
# indented, between fences, in a line
_CODE = re.compile(r"(?<=\n\n)(?: {4}.*\n)+|^```\w*\n.*?^```|`[^`\n]+`", re.M | re.S)
# To the end, a comment, the next program, or two spaces, after which is said what it does
_COMMAND = re.compile(r"(?:^|[|`]| in |=\S+) *whispertide +((?:'[^']*'|\"[^\"]*\"|[^\s'\"`|<>&#;()\\]+ ?)+)", re.M)
# What is said about a command on its own line, in an indented block, without a # before it
_BLOCK = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
_BARE_REMARK = re.compile(r"^ +(?:\w+=\S+ )*(?:whispertide|pip|make|python|pactl) .*?\S {2,}[^#\s].*", re.M)
_PLACEHOLDERS = re.compile(r"[…\[\]]|\bCOMMAND\b")

EVERYTHING: Any = typer.main.get_command(main.app)


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each command of a page."""
    for code in _CODE.findall(text.replace("\\|", "|")):
        for found in _COMMAND.findall(re.sub(r"\\\n *", "", code)):
            if not _PLACEHOLDERS.search(found):
                yield shlex.split(found)


def problem(words: list[str]) -> str:
    """Why this is no command; empty if it is one."""
    command, context = EVERYTHING, None
    try:
        while True:
            context = command.make_context(command.name, [], parent=context, resilient_parsing=True)
            context.resilient_parsing = False  # it was made without arguments, but these are parsed
            is_group = hasattr(command, "resolve_command")
            if isinstance(command, WithAliases):
                words = command.translated(context, words)
            own = next((place for place, word in enumerate(words) if is_group and word[0] != "-"), len(words))
            command.make_parser(context).parse_args(words[:own])
            if own == len(words):
                return ""
            _, command, words = command.resolve_command(context, words[own:])
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@each_row("page", PAGES)
def test_the_commands_of_a_page_can_be_given(page: Path) -> None:
    found = [(words, problem(words)) for words in commands(page.read_text(encoding="utf-8"))]
    assert [f"{shlex.join(words)}: {wrong}" for words, wrong in found if wrong] == []


@each_row("page", PAGES)
def test_a_copied_line_can_be_run_with_what_is_said_about_it(page: Path) -> None:
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    assert [line for block in blocks for line in _BARE_REMARK.findall(block)] == []


def test_a_remark_that_the_shell_would_run_is_found() -> None:
    assert _BARE_REMARK.findall("    A=b whispertide listen --device USB    the name\n") != []
    assert _BARE_REMARK.findall("    whispertide listen --device USB    # the name\n") == []


def test_there_are_many() -> None:
    guides = [page for page in PAGES if page.parent.name == "guides"]
    assert sum(len(list(commands(page.read_text(encoding="utf-8")))) for page in guides) > 60


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("`whispertide listen --nonsense`", "--nonsense"),
        ("\n\n    A=b whispertide --offline lisen --device USB    the name\n", "lisen"),
        ("```\nparec | whispertide transcribe - --rates 16000\n```", "--rates"),
        ("\n\n    whispertide bench run --corporas manifest:mine.jsonl\n", "--corporas"),
    ],
)
def test_a_command_that_cannot_be_given_is_found(line: str, found: str) -> None:
    (words,) = commands(line)
    assert found in problem(words)
