"""Tables, as text and HTML, and a self-contained page for a report. Knows nothing of measurements.

The page makes no request: styles and plots are inline, there is no script. It follows the reader's choice of dark or
light and fits a phone.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from whispertide.tuning.drawing import Drawing

_STYLE = Path(__file__).with_suffix(".css")
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


def figure(plot: Drawing, caption: str, note: str = "") -> str:
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
<style>
{_STYLE.read_text("utf-8")}</style>
</head>
<body>
<main>
<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>
{"".join(sections)}
</main>
</body>
</html>
"""
