"""An X11 display without a screen, where there is one to be had; else a line says that X11 was not tested."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest


def why_not() -> str:
    """The reason why X11 cannot be tested; "" where it can."""
    if shutil.which("Xvfb") is None:
        return "no Xvfb on this machine (apt-get install xvfb)"
    missing = [name for name in ("xcffib", "tkinter") if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


@pytest.fixture(scope="module")
def x11() -> Iterator[str]:
    """A display of its own, by its name; all programs of the tests find it in the environment."""
    if reason := why_not():
        pytest.skip(reason)
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-noreset", "-nolisten", "tcp", "-screen", "0", "800x600x24"]
    server = subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    with os.fdopen(reading) as told:
        display = f":{told.readline().strip()}"
    before = os.environ.get("DISPLAY")
    os.environ["DISPLAY"] = display
    try:
        yield display
    finally:
        del os.environ["DISPLAY"]
        if before is not None:
            os.environ["DISPLAY"] = before
        server.terminate()
        server.wait(10)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line at the end that nobody overlooks."""
    reports = terminalreporter.stats.get("skipped", [])
    skipped = [report for report in reports if "dictation/test_x11.py" in report.nodeid]
    if skipped:
        reasons = sorted({str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped})
        terminalreporter.write_line(f"NOT TESTED ({len(skipped)} tests of X11): {'; '.join(reasons)}", red=True)
