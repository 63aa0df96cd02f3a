"""Traces of live sessions, by OpenTelemetry's exporter into memory."""

import asyncio
import logging
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra `tracing` is not installed")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from served import TEXT, KnowingModel, client, limited, say_everything, served
from whispertide.server import serving
from whispertide.server.tracing import Traces, from_environment


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Of every server in this test."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(serving, "from_environment", lambda: Traces(provider))
    return exporter


def test_a_session_its_rounds_and_what_they_took(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    async def run() -> tuple[str, float]:
        options = replace(limited(resume_s=0), journal=str(tmp_path / "journal"))
        async with served(options, KnowingModel(round_s=0.01)) as (_, hub), client(_) as one:
            await say_everything(one)
            assert await one.rest() == 1000
            assert one.text == TEXT
            return one.said("session")[0]["session"], hub.metrics.registry.get_sample_value(
                "whispertide_rounds_total"
            ) or 0

    identity, rounds = asyncio.run(run())
    found: dict[str, list[Any]] = defaultdict(list)
    for span in spans.get_finished_spans():
        found[span.name].append(span)
    (session,) = found["session"]
    assert session.attributes["whispertide.session"] == identity[:8]
    assert session.attributes["whispertide.audio_s"] == 11
    assert identity not in str([span.to_json() for each in found.values() for span in each]), (
        "it would open the session"
    )
    assert len(found["round"]) == len(found["queue"]) == rounds > 0
    assert {span.parent.span_id for span in found["round"]} == {session.context.span_id}
    for span in found["round"]:
        assert span.end_time - span.start_time >= 0.01 * 1e9
    whole = {span.context.span_id: span for span in found["round"]}
    assert found["encode"]
    assert found["decode"]
    assert found["journal"]
    for span in [*found["queue"], *found["encode"], *found["decode"], *found["journal"]]:
        around = whole[span.parent.span_id]
        assert around.start_time <= span.start_time <= span.end_time <= around.end_time


def test_off_it_costs_nothing() -> None:
    """Nothing is imported, and no step has anybody to tell."""
    code = (
        "import sys; from whispertide.server.tracing import from_environment; assert from_environment() is None; "
        "sys.exit('opentelemetry' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=False).returncode
        == 0
    )


def test_without_the_extra_a_line_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    assert from_environment() is None
    (line,) = caplog.records
    assert "'tracing'" in line.__dict__["problem"]
