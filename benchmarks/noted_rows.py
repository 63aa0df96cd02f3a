"""Rows that a benchmark has measured, as lines of JSON: what was cut off goes on where it was."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass
class Notes:
    """Rows that were measured before, by what determines them; `path` None: none are kept."""

    path: Path | None
    rows: dict[str, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what is there."""
        if self.path is not None and self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                noted = json.loads(line)
                self.rows[noted["key"]] = noted["row"]

    def row(self, key: str, measure: Callable[[], Row]) -> Row:
        """The row of this key, measured if it is not there."""
        if key not in self.rows:
            self.rows[key] = measure()
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "row": self.rows[key]}) + "\n")
        return self.rows[key]
