"""Figures of a run: audio and wall time, rounds, latency of confirmed words, CPU use. Draws nothing.

Latency is counted from the end of a word in the audio to the moment it was confirmed. At live pace that moment is read
from the wall clock; at the pace `max` it is the amount of audio that had been received, so the figure is that of the
recipe alone, with computing for free.
"""

import time
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from whispertide.events import Confirmed, Event, Hypothesis, Lag
from whispertide.types import seconds, to_samples

_CPU_WINDOW_S = 1.0
_BELIEVED = to_samples(60)  # for so long a moment at which the audio may have begun counts, and as long again at most


@dataclass(slots=True)
class Meter:
    """Collects the figures of one run from its blocks and events. `clock` and `cpu` are in seconds."""

    live: bool
    clock: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time
    samples: int = 0
    rounds: int = 0
    level: int = 0
    encode_s: float = 0.0
    decode_s: float = 0.0
    first_word_s: float | None = None
    latencies: list[float] = field(default_factory=list)  # sorted
    _last_rounds: dict[int | None, int] = field(default_factory=dict)  # by channel, where these are kept apart
    _began: float = 0.0
    _origins: tuple[float, float] | None = None  # the earliest moments of the newest stretch of audio, and of the last
    _stretch: int = 0  # the sample at which the newest one began
    _cpu_began: float = 0.0
    _cpu_mark: tuple[float, float] = (0.0, 0.0)
    _cpu_share: float = 0.0

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._cpu_began = self.cpu()
        self._cpu_mark = (self._began, self._cpu_began)

    def audio(self, samples: int) -> None:
        """Count `samples` that have arrived, which says at the latest when the audio began."""
        self.samples += samples
        begins = self.clock() - seconds(self.samples)
        # The earliest counts: no audio is ahead of itself. Of the last minutes alone, as a source's clock may also run
        # slower than ours, and audio that was lost does not wait.
        newest, last = self._origins or (begins, begins)
        if self.samples - self._stretch >= _BELIEVED:
            newest, last, self._stretch = begins, newest, self.samples
        self._origins = min(newest, begins), last

    def event(self, event: Event) -> None:
        """Take note of an event at the moment it happens."""
        if isinstance(event, Lag):
            self.level = event.level
        if not isinstance(event, Confirmed | Hypothesis):
            return
        if event.stats.round_id > self._last_rounds.get(event.channel, -1):
            self._last_rounds[event.channel] = event.stats.round_id
            self.rounds += 1
            self.encode_s += event.stats.encode_s
            self.decode_s += event.stats.decode_s + event.stats.align_s
        now = self._now(event)
        if event.words and self.first_word_s is None:
            self.first_word_s = now - seconds(event.words[0].end)
        if isinstance(event, Confirmed):
            for word in event.words:
                insort(self.latencies, now - seconds(word.end))

    def _now(self, event: Event) -> float:
        """The time in seconds since the audio began."""
        return self.elapsed if self.live else seconds(event.at)

    @property
    def wall(self) -> float:
        """Wall seconds since the run began."""
        return self.clock() - self._began

    @property
    def elapsed(self) -> float:
        """Wall seconds since the audio began (live pace)."""
        return 0.0 if self._origins is None else self.clock() - min(self._origins)

    @property
    def lag(self) -> float:
        """Seconds of audio that were spoken but not taken in yet (live pace)."""
        return max(0.0, self.elapsed - seconds(self.samples))

    @property
    def median_latency(self) -> float | None:
        """Median latency of the confirmed words so far, in seconds."""
        return self._quantile(0.5)

    def _quantile(self, share: float) -> float | None:
        return (
            self.latencies[min(int(share * len(self.latencies)), len(self.latencies) - 1)] if self.latencies else None
        )

    def cpu_percent(self) -> float:
        """Use of the processor over the last second; 100 is one core."""
        now, used = self.clock(), self.cpu()
        then, before = self._cpu_mark
        if now - then >= _CPU_WINDOW_S:
            self._cpu_share = 100 * (used - before) / (now - then)
            self._cpu_mark = (now, used)
        return self._cpu_share

    def summary(self) -> dict[str, Any]:
        """The metrics of the finished run, as JSON carries them (docs/reference/cli.md)."""
        wall = self.wall
        audio = seconds(self.samples)
        return {
            "audio_s": audio,
            "wall_s": round(wall, 4),
            "real_time_factor": round(wall / audio, 4) if audio else None,
            "cpu_s": round(self.cpu() - self._cpu_began, 4),
            "rounds": self.rounds,
            "encode_s": round(self.encode_s, 4),
            "decode_s": round(self.decode_s, 4),
            "latency_clock": "wall" if self.live else "audio",
            "first_word_latency_s": _round(self.first_word_s),
            "confirmed_latency_median_s": _round(self.median_latency),
            "confirmed_latency_p90_s": _round(self._quantile(0.9)),
        }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
