"""What a checkpoint folder in Hugging Face layout has next to its weights. Knows no weights."""

import json
import shutil
from pathlib import Path
from typing import Any

from whispertide.checkpoint import Checkpoint, ModelDims, Tokenizer
from whispertide.checkpoint.json_file import read_json
from whispertide.errors import CheckpointError

CONFIGS = ("config.json", "generation_config.json")
# Next to the weights and the two configurations
COMPANIONS = (
    *("added_tokens.json", "merges.txt", "normalizer.json", "preprocessor_config.json"),
    *("special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.json"),
)


def read_configs(checkpoint: Checkpoint, purpose: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two configurations of a checkpoint, the second empty where there is none. A folder of faster-whisper has
    neither: its own are made (`config.json` there is CTranslate2's).

    Raises `CheckpointError` for a checkpoint without `tokenizer.json`, such as an OpenAI `.pt`; `purpose` says what it
    was wanted for.
    """
    folder = checkpoint.folder
    config, generation = (read_json(path) if path.is_file() else {} for path in (folder / name for name in CONFIGS))
    if config.get("model_type") == "whisper":
        return config, generation
    if not (folder / "tokenizer.json").is_file():
        raise CheckpointError(
            f"expected a folder in Hugging Face layout, or one of faster-whisper with tokenizer.json, {purpose}; "
            f"{checkpoint.name} is an OpenAI .pt or a file of whisper.cpp in {folder}: use the same model by its name"
        )
    return _made_config(checkpoint), _made_generation(checkpoint)


def _made_config(checkpoint: Checkpoint) -> dict[str, Any]:
    """`config.json` of a checkpoint that has none."""
    dims, tokenizer = checkpoint.dims, checkpoint.tokenizer
    return {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "is_encoder_decoder": True,
        "activation_function": "gelu",
        "scale_embedding": False,
        "vocab_size": dims.n_vocab,
        "num_mel_bins": dims.n_mels,
        "max_source_positions": dims.n_audio_ctx,
        "max_target_positions": dims.n_text_ctx,
        **shape_config(dims),
        **_special_tokens(tokenizer),
    }


def _made_generation(checkpoint: Checkpoint) -> dict[str, Any]:
    """`generation_config.json` of a checkpoint that has none, as `transformers` reads it. What the checkpoint is silent
    about is not in it.
    """
    known, tokenizer = checkpoint.generation, checkpoint.tokenizer
    found: dict[str, Any] = {
        **_special_tokens(tokenizer),
        "no_timestamps_token_id": tokenizer.no_timestamps,
        "prev_sot_token_id": tokenizer.sot_prev,
        "max_initial_timestamp_index": 50,  # a second, as in every generation config of OpenAI's
        "max_length": checkpoint.dims.n_text_ctx,
        "is_multilingual": tokenizer.is_multilingual,
    }
    if tokenizer.is_multilingual:
        languages = {f"<|{code}|>": token for code, token in tokenizer.language_tokens.items()}
        found |= {
            "lang_to_id": languages,
            "task_to_id": {"transcribe": tokenizer.transcribe, "translate": tokenizer.translate},
        }
    if known.alignment_heads:
        found["alignment_heads"] = [list(head) for head in known.alignment_heads]
    for name in ("suppress_tokens", "begin_suppress_tokens"):
        if (tokens := getattr(known, name)) is not None:
            found[name] = list(tokens)
    return found


def _special_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    """The tokens that both configurations name."""
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), tokenizer.eot)
    return {**ends, "decoder_start_token_id": tokenizer.sot}


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
