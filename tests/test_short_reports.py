"""A process tells how each test went, and whatever went wrong before or after it."""

from types import SimpleNamespace
from typing import Any

import pytest

import short_reports

PHASES = ("setup", "call", "teardown")


def told(monkeypatch: pytest.MonkeyPatch, *outcomes: str) -> list[str]:
    """The phases that are told of a test, of those that end so; without the call where there are but two."""
    phases = PHASES if len(outcomes) == 3 else ("setup", "teardown")
    reports = [
        SimpleNamespace(when=when, passed=outcome == "passed") for when, outcome in zip(phases, outcomes, strict=True)
    ]
    heard: list[str] = []
    hooks = SimpleNamespace(pytest_runtest_logreport=lambda report: heard.append(report.when))
    monkeypatch.setattr(short_reports, "runtestprotocol", lambda item, log, nextitem: reports)
    item: Any = SimpleNamespace(ihook=hooks)
    assert short_reports.ShortReports().pytest_runtest_protocol(item, None)
    return heard


def test_of_a_test_one_report_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, "passed", "passed", "passed") == ["call"]
    assert told(monkeypatch, "passed", "failed", "passed") == ["call"]
    assert told(monkeypatch, "passed", "skipped", "passed") == ["call"]


def test_what_fails_around_it_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, "passed", "passed", "failed") == ["call", "teardown"]
    assert told(monkeypatch, "failed", "passed") == ["setup"]
    assert told(monkeypatch, "skipped", "passed") == ["setup"]
    assert told(monkeypatch, "failed", "failed") == ["setup", "teardown"]
