"""Hooks of the site (mkdocs.yml): links that leave docs/ lead into the repository, and llms.txt lists the pages.

llms.txt tells programs that read for people where the text of each page is (llmstxt.org).
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The page's text with such links replaced; mkdocs calls it for each page."""
    return outward(markdown, page.file.src_uri, config["repo_url"])


def on_post_build(*, config: Any) -> None:
    """Write llms.txt; mkdocs calls it at the end."""
    text = list_pages(config["nav"], config["site_description"], config["repo_url"])
    (Path(config["site_dir"]) / "llms.txt").write_text(text, encoding="utf-8")


def outward(markdown: str, page: str, repository: str) -> str:
    """The text of `page`, a path in docs/, with links to files outside of docs/ as addresses in `repository`."""

    def replaced(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link[1]))
        if path.startswith("docs/"):
            return link[0]
        return f"]({repository}/blob/main/{path}{link[2] or ''})"

    return _LINK.sub(replaced, markdown)


def list_pages(menu: Sequence[dict[str, Any]], description: str, repository: str) -> str:
    """The text of llms.txt for the menu of the site (`nav`)."""
    return "\n".join(["# whispertide", "", f"> {description}", *_entries(menu, repository), ""])


def _entries(menu: Sequence[dict[str, Any]], repository: str) -> Iterator[str]:
    for title, below in (entry for one in menu for entry in one.items()):
        if isinstance(below, str):
            yield f"- [{title}]({repository}/raw/main/docs/{below})"
        else:
            yield from ("", f"## {title}", "", *_entries(below, repository))
