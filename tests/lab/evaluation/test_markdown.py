"""Tables as Markdown."""

from whispertide.tuning.page import Table
from whispertide_lab.evaluation.markdown import markdown_table


def test_markdown_tables() -> None:
    table = Table(("name", "s"), (("a|b", "1.5"), ("c", None)), "T")
    assert markdown_table(table) == "**T**\n\n| name | s |\n| --- | ---: |\n| a\\|b | 1.5 |\n| c | – |"
    assert markdown_table(Table(("name",), ())) == "| name |\n| --- |"
