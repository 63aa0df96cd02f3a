"""A checkpoint that does not say that it has heard short windows, as OpenAI's do not: the bundled one, made silent."""

import json
import shutil
from pathlib import Path

from whispertide.checkpoint.names import BUNDLED_DIR


def without_short_windows(folder: Path) -> Path:
    """The bundled checkpoint under `folder`, without its word and its attachments."""
    made = folder / "nano-unsaid.en"
    made.mkdir(parents=True)
    for file in (BUNDLED_DIR / "nano.en").iterdir():
        if file.suffix != ".npz":  # what it has learned besides: hush words, a causal adapter
            shutil.copy(file, made / file.name)
    path = made / "generation_config.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    del said["short_windows"]
    path.write_text(json.dumps(said), encoding="utf-8")
    return made
