"""The figures of a page of the documentation, and the stored results that its sections name.

A *figure* is a number with a decimal point, with a thousands separator, or before a unit of results (`UNITS`), and
every number of a table of results. Code and addresses are left out, and so are tables of settings; what a program
printed, a block without a language, is not. A *stored result* is an entry of lab/log (what stands below a heading),
or a JSON or CSV file of at most `MOST` numbers. A section names one by a link.

A number that is no result, such as a default, a limit or a version, is a *constant*: those of each section are in
constants.toml.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from whispertide_lab.evaluation.markdown import stored_tables

ROOT = Path(__file__).parents[2]
LOG = ROOT / "lab" / "log"
UNITS = r"%|x(?!\w)|(?:s|ms|h|minutes|hours|MB|kB|GB|MiB|KiB|GFLOP|points?|times|words)(?![\w/])"
MOST = 300  # numbers of a stored result: a curve of thousands of points has every figure

_RESULT = re.compile(r"%|\b(?:s|ms|MB|WER|ARWER|GFLOP|p50|p95|p99|latency|errors|result|lines)\b")
_SETTINGS = re.compile(r"\b(?:default|option|field|setting|variable|message|meaning|code|event|promise)\b")
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
NUMBER = re.compile(rf"(?<![\w.=,/#])(?<!\w-){_NUMBER}(?!(?!x\b)\w|\.\d|,\d|-\w)")
_RUN = re.compile(rf"(?<![\w.=,/#])(?<!\w-){_NUMBER}(?:(?:,|,? to|,? and|,? or|–| of) [+−-]?{_NUMBER})* ?(?:{UNITS})")
_ANCHOR = re.compile(r"log/\d{4}-\d\d\.md#([\w-]+)")
_FILE = re.compile(r"[\w./-]+\.(?:csv|json|png)\b")
_LEFT_OUT = re.compile(
    r"`[^`]*`|\]\([^)]*\)|\barXiv [\d.]+|\bPython [\d.]+(?: to [\d.]+)?|\b\d{4}-\d\d-\d\d(?: and \d+)?"
)


def sections(text: str) -> list[str]:
    """The text from heading to heading; a comment in a program is no heading."""
    shown = re.sub(r"^```.*?^```", lambda block: block.group().replace("\n#", "\n #"), text, flags=re.M | re.S)
    return re.split(r"^(?=#{1,6} )", shown, flags=re.M)


def tables(section: str) -> list[list[str]]:
    """The lines of each table: head, rule, rows."""
    return [found.splitlines() for found in re.findall(r"(?:^\|.*\n)+", section + "\n", re.M)]


def has_results(table: list[str]) -> bool:
    """Whether the head names a measure, and most rows have a figure."""
    head, _, *rows = table
    return bool(_RESULT.search(head)) and 2 * sum(bool(NUMBER.search(row)) for row in rows) > len(rows)


def figures(section: str) -> list[str]:
    """The figures of a section, as they are written."""
    return [each for group in groups(section) for each in group]


def groups(section: str) -> list[list[str]]:
    """The figures of a section: those of its prose and of tables without results, then those of each row of results."""
    text = re.sub(r"^```\w.*?^```|^(?: {4}|#)[^\n]*$", "", section, flags=re.M | re.S).replace("```", "")
    said: list[str] = []
    results: list[list[str]] = []
    for table in tables(text):
        text = text.replace("\n".join(table), "")
        if has_results(table):
            results += [NUMBER.findall(plain(row)) for row in table[2:]]
        elif not _SETTINGS.search(table[0]):
            said += _in_prose(plain("\n".join(table[2:])))
    return [_in_prose(plain(text)) + said, *results]


def plain(text: str) -> str:
    """Without code, addresses, versions and dates."""
    return _LEFT_OUT.sub("", re.sub(r"\s*\n\s*(?!\|)", " ", text))


def _in_prose(text: str) -> list[str]:
    united = {span for run in _RUN.finditer(text) for span in _spans(run)}
    return [
        number.group()
        for number in NUMBER.finditer(text)
        if number.span() in united or "." in number.group() or "," in number.group()
    ]


def _spans(run: re.Match[str]) -> list[tuple[int, int]]:
    start = run.start()
    return [(start + found.start(), start + found.end()) for found in re.finditer(_NUMBER, run.group())]


@cache
def entries() -> dict[str, str]:
    """Heading of the log -> what stands below it, as far as the next heading."""
    texts = (file.read_text(encoding="utf-8") for file in sorted(LOG.glob("20*.md")))
    found = [entry for text in texts for entry in re.split(r"^##+ ", text, flags=re.M)[1:]]
    return {entry.partition("\n")[0]: entry for entry in found}


@cache
def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def named(section: str) -> list[str]:
    """The log's entries that a section names."""
    anchors = set(_ANCHOR.findall(section))
    return [entry for heading, entry in entries().items() if anchor(heading) in anchors]


def stored(section: str, page: Path) -> list[Sequence[float]]:
    """The numbers of the stored results that a section of a page names: of each paragraph and each row of a table."""
    texts = named(section)
    for name in sorted(set(_FILE.findall(section))):
        for file in ((page.parent / name), (ROOT / name)):
            file = file.with_suffix(".csv") if file.suffix == ".png" else file
            if file.is_file():
                text = file.read_text(encoding="utf-8")
                texts += [text] if len(values(text)) <= MOST else []
                break
    return [found for text in texts for block in re.split(r"\n\n|\n(?=\|)", text) if (found := values(block))]


@cache
def values(text: str) -> tuple[float, ...]:
    """Every number of a text."""
    found = re.findall(r"\d+(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+(?:\.\d+)?", text)
    return tuple(float(each.replace(",", "")) for each in found)


def stands(figure: str, among: Sequence[float]) -> bool:
    """Whether a figure is one of those stored, rounded as it is. An integer of one or two digits has to be the same."""
    shown, digits = float(figure.replace(",", "")), len(figure.partition(".")[2])
    most = 0.5001 * 10**-digits if digits or shown >= 100 else 1e-9
    return any(abs(one - shown) <= most for one in among)


def heading(section: str) -> str:
    """The heading of a section, without its marks; empty before the first."""
    return re.sub(r"^#+ ", "", section.partition("\n")[0]) if section.startswith("#") else ""


def unbacked(text: str, page: Path, constants: Mapping[str, str]) -> list[str]:
    """The figures of a page, as "heading: figure", that stand in no stored result that their section names, and are
    none of its constants (heading -> numbers). Those of a row of results have to stand in one row or paragraph.
    """
    found = []
    for section in sections(text):
        name = heading(section)
        known, blocks = constants.get(name, "").split(), stored(section, page)
        prose, *rows = ([each for each in group if each not in known] for group in groups(section))
        found += [f"{name}: {each}" for each in missing(prose, [[value for block in blocks for value in block]])]
        found += [f"{name}: {each}" for row in rows for each in missing(row, blocks)]
    return found


def missing(shown: list[str], blocks: Sequence[Sequence[float]]) -> list[str]:
    """The figures that do not stand in the one block that has the most of them."""
    return min(([each for each in shown if not stands(each, block)] for block in blocks), key=len, default=shown)


def without_tables(text: str, made: set[str]) -> str:
    """Without the tables whose rows are all among those that a tool stored."""
    for table in tables(text):
        if set(cells(table)) <= made:
            text = text.replace("\n".join(table), "")
    return text


def cells(table: list[str]) -> list[str]:
    """The rows of a table as `stored_tables` writes them."""
    return [json.dumps(row, ensure_ascii=False) for row in json.loads(stored_tables("\n".join(table)))]
