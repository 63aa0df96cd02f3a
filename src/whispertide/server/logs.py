"""Structured logs: one JSON object a line, on standard error. Transcripts are not among the fields.

A fault is one line: what it was and where it arose. Lines of one kind that come too often are counted in place of being
written: nobody can fill a disk by failing.
"""

import json
import logging
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from whispertide.events import Confirmed
from whispertide.server.bucket import Bucket
from whispertide.server.live import LiveSession
from whispertide.server.observers import Observer, Step
from whispertide.types import join_words

log = logging.getLogger("whispertide.server")

_SHOWN = 8  # characters of a session's id
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_FRAMES = 6  # of a fault, the innermost
_CHARACTERS = 500  # of what an error says, and of a line's event: either may quote a client
_BURST, _RATE = 50, 1.0  # lines of one kind at once, and a second on average
_KINDS = 500  # all others are one


class JsonLines(logging.Formatter):
    """A formatter of one JSON object a line; all values passed as `extra` become fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _short(record.getMessage()),
            **{key: value for key, value in vars(record).items() if key not in _STANDARD},
        }
        if (error := _error_of(record)) is not None:
            fields["error"] = _short(f"{type(error).__name__}: {error}")
            fields["at"] = _where(error)
        if "session" in fields:  # whoever knows the whole id may resume it
            fields["session"] = str(fields["session"])[:_SHOWN]
        # in ASCII, because what a client chose may steer a terminal or turn the direction of a line
        return json.dumps(fields, ensure_ascii=True, default=str)


def _error_of(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _short(text: str) -> str:
    if text.startswith("Traceback"):  # uvicorn's, where the application cannot start: the error is its last line
        text = text.strip().splitlines()[-1]
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 3] + "..."


def _where(error: BaseException) -> str:
    """The innermost frames, outermost first: "rest.py:12 run > uploads.py:34 step"."""
    frames = list(traceback.walk_tb(error.__traceback__))[-_FRAMES:]
    return " > ".join(f"{Path(frame.f_code.co_filename).name}:{line} {frame.f_code.co_name}" for frame, line in frames)


@dataclass(slots=True)
class _Kind:
    """Similar lines: how many may come, and the number left out since the last."""

    room: Bucket
    left_out: int = 0


@dataclass
class Repeats:
    """A filter of repeated lines: `burst` at once and `rate` a second of each kind. The next line that passes says in
    `repeated` how many before it did not. Confirmed text (`--log-transcripts`) always passes.
    """

    burst: int = _BURST
    rate: float = _RATE
    clock: Callable[[], float] = time.monotonic
    _kinds: dict[tuple[object, ...], _Kind] = field(default_factory=dict)

    def filter(self, record: logging.LogRecord) -> bool:
        """True if this line is to be written."""
        if hasattr(record, "text"):
            return True
        key = _kind_of(record)
        if key not in self._kinds and len(self._kinds) >= _KINDS:
            key = ()
        kind = self._kinds.setdefault(key, _Kind(Bucket(self.rate, self.burst)))
        if not kind.room.spend(self.clock()):
            kind.left_out += 1
            return False
        if kind.left_out:
            record.repeated, kind.left_out = kind.left_out, 0
        return True


class SaidInLog(Observer["LiveSession"]):
    """Writes confirmed text to the log, for `--log-transcripts`."""

    def told(self, live: LiveSession, step: Step) -> None:
        """Write what a step has confirmed."""
        for entry in step.entries:
            if isinstance(entry, Confirmed):
                log.info("confirmed", extra={"session": live.id, "text": join_words(entry.words)})


def _kind_of(record: logging.LogRecord) -> tuple[object, ...]:
    """The kind of a line: the place of its error, since error texts may differ each time; else its template."""
    error = _error_of(record)
    kind = str(record.msg) if error is None else (type(error).__name__, _where(error))
    return record.name, record.levelno, kind, getattr(record, "kind", ""), getattr(record, "protocol", "")


def set_up(level: str = "info") -> None:
    """Send all logs to standard error: of this server, of warnings, and of every package that finds fault with what
    clients send.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(Repeats())
    logging.captureWarnings(True)
    # Python would remember each text that it has warned of, for good; clients make as many as they like.
    warnings.simplefilter("always")
    everything = logging.getLogger()
    everything.handlers = [handler]
    everything.setLevel(logging.WARNING)
    log.setLevel(level.upper())
