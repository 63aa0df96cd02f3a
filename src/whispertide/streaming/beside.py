"""What is kept beside a checkpoint: where that is, and what the command that makes it calls the model."""

from pathlib import Path
from typing import TYPE_CHECKING

from whispertide.checkpoint.hub import path
from whispertide.errors import WhispertideError

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel


def folder_of(model: "WhisperModel") -> Path:
    """Where `whispertide train truncation` and `train hush` put what they make."""
    return model.checkpoint.tensors.files[0].parent


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
