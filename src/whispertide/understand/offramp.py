"""The trained offramp of a network for commands."""

from pathlib import Path

from whispertide.methods.pilot.trained_offramp import KIND, Trained, TrainedOfframp
from whispertide.understand.checkpoint import LateCheckpoint


def load_offramp(folder: Path, network: LateCheckpoint, kind: Trained) -> TrainedOfframp:
    """The one next to a network, which lies in `folder`. Raises as `TrainedOfframp.load` does."""
    path = KIND.place(folder, kind)
    return TrainedOfframp.load(path, kind, width=network.dims.width, content_hash=network.content_hash)
