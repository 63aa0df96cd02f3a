"""What each seed found, one JSON line each, kept by the code that it is about: a campaign can stop and go on."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass
class Line:
    """What one seed of a scenario found.

    audio_s   of all its sessions together
    harm      how much of the scenario's unit was done: kills, frames, seconds of audio ...
    lost, changed, repeated   words, over all sessions
    told      losses that the client was told of, where a loss is no failure (a corrupt journal)
    figures   what else is worth knowing
    process   in which it ran
    problem   what went wrong; empty if nothing did
    """

    scenario: str
    seed: int
    audio_s: float = 0.0
    sessions: int = 0
    events: int = 0
    words: int = 0
    harm: int = 0
    lost: int = 0
    changed: int = 0
    repeated: int = 0
    told: int = 0
    rss_mb: float = 0.0
    process: int = 0
    wall_s: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def failed(self) -> bool:
        """Whether a word was harmed, or something else went wrong."""
        return bool(self.lost or self.changed or self.repeated or self.problem)


def code() -> str:
    """A name for the code under test: the tree of `src`, marked where files differ from it."""
    tree = _git("rev-parse", "--short=12", "HEAD:src")
    return f"{tree}-changed" if _git("status", "--porcelain", "--", "src") else tree


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or ("unknown" if done.returncode else "")


@dataclass(frozen=True)
class Notes:
    """The lines of one version of the code: a file per scenario."""

    folder: Path

    @classmethod
    def here(cls, folder: Path | None = None) -> "Notes":
        """Where the lines of the present code are."""
        return cls((folder or ROOT / "bench-results" / "soak") / code())

    def add(self, line: Line) -> None:
        """Write it down at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{line.scenario}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(line)) + "\n")

    def read(self, scenario: str) -> Iterator[Line]:
        """The lines of a scenario. One that was cut off by a kill of the campaign is left out."""
        path = self.folder / f"{scenario}.jsonl"
        for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                yield Line(**json.loads(text))
            except ValueError:
                continue
