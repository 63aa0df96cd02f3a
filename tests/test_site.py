"""The site's menu has every page, and its hooks; the strict build itself is `make site`."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmark_scripts import benchmark

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


@pytest.fixture(scope="module")
def hooks() -> Iterator[Any]:
    with benchmark("site_hooks", ROOT / "deploy") as module:
        yield module


def in_menu(menu: list[dict[str, Any]]) -> Iterator[str]:
    for one in menu:
        for below in one.values():
            yield from [below] if isinstance(below, str) else in_menu(below)


def test_the_menu_has_every_page_once() -> None:
    assert Counter(in_menu(SITE["nav"])) == Counter(PAGES)


def test_llms_txt_names_every_page(hooks: Any) -> None:
    text = hooks.list_pages(SITE["nav"], SITE["site_description"], "https://example.org")
    assert text.startswith("# whispertide\n\n> ")
    assert sorted(line.split("docs/")[1].removesuffix(")") for line in text.splitlines() if "](" in line) == PAGES


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[log](../../lab/log/2026-11.md#size)", "[log](R/blob/main/lab/log/2026-11.md#size)"),
        ("![x](../../src/a.png)", "![x](R/blob/main/src/a.png)"),
        ("[cli](../reference/cli.md#transcribe)", "[cli](../reference/cli.md#transcribe)"),
        ("[here](#below) and [there](https://example.org/a)", "[here](#below) and [there](https://example.org/a)"),
    ],
)
def test_links_that_leave_the_docs_lead_to_the_repository(hooks: Any, link: str, expected: str) -> None:
    assert hooks.outward(link, "guides/tide.md", "R") == expected
