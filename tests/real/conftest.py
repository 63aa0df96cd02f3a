"""OpenAI's own weights: found where `make real` has put them, else it is said that nothing was tested."""

from functools import cache

import pytest

from published_models import usual
from whispertide.api import Transcriber
from whispertide.checkpoint import hub
from whispertide.errors import WhispertideError


@cache
def why_not(name: str) -> str:
    """The reason why a checkpoint cannot be tested with; "" where it is here."""
    try:
        hub.path(name)
    except WhispertideError as error:
        return f"{error} (`make real` does)"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests whose checkpoint is not here."""
    for item in items:
        if item.get_closest_marker("real"):
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            if reason := why_not(parameters.get("name", "tiny.en")):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def tiny() -> Transcriber:
    return usual("tiny.en")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line at the end that nobody overlooks."""
    reports = terminalreporter.stats.get("skipped", [])  # of files, too, which have no marks
    skipped = [report for report in reports if "real" in getattr(report, "keywords", ())]
    if skipped:
        reasons = sorted({str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped})
        terminalreporter.write_line(
            f"NOT TESTED ({len(skipped)} tests on real weights): {'; '.join(reasons)}", red=True
        )
