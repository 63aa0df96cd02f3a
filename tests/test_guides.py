"""Guides of one screen: what a feature is for, the commands to start, what comes out, what to choose, and links."""

import re
from pathlib import Path

from each_row import each_row

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
MOST_WORDS = 450
NAMES = (
    "dictation",
    "integrations",
    "key-terms",
    "languages",
    "microphones",
    "speakers",
    "translation",
    "turns",
    "watching",
)


def text_of(name: str) -> str:
    return (GUIDES / f"{name}.md").read_text(encoding="utf-8")


@each_row("name", NAMES)
def test_a_guide_is_one_screen(name: str) -> None:
    """If this fails: what is more belongs into docs/reference, docs/internals or lab/log, linked from the guide."""
    assert len(text_of(name).split()) <= MOST_WORDS


@each_row("name", NAMES)
def test_a_guide_begins_with_its_use_and_the_command_to_start(name: str) -> None:
    before_choices = re.split(r"^## ", text_of(name), flags=re.M)[0]
    title, use, *_ = before_choices.split("\n\n")
    assert title.startswith("# ")
    assert use[0].isalnum() or use[0] == "`"
    assert re.search(r"^ {4}whispertide ", before_choices, re.M)


@each_row("name", NAMES)
def test_a_guide_leads_to_the_reference(name: str) -> None:
    assert "](../reference/" in text_of(name)
