"""The causal checkpoints that the authors of WhisperRT publish: a `.pt` with base weights, adapters and block sizes.

    dims         as in OpenAI's checkpoints
    cfg          gran: frames in a block; extra_gran_blocks: how many blocks more the first one has; rank
    state_dict   OpenAI's names, where each projection of an attention is three tensors:
                     ...attn.query.base_layer.weight          [out, in], and .bias
                     ...attn.query.lora_layer.lora_A, lora_B  [in, rank] and [rank, out]; x @ A @ B is added

So the file is a plain Whisper and an adapter; this module tells the two apart. The layout is that of
tomer9080/CarelessWhisper-Streaming at 09345ba, `load_streaming_model`. Knows nothing of what is done with them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whispertide.checkpoint.layout import from_openai_name
from whispertide.checkpoint.torch_zip import TorchTensor, TorchZip
from whispertide.errors import CheckpointError
from whispertide.types import FloatArray

_KEYS = {"dims", "cfg", "state_dict"}
_BASE = ".base_layer."
_ADAPTER = ".lora_layer.lora_"
_OUTER = "model."  # of a training that kept the model as a part of something


@dataclass(frozen=True, slots=True)
class _Published:
    """An adapter as `causal.CausalAdapter` has it, matrices (A [rank, in], B [out, rank]) by canonical name."""

    rank: int
    block: int
    first: int
    matrices: Mapping[str, tuple[FloatArray, FloatArray]]


def has_layout(root: object) -> bool:
    """True if this is the root object of such a file."""
    return isinstance(root, dict) and root.keys() >= _KEYS


def is_published(path: Path) -> bool:
    """True if the file is such a checkpoint. Raises `CheckpointError` if it cannot be read."""
    return has_layout(TorchZip(path).root)


def base_state(state: Mapping[Any, Any]) -> dict[str, Any]:
    """Extract the tensors of the plain Whisper, by OpenAI's names."""
    names = ((str(name).removeprefix(_OUTER), tensor) for name, tensor in state.items())
    return {
        name.replace(_BASE, "."): tensor
        for name, tensor in names
        if _ADAPTER not in name and name != "encoder.mask"  # which can be computed
    }


def published_adapter(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> _Published:
    """Extract the adapter of weights with these names and `shapes` [out, in].

    Raises `CheckpointError` where it is damaged, incomplete or of other weights.
    """
    file = TorchZip(path)
    try:
        config, state = file.root["cfg"], file.root["state_dict"]
        block, extra, rank = (int(config[name]) for name in ("gran", "extra_gran_blocks", "rank"))
        pairs = dict(_pairs(state))
        matrices = {name: (file.read(a).T, file.read(b).T) for name, (a, b) in pairs.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"expected a causal checkpoint as its authors publish it, {path} lacks a part ({error}): download it again"
        ) from error
    wrong = [name for name in sorted({*shapes, *matrices}) if not _fits(matrices.get(name), shapes.get(name), rank)]
    if wrong or rank < 1 or block < 1 or extra < 0:
        raise CheckpointError(
            f"expected adapters of rank {rank} with finite numbers for {len(shapes)} weights, and blocks of 1 frame or "
            f"more in {path}; {len(wrong)} are missing or others ({', '.join(wrong[:3])}), and there are blocks of "
            f"{block}, {extra} more at first: download it again"
        )
    as_float = {name: (np.asarray(a, np.float32), np.asarray(b, np.float32)) for name, (a, b) in matrices.items()}
    return _Published(rank, block, block * (extra + 1), as_float)


def _fits(pair: tuple[FloatArray, FloatArray] | None, shape: tuple[int, ...] | None, rank: int) -> bool:
    """True if B @ A can be added to a weight of this shape."""
    if pair is None or shape is None:
        return False
    a, b = pair
    return (a.shape, b.shape) == ((rank, shape[1]), (shape[0], rank)) and bool(
        np.isfinite(a).all() & np.isfinite(b).all()
    )


def _pairs(state: Mapping[Any, Any]) -> Iterator[tuple[str, tuple[TorchTensor, TorchTensor]]]:
    for stored, tensor in state.items():
        stem, _, letter = str(stored).rpartition(_ADAPTER)
        if letter == "A":
            name = from_openai_name(f"{stem.removeprefix(_OUTER)}.weight")
            yield str(name), (tensor, state[f"{stem}{_ADAPTER}B"])
