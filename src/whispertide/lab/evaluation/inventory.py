"""The inventory of the papers: what every table and figure says, what came out here, and whether that agrees.

The data is `papers.toml`, which is written by hand; docs/papers.md is made from it by `python -m
whispertide.lab.evaluation.inventory docs/papers.md`. Knows nothing of how an item is measured (`paper`), and measures
nothing.
"""

import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from whispertide.errors import OptionError
from whispertide.lab.evaluation.page import Table, markdown_table
from whispertide.lab.evaluation.paper import Item, Paper
from whispertide.lab.evaluation.papers import PAPERS
from whispertide.lab.from_json import built

Verdict = Literal["confirmed", "refuted", "not decidable here", "not measured yet"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
DECIDED: tuple[Verdict, ...] = ("confirmed", "refuted")

_INTRODUCTION = """# The papers' tables and figures

This page is made by `python -m whispertide.lab.evaluation.inventory docs/papers.md`. A test compares it with its data.

`whispertide bench paper NAME` makes the items that can be made, `--items "table 1,figure 7"` some of them;
`whispertide bench paper all` makes those of all papers, on one page: 179 minutes (`--threads 1`) on one core of a slow
Xeon whose other core was busy, on 2026-11-27 (WhisperFlow 76, NPUsper 20, WhisperKit 23, WhisperRT 55, pilot
inference 5). Install the extra `bench` for it; one item needs the extra `train`, and says so. Unless told otherwise it
takes 120 s of talks, and of noisy talks or rooms too where the paper has two corpora, or as many clips as the paper
has, or for WhisperRT's figure 4 a minute of each corpus. Pilot inference's items take a network of its own
kind with `--models commands,nano.en --corpus commands:FOLDER` (`whispertide train commands`), and its rivals with
`--models commands,my-branchformer,nano.en`. It uses our definitions (untruncated text, untruncated
clocks), our models and our corpora, which are synthetic. So compare its figures with a paper's in direction and size,
not digit by digit. What the papers say is told in our words, with their figures where their text gives them.

| state | meaning |
|---|---|
| whole | all of it is made |
| part | the column "what is made" says which part |
| missing | nothing yet |

| verdict | meaning |
|---|---|
| confirmed | direction and order of size are as the paper says, in a result that is stored |
| refuted | they are not, in a result that is stored. The reason says for which checkpoint and corpus |
| not decidable here | it is about an NPU, GPU, power meter, weights or languages that we lack; or samples are too few |
| not measured yet | we could measure it, or nearly, and no result is stored |

A stored result is a section of [LOG.md](LOG.md), or of the page that is named, with its command. It is of the weights
and of the day that stand there. What an item lacks is written as `field=value` of a recipe, as `recipe NAME`, as
`network KIND` (of `train latecontext`), or in words. The state follows from the recipes and networks that exist.
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of a paper (`published`) next to what was measured `here`, and the verdict with its reason.

    `result` is "FILE: heading" below docs/, `command` what measured it; both empty where nothing is stored.
    """

    published: str
    verdict: Verdict
    why: str
    here: str = ""
    result: str = ""
    command: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise OptionError(f"expected a verdict among {', '.join(VERDICTS)}; got {self.verdict!r}")
        if not (self.published and self.why):
            raise OptionError(f"expected what the paper says and a reason; got {self.published!r} and {self.why!r}")
        if bool(self.here) != bool(self.result) or bool(self.result) != bool(self.command):
            raise OptionError(f"expected figures with result and command, or none of the three; got {self}")
        if self.verdict in DECIDED and not self.result:
            raise OptionError(f"expected a stored result for {self.verdict!r}; got none: {self.published}")


@dataclass(frozen=True, slots=True)
class Entry:
    """What the inventory knows of an item: where the paper has it, what ours is measured on, the statements."""

    paper: str
    id: str
    source: str
    stand_in: str
    claims: tuple[Claim, ...]


def read_inventory(text: str) -> tuple[Entry, ...]:
    """The entries of `papers.toml`, in its order. Raises `OptionError` for what is no entry, `TOMLDecodeError`."""
    return tuple(_entry(item) for item in tomllib.loads(text)["item"])


@cache
def inventory() -> tuple[Entry, ...]:
    """That of this package."""
    return read_inventory((files("whispertide.lab.evaluation") / "papers.toml").read_text(encoding="utf-8"))


def _entry(item: dict[str, Any]) -> Entry:
    about = dict(item)
    shared = {key: about.pop(key) for key in ("result", "command") if key in about}
    claims = [{**shared, **claim} if claim.get("here") else claim for claim in about.pop("claim", ())]
    try:
        entry: Entry = built(Entry, {**about, "claims": claims})
    except (TypeError, KeyError) as error:
        raise OptionError(f"expected an item with its claims; got {item}: {error}") from error
    return entry


def build() -> str:
    """The page, as Markdown."""
    entries = {(entry.paper, entry.id): entry for entry in inventory()}
    parts = [_INTRODUCTION, _overview(inventory())]
    for paper in PAPERS.values():
        parts.append(f"## {paper.name}\n\n{paper.title}\n\n{_listing(paper)}")
        parts += [_section(paper, item, entries[paper.name, item.id]) for item in paper.items]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _overview(entries: Sequence[Entry]) -> str:
    """How many statements of each paper have which verdict."""
    rows = []
    for name in PAPERS:
        theirs = [entry for entry in entries if entry.paper == name]
        rows.append((name, str(len(theirs)), *_counts(theirs)))
    rows.append(("all", str(len(entries)), *_counts(entries)))
    columns = ("paper", "tables and figures", *(f"statements {verdict}" for verdict in VERDICTS))
    return markdown_table(Table(columns, tuple(rows)))


def _counts(entries: Sequence[Entry]) -> tuple[str, ...]:
    counts = Counter(claim.verdict for entry in entries for claim in entry.claims)
    return tuple(str(counts[verdict]) for verdict in VERDICTS)


def _listing(paper: Paper) -> str:
    """The items of a paper with their states."""
    rows = tuple((item.id, item.title, item.state, item.covers, item.lacks) for item in paper.items)
    return markdown_table(Table(("item", "what it shows", "state", "what is made", "what is missing"), rows))


def _section(paper: Paper, item: Item, entry: Entry) -> str:
    """An item: how it is made, and its statements."""
    made = "not made yet" if item.state == "missing" else f'`whispertide bench paper {paper.name} --items "{item.id}"`'
    made += f", which needs the extra `{item.extra}`" if item.extra else ""
    facts = f"- in the paper: {entry.source}\n- measured here on: {entry.stand_in}\n- made by: {made}"
    rows = tuple((claim.published, claim.here, f"**{claim.verdict}**", claim.why) for claim in entry.claims)
    table = markdown_table(Table(("the paper", "here", "verdict", "why"), rows))
    results = dict.fromkeys((claim.result, claim.command) for claim in entry.claims if claim.result)
    stored = "\n".join(_stored(result, command) for result, command in results)
    return "\n\n".join(part for part in (f"### {paper.name}, {item.id}", facts, table, stored) if part)


def _stored(result: str, command: str) -> str:
    file, _, heading = result.partition(": ")
    return f'[{file}]({file}), "{heading}": `{command}`  '


def main(arguments: Sequence[str]) -> None:
    """FILE: write the page."""
    (file,) = arguments
    Path(file).write_text(build(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
