"""Tables as GitHub's Markdown, and as the stored result of a page."""

import json

from whispertide.tuning.page import Table


def markdown_table(table: Table) -> str:
    """Render as GitHub's Markdown; figures to the right."""
    rule = ["---:" if right else "---" for right in table.numeric]
    lines = [table.columns, rule, *table.cells]
    text = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"**{table.title}**\n\n{text}" if table.title else text


def stored_tables(text: str) -> str:
    """Encode the tables of a Markdown text as JSON, a row a line: the stored result of a page that a tool made."""
    lines = [line.strip().strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    rows = (json.dumps([cell.strip() for cell in cells], ensure_ascii=False) for cells in lines)
    return "[\n" + ",\n".join(rows) + "\n]\n"
