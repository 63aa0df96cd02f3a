"""Traces by OpenTelemetry (extra `tracing`): spans of sessions and of their rounds.

    session
      round            from the queue to the moment when its events may be sent
        queue          waits for a worker
        encode
        decode
        journal        waits until it is written

On where OTEL_EXPORTER_OTLP_ENDPOINT says where to send them; other variables are those of OpenTelemetry. Off, nothing
of it is imported. Words and keys are in no span, and of a session's id the first eight characters, as in the log.
"""

import logging
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from whispertide.errors import OptionError
from whispertide.events import Confirmed, Hypothesis, RoundStats
from whispertide.extras import require
from whispertide.server.live import LiveSession
from whispertide.server.observers import Observer, Step
from whispertide.server.outbox import Entry
from whispertide.types import seconds

if TYPE_CHECKING:  # an extra
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

log = logging.getLogger("whispertide.server")

_WHERE = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_S = 1_000_000_000  # of a second in OpenTelemetry's units


class Traces(Observer[LiveSession]):
    """Spans of live sessions."""

    def __init__(self, provider: "TracerProvider") -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("whispertide")
        self._sessions: dict[str, Span] = {}

    def told(self, live: LiveSession, step: Step) -> None:
        """Record a step; one without a round leaves no span."""
        if not step.rounds:
            return
        session, stats = self._of(live), _stats_of(step.entries)
        end = time.time_ns()
        computed = end - round(step.kept_s * _S)
        began = computed - round(step.round_s * _S)
        start = began - round(step.waited_s * _S)
        span = self._span("round", session, start)
        span.set_attribute("whispertide.behind_s", seconds(step.behind))
        self._span("queue", span, start).end(began)
        if stats is not None:
            encoded = began + round(stats.encode_s * _S)
            self._span("encode", span, began).end(encoded)
            decode = self._span("decode", span, encoded)
            decode.set_attribute("whispertide.tokens", stats.tokens)
            decode.end(encoded + round(stats.decode_s * _S))
        if step.kept_s:
            self._span("journal", span, computed).end(end)
        span.end(end)

    def closed(self, live: LiveSession) -> None:
        """End the span of the session."""
        session = self._sessions.pop(live.id, None)
        if session is not None:
            session.set_attribute("whispertide.audio_s", seconds(live.accepted))
            session.end()

    def close(self) -> None:
        """Send the rest. Sessions that go on elsewhere end here."""
        for session in self._sessions.values():
            session.end()
        self._sessions.clear()
        self._provider.shutdown()

    def _of(self, live: LiveSession) -> "Span":
        """The span of a session, begun with its first round here."""
        if live.id not in self._sessions:
            about = {"session": live.id[:8], "model": live.model, "protocol": live.protocol}
            about["recipe"] = live.asked_recipe.name
            attributes = {f"whispertide.{name}": value for name, value in about.items()}
            self._sessions[live.id] = self._tracer.start_span("session", attributes=attributes)
        return self._sessions[live.id]

    def _span(self, name: str, parent: "Span", start: int) -> "Span":
        from opentelemetry.trace import set_span_in_context

        return self._tracer.start_span(name, set_span_in_context(parent), start_time=start)


def _stats_of(entries: Sequence[Entry]) -> RoundStats | None:
    """The statistics of the round; None if it showed nothing new."""
    return next((entry.stats for entry in entries if isinstance(entry, (Confirmed, Hypothesis))), None)


def from_environment() -> Traces | None:
    """Open the traces that the environment asks for; None if it asks for none, or the extra is not installed (the log
    says so).
    """
    if not any(os.environ.get(name) for name in _WHERE):
        return None
    try:
        require("tracing", f"traces ({_WHERE[0]} is set)")
    except OptionError as error:
        log.warning("no traces", extra={"problem": str(error)})
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME", "whispertide")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider)
