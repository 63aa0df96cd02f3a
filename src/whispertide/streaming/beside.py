"""What is kept beside a checkpoint: where that is, and what the command that makes it calls the model."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from whispertide.checkpoint.hub import path
from whispertide.errors import WhispertideError

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel


def folder_of(model: "WhisperModel") -> Path:
    """Where `whispertide train truncation` and `train hush` put what they make."""
    return model.checkpoint.tensors.files[0].parent


def digest_beside(model: "WhisperModel") -> str:
    """A hash over what, beside the weights, decides what a recipe hears with them: generation settings, hush words, the
    detector of cut words. 12 hexadecimal digits.
    """
    digest = hashlib.sha256(repr(model.generation).encode())
    for pattern in ("hush-*.npz", "hush-*.csv", "truncation.npz"):
        for file in sorted(folder_of(model).glob(pattern)):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def command_name(model: "WhisperModel") -> str:
    """What the command line calls the model: its name, or for the user's own files their path."""
    weights = model.checkpoint.tensors.files[0]
    try:
        place = path(model.name)
    except WhispertideError:
        place = None
    if place in (weights, weights.parent):
        return model.name
    return str(weights if weights.suffix == ".pt" else weights.parent)
