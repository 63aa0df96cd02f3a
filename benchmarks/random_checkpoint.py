"""Checkpoints of true Whisper shapes with random weights, for measuring speed: it does not depend on the values."""

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from whispertide.checkpoint import ModelDims, load_checkpoint
from whispertide.checkpoint.layout import expected_shapes

# width, heads, layers
SHAPES = {"tiny.en": (384, 6, 4), "base.en": (512, 8, 6), "small.en": (768, 12, 12), "medium.en": (1024, 16, 24)}
_TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "preprocessor_config.json",
)


def random_checkpoint(folder: Path, shape: str) -> Path:
    """Write a Hugging Face folder of that shape into `folder` unless it is there already; returns `folder`."""
    if (folder / "model.safetensors").is_file():
        return folder
    width, heads, layers = SHAPES[shape]
    bundled = Path(load_checkpoint("nano.en").tensors.files[0]).parent
    folder.mkdir(parents=True, exist_ok=True)
    for name in _TOKENIZER:
        shutil.copy(bundled / name, folder / name)
    config = json.loads((bundled / "config.json").read_text())
    config |= {
        "d_model": width,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * width,
        "decoder_ffn_dim": 4 * width,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    generation = json.loads((bundled / "generation_config.json").read_text())
    generation["alignment_heads"] = [[layers - 1, head] for head in range(heads)]
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=1))
    rng = np.random.default_rng(0)
    tensors = {
        f"model.{name}": _random(rng, name, size)
        for name, size in expected_shapes(ModelDims.from_hf_config(config)).items()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _random(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if "layer_norm.weight" in name:
        return np.ones(shape, np.float32)
    return (0.02 * rng.standard_normal(shape)).astype(np.float32)
