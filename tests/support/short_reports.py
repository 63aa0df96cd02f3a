"""What a process tells the one that started it of each test: how it went, in one message in place of six."""

import pytest
from _pytest.runner import runtestprotocol


class ShortReports:
    """Leaves out that a test begins, is set up, is taken down and is over; each would be packed, sent, unpacked and
    passed to every plug-in, and nothing of it printed. What failed or was skipped is always told.
    """

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True
