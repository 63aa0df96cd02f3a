"""Checkpoints of true Whisper shapes with random weights, and random features for them, for measuring speed: it does
not depend on the values.
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.layout import expected_shapes
from whispertide.types import FloatArray
from whispertide_lab.checkpoint_folder import copy_companions, read_configs, shape_config, write_json
from whispertide_lab.training.widen import TARGETS, Target

# large-v3-turbo has 4 decoder layers, 32 encoder layers and 51,866 tokens; its decoder is what this shape is for
TURBO = "large-v3-turbo, decoder"
SHAPES = {"tiny.en": Target(384, 6, 4), **TARGETS, TURBO: Target(1280, 20, 4)}


def random_checkpoint(folder: Path, shape: str) -> Path:
    """Write a Hugging Face folder of that shape into `folder` unless it is there already; returns `folder`."""
    if (folder / "model.safetensors").is_file():
        return folder
    bundled = load_checkpoint("nano.en")
    dims = SHAPES[shape].applied_to(bundled.dims)
    config, generation = read_configs(bundled, "to copy")
    folder.mkdir(parents=True, exist_ok=True)
    copy_companions(bundled.folder, folder)
    write_json(folder / "config.json", config | shape_config(dims) | {"torch_dtype": "float32"})
    heads = [[dims.n_text_layer - 1, head] for head in range(dims.n_text_head)]
    write_json(folder / "generation_config.json", generation | {"alignment_heads": heads})
    rng = np.random.default_rng(0)
    tensors = {f"model.{name}": _random(rng, name, size) for name, size in expected_shapes(dims).items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def random_features(mels: int, frames: int, rng: np.random.Generator | int = 0) -> FloatArray:
    """Something like the log-mel of sound, [mels, frames]; `rng` draws it, or is the seed of one that does."""
    noise = np.random.default_rng(rng).standard_normal((mels, frames))
    return np.clip(0.3 * noise, -1, 1).astype(np.float32)


def _random(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if "layer_norm.weight" in name:
        return np.ones(shape, np.float32)
    return (0.02 * rng.standard_normal(shape)).astype(np.float32)
