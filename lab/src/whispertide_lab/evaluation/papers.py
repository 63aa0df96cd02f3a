"""The published evaluations that can be repeated: every table and figure of each paper, from `papers.toml`, which is
written by hand.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from whispertide.errors import OptionError
from whispertide_lab.evaluation.paper import Item, Paper
from whispertide_lab.from_json import built

ALL = "all"


@cache
def every_paper() -> Mapping[str, Paper]:
    """By name, in the order of `papers.toml`."""
    text = (files("whispertide_lab.evaluation") / "papers.toml").read_text(encoding="utf-8")
    return MappingProxyType({paper.name: paper for paper in read_papers(text)})


def read_papers(text: str) -> tuple[Paper, ...]:
    """The papers of such a file, in its order. Raises `OptionError` for what is no paper or item, `TOMLDecodeError`."""
    try:
        return tuple(_paper(**paper) for paper in tomllib.loads(text)["paper"])
    except (TypeError, KeyError) as error:
        raise OptionError(f"expected papers, each with its items: {error}") from error


def _paper(*, name: str, title: str, summary: str, item: Sequence[dict[str, Any]]) -> Paper:
    return Paper(name, title, summary, tuple(map(_item, item)))


def _item(about: dict[str, Any]) -> Item:
    rest = dict(about)
    shared = {key: rest.pop(key) for key in ("result", "command") if key in rest}
    claims = [{**shared, **claim} if claim.get("here") else claim for claim in rest.pop("claim", ())]
    try:
        item: Item = built(Item, {**rest, "claims": claims})
    except (TypeError, KeyError) as error:
        raise OptionError(f"expected an item with its claims; got {about}: {error}") from error
    return item


def get_paper(name: str) -> Paper:
    """The paper of that name. Raises `OptionError`, which lists those there are."""
    papers = every_paper()
    if name not in papers:
        raise OptionError(f"expected a paper among {', '.join(papers)}, or {ALL}; got {name!r}")
    return papers[name]


def choose(name: str, ids: Sequence[str]) -> tuple[Paper, ...]:
    """One paper, with some of its items or, without `ids`, all; or all papers. Raises `OptionError`."""
    if name != ALL:
        return (only(get_paper(name), ids) if ids else get_paper(name),)
    if ids:
        raise OptionError(f"expected the paper that has {', '.join(ids)}; got all of them: name one")
    return tuple(every_paper().values())


def only(paper: Paper, ids: Sequence[str]) -> Paper:
    """The paper with these items alone, in its own order. Raises `OptionError`, which lists those there are."""
    known = [item.id for item in paper.items]
    if unknown := [id for id in ids if id not in known]:
        raise OptionError(f"expected items of {paper.name} among {', '.join(known)}; got {', '.join(unknown)}")
    return replace(paper, items=tuple(item for item in paper.items if item.id in ids))
