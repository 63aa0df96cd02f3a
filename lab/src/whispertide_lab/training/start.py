"""Where training begins: a shape with random weights, a checkpoint, another run as far as it is, or one of these grown.

Needs torch. Knows nothing of speech or optimisation.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from whispertide.checkpoint import Checkpoint, Tokenizer, load_checkpoint
from whispertide.checkpoint.generation import Heads
from whispertide.checkpoint.json_file import read_json
from whispertide_lab.checkpoint_folder import copy_companions, read_configs, shape_config, write_json
from whispertide_lab.training.growth import grow
from whispertide_lab.training.network import Whisper, load_network, new_network, save_tensors
from whispertide_lab.training.shapes import guided_heads, shaped
from whispertide_lab.training.widen import Widening

VOCABULARY_OF = "nano.en"  # a network from scratch has the tokenizer of this checkpoint


@dataclass(frozen=True, slots=True)
class Start:
    """A network over the whole vocabulary, and the files that make a checkpoint of it.

    `characters` is the state of the CTC head where there is one.
    """

    network: Whisper
    tokenizer: Tokenizer
    folder: Path  # its companion files are copied
    config: dict[str, Any]
    generation: dict[str, Any]
    characters: dict[str, Tensor] | None = None

    @property
    def alignment_heads(self) -> Heads:
        """(layer, head) pairs by the generation config; empty where it names none."""
        return tuple((layer, head) for layer, head in self.generation.get("alignment_heads") or ())


def from_shape(name: str, seed: int) -> Start:
    """A network from scratch. Raises `OptionError` for an unknown shape."""
    pattern = load_checkpoint(VOCABULARY_OF)
    dims = shaped(pattern.dims, name)
    folder = pattern.folder
    config = read_json(folder / "config.json") | shape_config(dims)
    generation = read_json(folder / "generation_config.json")
    for name in ("alignment_heads", "short_windows"):  # of the pattern's weights
        generation.pop(name, None)
    return Start(new_network(dims, seed), pattern.tokenizer, folder, config, generation)


def from_checkpoint(checkpoint: Checkpoint) -> Start:
    """The weights of a checkpoint in the layout of Hugging Face or faster-whisper.

    Raises `CheckpointError` for any other, or one whose tokenizer lacks tokens.
    """
    config, generation = read_configs(checkpoint, "to train from")
    checkpoint.tokenizer.check_whole()
    return Start(load_network(checkpoint), checkpoint.tokenizer, checkpoint.folder, config, generation)


def grown(start: Start, shape: str, seed: int) -> Start:
    """The same in a larger shape, to be trained (`growth`). Raises `OptionError`."""
    before = start.network.dims
    dims = shaped(before, shape)
    network = grow(start.network, dims, seed)
    _, added = Widening(before, dims).layers("decoder")
    heads = start.alignment_heads or guided_heads(before)
    return replace(
        start,
        network=network,
        config=start.config | shape_config(dims),
        generation=start.generation | {"alignment_heads": [[layer + added, head] for layer, head in heads]},
        characters=None,
    )


def write_companions(start: Start, folder: Path) -> None:
    """Everything of a checkpoint but its weights, into a folder that exists. Raises OSError."""
    copy_companions(start.folder, folder)
    write_json(folder / "config.json", start.config)
    write_json(folder / "generation_config.json", start.generation)


def write_checkpoint(start: Start, folder: Path, dtype: type[np.float16 | np.float32]) -> None:
    """A whole checkpoint in Hugging Face layout, into a folder that exists. Raises OSError and `CheckpointError`."""
    save_tensors(start.network, folder / "model.safetensors", dtype)
    write_companions(start, folder)
    config = start.config | {"torch_dtype": np.dtype(dtype).name}
    config.pop("dtype", None)  # the newer name of the same
    write_json(folder / "config.json", config)
