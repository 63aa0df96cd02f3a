"""Records of the journal in NATS, each one or more messages under the subject of a session.

A record is a line of JSON and then bytes. What a session was is folded from its records in order.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from whispertide.server.protocols.base import Settings, as_plain
from whispertide.server.session_journal import JournalProgress, Row, SessionInfo, StoredSession, load_session

PIECE = 512 * 1024  # bytes of a message; NATS takes 1 MiB unless told otherwise


@dataclass(frozen=True, slots=True)
class Record:
    """One record: `kind` is open, commands, step, claim or closed; `head` is JSON, `data` bytes."""

    kind: str
    head: dict[str, Any] = field(default_factory=dict)
    data: bytes = b""

    def pieces(self) -> list[bytes]:
        """Encode the record as messages that NATS takes."""
        head = json.dumps({"kind": self.kind, **self.head}, default=dict)
        whole = head.encode() + b"\n" + self.data
        return [whole[at : at + PIECE] for at in range(0, len(whole), PIECE)]


def read_record(whole: bytes) -> Record:
    """Read an encoded record. Raises `ValueError` or `KeyError` for damaged bytes."""
    line, _, data = whole.partition(b"\n")
    head = json.loads(line)
    return Record(head.pop("kind"), head, data)


def plain_about(about: SessionInfo) -> dict[str, Any]:
    """Convert to JSON values."""
    settings = as_plain(about.settings)
    return {"owner": about.owner, "model": about.model, "protocol": about.protocol, "settings": settings}


def commands_record(rows: Sequence[Row]) -> Record:
    """Put several commands into one record."""
    head = {"rows": [[row.n, row.kind, row.start, row.stop, len(row.data)] for row in rows]}
    return Record("commands", head, b"".join(row.data for row in rows))


def fold(identity: str, records: Sequence[Record]) -> tuple[StoredSession, JournalProgress] | None:
    """Rebuild the session from its records; None if it is over, or nothing of it is there.

    Raises what reading damaged values raises.
    """
    about: dict[str, Any] | None = None
    rows: list[Row] = []
    entries: list[tuple[int, Any]] = []
    stored: tuple[int, int, bytes] | None = None
    acked = -1
    for record in records:
        head = record.head
        match record.kind:
            case "open":
                about = head["about"]
            case "commands":
                rows += _rows(record)
            case "step":
                about, acked = head["about"], max(acked, head["acked"])
                entries += head["entries"]
                stored = (head["taken"], head["next_seq"], record.data)
                rows = [row for row in rows if row.n >= head["taken"] or row.stop > head["needed"]]
            case "closed":
                return None
    if about is None:
        return None
    settings = Settings(**about["settings"])
    plain = [entry for number, entry in entries if number > acked]
    return load_session(
        identity, SessionInfo(about["owner"], about["model"], about["protocol"], settings), rows, stored, plain
    )


def _rows(record: Record) -> list[Row]:
    rows, at = [], 0
    for n, kind, start, stop, size in record.head["rows"]:
        rows.append(Row(n, kind, start, stop, record.data[at : at + size]))
        at += size
    return rows
