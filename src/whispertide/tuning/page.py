"""Tables, as text and HTML, and a self-contained page for a report. Knows nothing of measurements.

The page makes no request: styles and plots are inline, there is no script. It follows the reader's choice of dark or
light and fits a phone.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whispertide.tuning.drawing import Drawing

_EMPTY = "–"
_SENTENCE = 48  # characters; what is longer is text that wraps


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of text or of figures that are formatted already; None is shown as a dash."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    title: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"expected rows of {len(self.columns)} cells; got {[len(row) for row in self.rows]}")

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """The rows with dashes for empty cells."""
        return [tuple(cell or _EMPTY for cell in row) for row in self.rows]

    @property
    def numeric(self) -> list[bool]:
        """The columns that hold figures, which are aligned to the right."""
        columns = ([cell for cell in column if cell != _EMPTY] for column in zip(*self.cells, strict=True))
        found = [bool(column) and all(cell.lstrip("+-−<")[:1].isdigit() for cell in column) for column in columns]
        return found or [False] * len(self.columns)


def text_table(table: Table) -> str:
    """Render for a terminal: figures to the right, text to the left, two spaces between columns."""
    rows = [table.columns, *table.cells]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [f"{'>' if right else '<'}{width}" for right, width in zip(table.numeric, widths, strict=True)]
    lines = ["  ".join(map(format, row, aligned)).rstrip() for row in rows]
    return "\n".join([table.title, *lines] if table.title else lines)


def html_table(table: Table) -> str:
    """Render a table that scrolls sideways on a narrow page while its first column stays."""
    wide = [any(len(cell) > _SENTENCE for cell in column) for column in zip(*table.cells, strict=True)]
    kinds = [
        ' class="n"' if right else ' class="t"' if long else ""
        for right, long in zip(table.numeric, wide or [False] * len(table.columns), strict=True)
    ]

    def head(kind: str, cell: str) -> str:
        text = "\u00a0".join(escape(cell or _EMPTY).rsplit(" ", 1))  # a unit stays with its figure's name
        return f'<th scope="col"{kind}>{text}</th>'

    def line(row: Sequence[str]) -> str:
        first = f'<th scope="row"{kinds[0]}>{escape(row[0])}</th>'
        return first + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds[1:], row[1:], strict=True))

    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    heads = "".join(map(head, kinds, table.columns))
    body = "\n".join(f"<tr>{line(row)}</tr>" for row in table.cells)
    return (
        f'<div class="scroll" tabindex="0"><table>{caption}<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def figure(plot: "Drawing", caption: str, note: str = "") -> str:
    """Render a plot under its caption, its numbers below it; `note` explains it."""
    below = f"<p>{escape(note)}</p>" if note else ""
    picture = f'<img src="{_data("image/png", plot.image("png"))}" alt="{escape(plot.title)}">'
    files = (("CSV", "text/csv", plot.csv().encode()), ("PDF", "application/pdf", plot.image("pdf")))
    links = " ".join(
        f'<a download="{escape(caption)}.{name.lower()}" href="{_data(kind, content)}">{name}</a>'
        for name, kind, content in files
    )
    return f"<figure><figcaption>{escape(caption)}</figcaption>{picture}{below}<p>{links}</p></figure>"


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{b64encode(content).decode()}"


def figures(items: Sequence[str]) -> str:
    """Render plots side by side if there is room."""
    return f'<div class="figures">{"".join(items)}</div>'


def section(title: str, *parts: str) -> str:
    """Render a part of the page."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def paragraph(text: str, kind: str = "") -> str:
    """Render a paragraph; `kind` "note" is smaller."""
    return f"<p{f' class={kind!r}' if kind else ''}>{escape(text)}</p>"


def page(title: str, lead: str, *sections: str) -> str:
    """Render the whole page."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{_CSS}</style>
</head>
<body>
<main>
<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>
{"".join(sections)}
</main>
</body>
</html>
"""


_CSS = """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-top: 1rem; border-top: 1px solid #8886; }
p { margin: .4rem 0; max-width: 46rem; }
.lead { opacity: .75; font-size: 1.05rem; }
.note { opacity: .75; font-size: .9rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem;
  margin: 1rem 0; align-items: start; }
figure { margin: 0; padding: .9rem; border: 1px solid #8886; border-radius: .6rem;
  min-width: 0; max-width: 40rem; }
figcaption { font-weight: 600; margin-bottom: .5rem; }
figure p { opacity: .75; font-size: .85rem; margin: .4rem 0 0; }
img { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; margin: .75rem 0; border: 1px solid #8886; border-radius: .6rem; }
.scroll:focus-visible { outline: 2px solid Highlight; outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .6rem .75rem; font-weight: 600; }
th, td { padding: .4rem .6rem; text-align: left; white-space: nowrap; border-top: 1px solid #8886; }
thead th { border-top: 0; opacity: .75; font-weight: 600; vertical-align: bottom; white-space: normal; }
th.n, td.n { text-align: right; }
tbody th { font-weight: 600; position: sticky; left: 0; background: Canvas; white-space: normal;
  min-width: 9rem; max-width: 15rem; }
td.t { white-space: normal; min-width: 18rem; }
tbody th.t { min-width: 14rem; max-width: 22rem; }
@media (max-width: 40rem) {
  main { padding: 1.25rem .75rem 3rem; }
  h1 { font-size: 1.4rem; }
  figure { padding: .6rem .5rem; }
  th, td { padding: .4rem .55rem; }
  table { font-size: .8rem; }
  tbody th { min-width: 9.75rem; max-width: 9.75rem; overflow-wrap: break-word; }
}
@media print { figure, .scroll { break-inside: avoid; } }
"""
