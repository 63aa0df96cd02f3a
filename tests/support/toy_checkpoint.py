"""A Whisper of width 8 with random weights and nano.en's tokenizer, which takes real windows, as a folder."""

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.layout import expected_shapes
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide_lab.checkpoint_folder import shape_config

TOY = ModelDims(80, 1500, 8, 2, 1, 51_864, 448, 8, 2, 1)


def toy_checkpoint(folder: Path) -> Path:
    """Write it into a new folder and return that."""
    folder.mkdir(parents=True)
    config = json.loads((BUNDLED_DIR / "nano.en" / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | shape_config(TOY)))
    shutil.copy(BUNDLED_DIR / "nano.en" / "tokenizer.json", folder)
    rng = np.random.default_rng(0)
    tensors = {name: rng.standard_normal(size).astype(np.float16) for name, size in expected_shapes(TOY).items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
