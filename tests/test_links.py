"""Every link of every Markdown page leads to a file that is there and to a heading of it. Every page that is named by
its path, in code, settings or other pages, is there. Every page can be reached from the README.

The entries of the log are dated: only their links are checked.
"""

import re
import subprocess
from functools import cache
from itertools import chain
from pathlib import Path

from each_row import each_row

ROOT = Path(__file__).parents[1]
LOG = ROOT / "lab" / "log"
NAMING = ("*.md", "*.py", "*.toml", "*.js", "*.yaml", "*.conf", "Makefile", ".gitignore", "deploy", ".ci")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"(?<![\w./-])(?:lab/)?docs/[\w./-]*\.(?:md|py|json|png|jsonl\.gz)\b")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.M | re.S)


def tracked(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [path for name in found if (path := ROOT / name).is_file()]


PAGES = tracked("*.md")


@cache
def anchors(page: Path) -> set[str]:
    """The headings as GitHub makes anchors of them: the second of the same name has -1 at its end."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found: dict[str, int] = {}
    made = set()
    for heading in re.findall(r"^#{1,6} +(.*?) *$", text, re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading.lower())).replace(" ", "-")
        made.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return made


def broken(text: str, page: Path) -> list[str]:
    """The links of a page's text that lead nowhere."""
    missing = []
    for link in _LINK.findall(_CODE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            missing.append(link)
    return missing


@each_row("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page.read_text(encoding="utf-8"), page) == []


@each_row(
    ("link", "found"),
    [
        ("README.md", True),
        ("README.md#recipes", True),
        ("README.md#nothing", False),
        ("nothing.md", False),
        ("#recipes", True),
        ("#nothing", False),
        ("https://example.org/nothing", True),
    ],
)
def test_a_broken_link_is_found(link: str, found: bool) -> None:
    assert (broken(f"[it]({link})", ROOT / "README.md") == []) is found


def test_pages_that_are_named_by_their_path_are_there() -> None:
    files = [file for file in tracked(*NAMING) if LOG not in file.parents and file != Path(__file__)]
    named = ((file, name) for file in files for name in _PATH.findall(file.read_text(encoding="utf-8")))
    assert [f"{file.relative_to(ROOT)}: {name}" for file, name in named if not (ROOT / name).exists()] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, open_pages = set[Path](), [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop()
        reached.add(page)
        links = _LINK.findall(page.read_text(encoding="utf-8"))
        names = (link.partition("#")[0] for link in links if not re.match(r"[a-z]+:", link))
        targets = {(page.parent / name).resolve() for name in names if name.endswith(".md")}
        open_pages += [target for target in targets if target.is_file() and target not in reached]
    docs = chain((ROOT / "docs").rglob("*.md"), (ROOT / "lab" / "docs").rglob("*.md"))
    assert [str(page.relative_to(ROOT)) for page in docs if page not in reached] == []
