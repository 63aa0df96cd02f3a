"""Write the tables of docs/reference/recipes.md from the recipes and their choices: `python lab/docs/settings.py`."""

import re
from collections.abc import Iterator
from dataclasses import Field, fields
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from whispertide.recipes.catalogue import ABOUT, RECIPES
from whispertide.recipes.recipe import CHOICES
from whispertide.streaming.choice import Choice, field_types
from whispertide.tuning.page import Table
from whispertide_lab.evaluation.markdown import markdown_table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "recipes.md"
MARKS = ("<!-- recipes -->", "<!-- /recipes -->"), ("<!-- settings -->", "<!-- /settings -->")


def recipes() -> str:
    """The recipes with their five choices."""
    rows = (
        (f"`{name}`", *(f"`{choice.kind}`" for choice in recipe.choices.values()), ABOUT[name])
        for name, recipe in RECIPES.items()
    )
    return markdown_table(Table(("recipe", *CHOICES, "description"), tuple(rows)))


def settings() -> str:
    """A section for each choice: what there is to choose, and the fields of each."""
    return "\n\n".join(f"### {axis}\n\n{_kinds(axis)}\n\n{_fields(axis)}" for axis in CHOICES)


def _kinds(axis: str) -> str:
    return "\n".join(f"- `{kind}`: {_about(axis, choice)}" for kind, choice in CHOICES[axis].items())


def _about(axis: str, choice: type[Choice]) -> str:
    """The first sentence of the docstring: of a policy that of its file, which has its rules."""
    text = (import_module(choice.__module__) if axis == "policy" else choice).__doc__ or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<!al)\. ", paragraph)[0].rstrip(".") + "."


def _fields(axis: str) -> str:
    """A row for each field, or for each meaning of it where choices of the axis give it several."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for kind, choice in CHOICES[axis].items():
        for item in fields(choice):
            if not item.init:  # it follows from a setting
                continue
            about = " ".join(item.metadata["about"].split())
            row = (item.name, _shown(item.default), _range(item, field_types(choice)[item.name]), about)
            rows.setdefault(row, []).append(kind)
    shown = sorted(rows.items(), key=lambda row: -len(row[1]))
    return markdown_table(
        Table(
            ("setting", "default", "range", "choice", "in recipes", "meaning"),
            tuple(
                (f"`{name}`", default, bounds, _owners(axis, kinds), _changed(axis, name, kinds), about)
                for (name, default, bounds, about), kinds in shown
            ),
        )
    )


def _owners(axis: str, kinds: list[str]) -> str:
    return "all" if len(kinds) == len(CHOICES[axis]) else ", ".join(f"`{kind}`" for kind in kinds)


def _changed(axis: str, name: str, kinds: list[str]) -> str:
    """The recipes that have another value than the default."""
    return ", ".join(
        f"`{recipe.name}` {_shown(getattr(choice, name))}"
        for recipe in RECIPES.values()
        if (choice := recipe.choices[axis]).kind in kinds
        and getattr(choice, name) != next(item.default for item in fields(choice) if item.name == name)
    )


def _range(item: Field[Any], kind: Any) -> str:
    if options := get_args(kind):
        return ", ".join(f"`{option}`" for option in options)
    if kind is bool:
        return "`true`, `false`"
    least, most = item.metadata["least"], item.metadata["most"]
    return "" if least is None else f"{least:g} to {most:g}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, int | float) else f"`{value}`" if value else "empty"


def page(text: str) -> str:
    """The page with today's tables between its marks."""
    for (begin, end), made in zip(MARKS, _tables(), strict=True):
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{made}\n{end}{rest.split(end)[1]}"
    return text


def _tables() -> Iterator[str]:
    yield recipes()
    yield settings()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
