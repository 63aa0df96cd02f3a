"""What a checkpoint folder in Hugging Face layout has next to its weights. Knows no weights."""

import json
import shutil
from pathlib import Path
from typing import Any

from whispertide.checkpoint import Checkpoint, ModelDims
from whispertide.checkpoint.json_file import read_json
from whispertide.errors import CheckpointError

# Next to the weights and the two configurations
COMPANIONS = (
    *("added_tokens.json", "merges.txt", "normalizer.json", "preprocessor_config.json"),
    *("special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.json"),
)


def read_configs(checkpoint: Checkpoint, purpose: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two configurations of a checkpoint, the second empty where there is none.

    Raises `CheckpointError` for an OpenAI `.pt`, which has neither; `purpose` says what it was wanted for.
    """
    folder, generation = checkpoint.folder, checkpoint.folder / "generation_config.json"
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            f"expected a folder in Hugging Face layout {purpose}; {checkpoint.name} is an OpenAI .pt in {folder}"
        )
    return read_json(folder / "config.json"), read_json(generation) if generation.is_file() else {}


def shape_config(dims: ModelDims) -> dict[str, Any]:
    """What `config.json` says of a shape (transformers, WhisperConfig)."""
    return {
        "d_model": dims.n_audio_state,
        "encoder_layers": dims.n_audio_layer,
        "decoder_layers": dims.n_text_layer,
        "num_hidden_layers": dims.n_audio_layer,
        "encoder_attention_heads": dims.n_audio_head,
        "decoder_attention_heads": dims.n_text_head,
        "encoder_ffn_dim": 4 * dims.n_audio_state,
        "decoder_ffn_dim": 4 * dims.n_text_state,
    }


def copy_companions(source: Path, output: Path) -> None:
    """Those that there are. Raises OSError."""
    for name in COMPANIONS:
        if (source / name).is_file():
            shutil.copyfile(source / name, output / name)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """As a checkpoint's configurations are written. Raises OSError."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
