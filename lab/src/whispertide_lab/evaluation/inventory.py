"""The inventory of the papers: what every table and figure says, the result here, and whether the two agree.

`python -m whispertide_lab.evaluation.inventory lab/docs/papers.md` makes that page from the data of `papers`.
Measures nothing.
"""

import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from whispertide.tuning.page import Table
from whispertide_lab.evaluation.markdown import markdown_table
from whispertide_lab.evaluation.paper import VERDICTS, Item, Paper
from whispertide_lab.evaluation.papers import every_paper

_INTRODUCTION = """# The papers' tables and figures

`python -m whispertide_lab.evaluation.inventory lab/docs/papers.md` writes this page; a test compares it with its data.

`whispertide bench paper NAME` makes the items that are possible here, `--items "table 1,figure 7"` some of them. It
needs the laboratory; one item also needs its extra `train`. `whispertide bench paper all` makes all papers' items, on
one page: with nano.en 179 minutes (`--threads 1`) on one core of a slow Xeon whose other core was busy, on 2026-11-27
(WhisperFlow 76, NPUsper 20, WhisperKit 23, WhisperRT 55, pilot inference 5).

The default is 120 s of talks, and also of noisy talks or rooms if the paper has two corpora, or as many clips as the
paper has, or for WhisperRT's figure 4 a minute of each corpus. These corpora are synthetic, and the default model is
OpenAI's tiny.en. The verdicts need `--models base` and people's speech: `--corpus people-readings --aligner base`, or
`manifest:FILE`. An interrupted run can be continued. For pilot inference's own network use `--models commands,base
--corpus commands:FOLDER` (`whispertide train commands`), for its rivals `--models commands,my-branchformer,base`; with
one model the server has base.

The definitions (untruncated text, untruncated clocks) are ours. So compare our figures with a paper's in direction
and size, not digit by digit. The papers' statements are in our words, with their figures where the text has them.

| state | meaning |
|---|---|
| whole | all of it is made |
| part | the column "what is made" says which part |
| missing | nothing yet |

| verdict | meaning |
|---|---|
| confirmed | a stored result has the paper's direction and order of magnitude |
| refuted | a stored result has not. The reason names the checkpoint and corpus |
| not decidable here | it is about an NPU, GPU, power meter, weights or languages that we lack; or it was not measured \
in the paper's form on real weights and people; or samples are too few |
| not measured yet | we could measure it, at least nearly, and no result is stored |

Rules for a verdict:

1. One about errors needs OpenAI's base (tiny.en as a second size; small where size is the claim) on people's speech,
   3,000 words or the paper's number of clips, with intervals. A checkpoint without the problem refutes nothing. A bound
   that cannot fail, a stand-in, or another shape than the paper's confirms nothing.
2. In an ablation one thing changes. The paper's exact form is a row of its own next to ours.
3. A ratio of times is processor time, with its spread.
4. Weights that the authors published come before training of our own.

Results with checkpoints of our own, or on synthetic speech, are below an item's statements and decide nothing.

A stored result is a section of the [log](../log/README.md), or of the named page, with its command, weights and date.
A missing part of an item is a recipe's `field=value`, a `recipe NAME`, a `network KIND` (of `train latecontext`), or
described in words. The state follows from the existing recipes and networks.
"""


def build() -> str:
    """The page, as Markdown."""
    papers = every_paper().values()
    parts = [_INTRODUCTION, _overview(papers)]
    for paper in papers:
        parts.append(f"## {paper.name}\n\n{paper.title}\n\n{paper.summary}\n\n{_listing(paper)}")
        parts += [_section(paper, item) for item in paper.items]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _overview(papers: Collection[Paper]) -> str:
    """How many statements of each paper have which verdict."""
    rows = [_counts(paper.name, paper.items) for paper in papers]
    rows.append(_counts("all", [item for paper in papers for item in paper.items]))
    columns = ("paper", "tables and figures", *(f"statements {verdict}" for verdict in VERDICTS))
    return markdown_table(Table(columns, tuple(rows)))


def _counts(name: str, items: Sequence[Item]) -> tuple[str, ...]:
    counts = Counter(claim.verdict for item in items for claim in item.claims)
    return (name, str(len(items)), *(str(counts[verdict]) for verdict in VERDICTS))


def _listing(paper: Paper) -> str:
    """The items of a paper with their states."""
    rows = tuple((item.id, item.title, item.state, item.covers, item.lacks) for item in paper.items)
    return markdown_table(Table(("item", "what it shows", "state", "what is made", "what is missing"), rows))


def _section(paper: Paper, item: Item) -> str:
    """An item: how it is made, and its statements."""
    made = "not made yet" if item.state == "missing" else f'`whispertide bench paper {paper.name} --items "{item.id}"`'
    made += f", which needs the laboratory's extra `{item.extra}`" if item.extra else ""
    facts = f"- in the paper: {item.source}\n- measured here on: {item.stand_in}\n- made by: {made}"
    rows = tuple(
        (claim.published, "" if claim.own else claim.here, f"**{claim.verdict}**", claim.why) for claim in item.claims
    )
    table = markdown_table(Table(("the paper", "here", "verdict", "why"), rows))
    results = dict.fromkeys((claim.result, claim.command) for claim in item.claims if claim.result)
    stored = "\n".join(_stored(result, command) for result, command in results)
    return "\n\n".join(part for part in (f"### {paper.name}, {item.id}", facts, table, _own(item), stored) if part)


def _own(item: Item) -> str:
    """What was measured with checkpoints of our own, below the results that decide."""
    rows = tuple((claim.published, claim.here) for claim in item.claims if claim.own)
    heads = ("the paper", "own checkpoint, synthetic speech: decides nothing")
    return markdown_table(Table(heads, rows)) if rows else ""


def _stored(result: str, command: str) -> str:
    file, _, heading = result.partition(": ")
    name = "log" if "/log/" in file else Path(file).name
    return f'[{name}]({file}), "{heading}": `{command}`  '


def main(arguments: Sequence[str]) -> None:
    """FILE: write the page."""
    (file,) = arguments
    Path(file).write_text(build(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
