"""The run over a whole recording: its segments as they come, its figures, and the document.

Knows nothing of models: the caller runs one and adds the segments.
"""

import time
from dataclasses import dataclass, field

from whispertide.atomic import printable
from whispertide.audio.whole import Recording
from whispertide.formats.document import Document, TextSegment
from whispertide.types import seconds


@dataclass(slots=True)
class OfflineRun:
    """A run over `recording`, timed from now on."""

    recording: Recording
    segments: list[TextSegment] = field(default_factory=list)
    _began: float = field(default_factory=time.perf_counter, init=False)
    _cpu: float = field(default_factory=time.process_time, init=False)
    _first_s: float | None = field(default=None, init=False)

    @property
    def wall(self) -> float:
        """Wall seconds since the run began."""
        return time.perf_counter() - self._began

    def add(self, segment: TextSegment) -> None:
        """Take a segment that is done."""
        self._first_s = self._first_s or self.wall
        self.segments.append(segment)

    def document(self, *, language: str | None, model: str, source: str, interrupted: bool = False) -> Document:
        """The document, with the figures of the run (docs/reference/cli.md); `model` and `source` by their names."""
        wall, length = self.wall, seconds(self.recording.samples)
        return Document(
            tuple(self.segments),
            language=language,
            duration=self.recording.samples,
            model=printable(model),
            recipe="offline",
            source=printable(source),
            complete=not interrupted and self.recording.broken is None,
            metrics={
                "audio_s": length,
                "wall_s": round(wall, 4),
                "real_time_factor": round(wall / length, 4) if length else None,
                "cpu_s": round(time.process_time() - self._cpu, 4),
                "first_text_s": None if self._first_s is None else round(self._first_s, 4),
            },
        )
