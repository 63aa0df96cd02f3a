"""Metrics for `/metrics` in Prometheus' format. Each server has its own registry: several can live in a process."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from whispertide.events import Confirmed, Error, Unheard
from whispertide.server.live import LiveSession
from whispertide.server.observers import Observer, Step
from whispertide.types import seconds

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0)


class Metrics(Observer["LiveSession"]):
    """All figures. Names of sessions, clients or words never become labels."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        name, registry = "whispertide", self.registry
        self.sessions = Gauge(f"{name}_sessions", "Live sessions, including those without a client", registry=registry)
        self.parked = Gauge(f"{name}_sessions_parked", "Sessions that wait for their client", registry=registry)
        self.connections = Gauge(f"{name}_connections", "Open connections", ["protocol"], registry=registry)
        self.viewers = Gauge(f"{name}_viewers", "Who watches the captions of a session", registry=registry)
        self.opened = Counter(f"{name}_sessions_opened", "Sessions opened", ["protocol"], registry=registry)
        self.resumed = Counter(f"{name}_sessions_resumed", "Sessions that a client came back to", registry=registry)
        self.refused = Counter(f"{name}_refused", "Connections and sessions refused", ["reason"], registry=registry)
        self.refused.labels("overloaded")  # from 0 on: else an alert does not see the first one
        self.errors = Counter(f"{name}_errors", "Sessions that failed", registry=registry)
        self.unheard = Counter(f"{name}_unheard_turns", "Turns with speech and without a word", registry=registry)
        self.audio = Counter(f"{name}_audio_seconds", "Audio received", registry=registry)
        self.rounds = Counter(f"{name}_rounds", "Rounds computed", registry=registry)
        self.round_seconds = Histogram(
            f"{name}_round_seconds", "Wall time of a round", buckets=_SECONDS, registry=registry
        )
        self.wait_seconds = Histogram(
            f"{name}_wait_seconds", "How long a session waits for a worker", buckets=_SECONDS, registry=registry
        )
        self.confirmed_seconds = Histogram(
            f"{name}_confirmed_latency_seconds",
            "Audio received when a word is confirmed, minus the end of the word",
            buckets=_SECONDS,
            registry=registry,
        )
        self.lag = Gauge(f"{name}_lag_seconds", "Audio that the last round did not include", registry=registry)
        self.unheard_audio = Gauge(
            f"{name}_unheard_seconds", "Audio that came in and that no round has looked at", registry=registry
        )
        self.oldest_unheard = Gauge(
            f"{name}_oldest_unheard_seconds",
            "Seconds since the oldest audio arrived that no round has decoded",
            registry=registry,
        )
        self.quality = Gauge(f"{name}_quality_level", "Steps by which quality is lowered (0 = full)", registry=registry)
        self.pressure = Gauge(f"{name}_pressure", "Mean time to finish a round, in steps", registry=registry)
        self.journal_failing = Gauge(
            f"{name}_journal_failing", "1 while the journal cannot be written", registry=registry
        )
        self.uploads = Counter(f"{name}_uploads", "Files transcribed", ["outcome"], registry=registry)

    def show_load(self, level: int, pressure: float, *, silent: bool) -> None:
        """Set the gauges of load. `silent`: there is no session, so none is late."""
        self.quality.set(level)
        self.pressure.set(pressure)
        if silent:
            self.lag.set(0)

    def show_waiting(self, unheard_s: float, oldest_s: float) -> None:
        """Set the gauges of audio that no round has covered yet, and of the age of the oldest of it, in seconds."""
        self.unheard_audio.set(unheard_s)
        self.oldest_unheard.set(oldest_s)

    def told(self, live: LiveSession, step: Step) -> None:
        """Count a step."""
        if step.rounds:
            self.rounds.inc()
            self.round_seconds.observe(step.round_s)
            self.wait_seconds.observe(step.waited_s)
            self.lag.set(seconds(step.behind))
        for entry in step.entries:
            if isinstance(entry, Confirmed):
                for word in entry.words:
                    self.confirmed_seconds.observe(seconds(max(0, live.accepted - word.end)))
            elif isinstance(entry, Unheard):
                self.unheard.inc()
            elif isinstance(entry, Error) and entry.fatal:
                self.errors.inc()

    def render(self) -> bytes:
        return generate_latest(self.registry)
