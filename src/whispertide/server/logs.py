"""Structured logs: one JSON object a line, on standard error. What was said is not among the fields."""

import json
import logging
import sys
from datetime import UTC, datetime

_SHOWN = 8  # characters of a session's id
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class JsonLines(logging.Formatter):
    """A record as one line of JSON; whatever was passed as `extra` becomes a field."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **{key: value for key, value in vars(record).items() if key not in _STANDARD},
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        if "session" in fields:  # whoever knows the whole id may resume it
            fields["session"] = str(fields["session"])[:_SHOWN]
        # in ASCII, because what a client chose may steer a terminal or turn the direction of a line
        return json.dumps(fields, ensure_ascii=True, default=str)


def set_up(level: str = "info") -> None:
    """Send this server's log, and what uvicorn and asyncio have to say, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("whispertide.server", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level.upper() if name == "whispertide.server" else logging.WARNING)
        logger.propagate = False
